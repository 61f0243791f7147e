import type { Monitor } from '../../../hal/os/command.ts'

/** Commands that keep running, and print what a test makes them print. */
export class FakeMonitors {
  readonly #running = new Set<{ readonly command: string; readonly line: (line: string) => void }>()

  readonly monitor: Monitor = (argv, line) => {
    const one = { command: argv.join(' '), line }
    this.#running.add(one)
    return () => this.#running.delete(one)
  }

  /** The commands that run, with their arguments. */
  get running(): readonly string[] {
    return Array.from(this.#running, ({ command }) => command)
  }

  /** Makes the commands that begin with `prefix` print a line. */
  print(prefix: string, line: string): void {
    for (const one of this.#running) if (one.command.startsWith(prefix)) one.line(line)
  }

  /** The kernel reports a device, as udevadm(8) prints it. */
  tell(action: 'add' | 'change' | 'remove', subsystem: string): void {
    this.print(
      'udevadm monitor',
      `KERNEL[12.345678] ${action.padEnd(8)} /devices/virtual/${subsystem}/one (${subsystem})`,
    )
  }
}
