import type { Socket } from 'node:net'
import type { Credential } from '../auth/authenticator.ts'
import type { Leaver } from '../http/reply.ts'
import type { EventLog, Position } from './event-log.ts'
import type { End, Reader } from './readers.ts'
import type { Resync } from './resync.ts'

const HEARTBEAT = Buffer.from(':\n\n')
const MIN_RETRY_MS = 1_000
const MAX_RETRY_MS = 3_000
const NOTHING = Buffer.alloc(0)

/**
 * What a stream opens with: how long to wait before reconnecting, spread so that not all clients come back at once
 * after a restart, and the id from which the stream goes on, so that a client which is cut off before the first event
 * resumes too. `id` is absent before a resync: a connection cut in it must come back with the id that it had.
 */
export function preamble(random: number, id: string | undefined): string {
  const retryMs = MIN_RETRY_MS + Math.floor(random * (MAX_RETRY_MS - MIN_RETRY_MS))
  return `retry: ${retryMs}\n: receiverd\n${id === undefined ? '' : `id: ${id}\n`}\n`
}

/** What all streams share. */
export interface StreamOptions {
  readonly log: EventLog
  readonly resync: Resync
  readonly stallMs: number
  /** Called when a client is gone, or was let go. */
  readonly leave: (reader: Reader) => void
}

/**
 * A stream of Server-Sent Events. It is a cursor, not a queue: what the socket does not take stays in the log, once for
 * everybody, and a client that was away for longer than the log reaches is resynced in its place.
 */
export class StreamReader implements Reader, Leaver {
  readonly credential: Credential
  readonly network: string
  readonly #options: StreamOptions
  readonly #socket: Socket
  #cursor: Position | 'unknown'
  /** A write is still on its way into the kernel: the client reads slowly, or not at all. */
  #blocked = false
  #ended = false

  /** @param cursor Where the client stands; `unknown` resyncs it first. */
  constructor(
    options: StreamOptions,
    socket: Socket,
    credential: Credential,
    network: string,
    cursor: Position | 'unknown',
  ) {
    this.#options = options
    this.#socket = socket
    this.credential = credential
    this.network = network
    this.#cursor = cursor
  }

  wake(): void {
    const { log, resync } = this.#options
    while (!this.#blocked && !this.#ended) {
      if (this.#cursor === 'unknown' || !log.holds(this.#cursor)) {
        this.#cursor = log.head
        this.#write(resync.frames)
      } else if (this.#cursor < log.head) {
        const { bytes, next } = log.frames(this.#cursor)
        this.#cursor = next
        this.#write(bytes)
      } else return
    }
  }

  tick(): void {
    if (!this.#blocked) this.#write(HEARTBEAT)
  }

  end(why: End): void {
    if (this.#ended) return
    this.cancel()
    // Behind a client that does not read, the reason would wait as long as the client does.
    if (this.#blocked) this.#socket.destroy()
    // Nor is the connection kept for a client that never closes its side.
    else this.#socket.setTimeout(this.#options.stallMs).end(`: ${why}\n\n`, () => this.#socket.destroy())
  }

  /** What the kernel takes at once costs nothing more; what it does not is waited for, and nothing is written behind it. */
  #write(bytes: Buffer): void {
    this.#socket.write(bytes)
    if (this.#socket.writableLength === 0) return
    this.#blocked = true
    const stalled = setTimeout(() => this.#socket.destroy(), this.#options.stallMs)
    // The callback of an empty write runs when everything before it is in the kernel. `drain` would not do: below the
    // high-water mark the socket never says it.
    this.#socket.write(NOTHING, error => {
      clearTimeout(stalled)
      if (error) return
      this.#blocked = false
      this.wake()
    })
  }

  cancel(): void {
    this.#ended = true
    this.#options.leave(this)
  }
}
