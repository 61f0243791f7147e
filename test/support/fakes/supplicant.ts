import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

const PROGRAM = fileURLToPath(new URL('./wpa_supplicant.py', import.meta.url))

/** A station as it is on the air. */
export interface Station {
  readonly ssid: string | Buffer
  readonly password?: string
  readonly level?: number
  readonly flags?: string
}

/** A fake behind wpa_supplicant's control socket: a process, because Node has no Unix datagram sockets. */
export class FakeSupplicant {
  readonly #child: ChildProcess
  readonly #lines: Interface
  readonly #said: string[] = []

  private constructor(child: ChildProcess, lines: Interface) {
    this.#child = child
    this.#lines = lines
    lines.on('line', line => this.#said.push(line))
  }

  /** @param args See wpa_supplicant.py. */
  static async start(
    t: Test,
    args: readonly string[],
    command: readonly string[] = ['python3'],
  ): Promise<FakeSupplicant> {
    const [program = '', ...before] = command
    const child = spawn(program, [...before, PROGRAM, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
    const fake = new FakeSupplicant(child, createInterface({ input: child.stdout }))
    t.teardown(() => fake.stop())
    await fake.#until('ready')
    return fake
  }

  /** Changes what is on the air; with `then`, waits until the daemon prints that line. */
  async air(stations: readonly Station[], then?: string): Promise<void> {
    const all = stations.map(({ ssid, password = '', level = -50, flags = '[ESS]' }) => {
      return { ssid: Buffer.from(ssid).toString('hex'), password, level, flags }
    })
    const said = this.#said.length
    this.#child.stdin?.write(`${JSON.stringify(all)}\n`)
    if (then !== undefined) await this.#until(then, said)
  }

  /** Calls `act` each time the daemon has joined or left a network. */
  onJoined(act: () => void): void {
    this.#lines.on('line', line => {
      if (line.startsWith('in ')) act()
    })
  }

  /** Its output: `in NAME`, `in none`, `scan N`. */
  get said(): readonly string[] {
    return this.#said
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.stdin?.writableEnded) return
    const ended = once(this.#child, 'exit')
    this.#child.stdin?.end()
    await ended
  }

  async #until(line: string, from = 0): Promise<void> {
    while (!this.#said.slice(from).includes(line)) await once(this.#lines, 'line')
  }
}
