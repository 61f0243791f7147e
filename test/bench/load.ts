import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { LOAD_CORE, pinned } from './cores.ts'
import { killAtExit } from './lifetime.ts'

/** load.c's report on the events that it published. Times are in milliseconds, except for `seconds`. */
export interface Published {
  readonly seconds: number
  readonly deliveries: number
  /** From a request to its event at a client. */
  readonly p50: number
  readonly p99: number
  /** From a request to its event at the last client. */
  readonly lastP50: number
  readonly lastP99: number
  /** From a request to its answer. */
  readonly answerP50: number
  readonly answerP99: number
}

/** The program load.c: clients that check every event. Its methods throw if one was lost, came twice or out of order. */
export class Load {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #lines: AsyncIterator<string>
  #log = ''

  constructor(argv: readonly string[]) {
    const [command = '', ...args] = pinned(LOAD_CORE, argv)
    this.#child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    killAtExit(this.#child)
    this.#child.stderr.on('data', text => {
      this.#log += text
    })
    this.#child.stdin.on('error', () => undefined)
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  /** Opens streams, or polls, and returns after how many seconds all have their answer. */
  async connect(clients: number): Promise<number> {
    const { seconds } = (await this.#tell(`connect ${clients}`)) as { readonly seconds: number }
    return seconds
  }

  /** Opens streams that are never read. */
  async stall(clients: number): Promise<void> {
    await this.#tell(`stall ${clients}`)
  }

  /** Publishes at an even pace, or as fast as answers come if `intervalMs` is 0, until every client has every event. */
  async publish(count: number, { intervalMs = 0, inFlight = 1 } = {}): Promise<Published> {
    return (await this.#tell(`publish ${count} ${intervalMs * 1_000} ${inFlight}`)) as Published
  }

  stop(): void {
    this.#child.kill('SIGKILL')
  }

  async #tell(command: string): Promise<unknown> {
    this.#child.stdin.write(`${command}\n`)
    const { value, done } = await this.#lines.next()
    if (!done) return JSON.parse(value)
    if (this.#child.exitCode === null) await once(this.#child, 'exit')
    throw new Error(`load: ${this.#log.trim()}`)
  }
}
