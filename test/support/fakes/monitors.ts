import type { Monitor } from '../../../hal/os/command.ts'

/** Commands that go on by themselves, and print what a test has them print. */
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

  /** The commands that begin like this print a line. */
  print(prefix: string, line: string): void {
    for (const one of this.#running) if (one.command.startsWith(prefix)) one.line(line)
  }

  /** The kernel tells of a device, as udevadm(8) prints it. */
  tell(action: 'add' | 'change' | 'remove', subsystem: string): void {
    this.print(
      'udevadm monitor',
      `KERNEL[12.345678] ${action.padEnd(8)} /devices/virtual/${subsystem}/one (${subsystem})`,
    )
  }
}
