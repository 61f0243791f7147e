import type { Socket } from 'node:net'
import type { Credential } from '../auth/authenticator.ts'
import type { Cancelable } from '../http/reply.ts'
import { encodeFrame, type Position } from './event-log.ts'
import type { End, Reader } from './reader.ts'
import type { Topic } from './topic.ts'

const HEARTBEAT = Buffer.from(':\n\n')
/** The last event of a stream that the service ends. It has no id, so a client resumes from the event before it. */
export const CLOSED = 'events.closed'
const MIN_RETRY_MS = 1_000
const MAX_RETRY_MS = 3_000
const NOTHING = Buffer.alloc(0)

/**
 * Returns the first block of a stream. It has the time to wait before reconnecting, which is random so that clients do not
 * all return at once after a restart, and the id from which the stream continues, so that a client that is disconnected
 * before its first event can resume.
 * @param id Undefined before a resync: a client that is disconnected during it must return with its previous id.
 */
export function preamble(random: number, id: string | undefined): string {
  const retryMs = MIN_RETRY_MS + Math.floor(random * (MAX_RETRY_MS - MIN_RETRY_MS))
  return `retry: ${retryMs}\n: receiverd\n${id === undefined ? '' : `id: ${id}\n`}\n`
}

/** Options that all streams of a topic share. */
export interface StreamOptions {
  readonly topic: Topic
  /** Milliseconds after which a client that does not read is disconnected. */
  readonly stallMs: number
  /** Called when a stream has ended. */
  readonly leave: (reader: Reader) => void
}

/**
 * A stream of Server-Sent Events. It is a cursor, not a queue: events that the socket does not accept stay in the log, once
 * for all clients, and a client that falls behind the log is resynced.
 */
export class StreamReader implements Reader, Cancelable {
  readonly credential: Credential
  readonly network: string
  readonly #options: StreamOptions
  readonly #socket: Socket
  #cursor: Position | 'unknown'
  /** Whether a write has not reached the kernel yet, because the client reads slowly or not at all. */
  #blocked = false
  #ended = false

  /** @param cursor The client's position; `unknown` resyncs the client first. */
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

  get isHeld(): boolean {
    return false
  }

  get topic(): Topic {
    return this.#options.topic
  }

  wake(): void {
    const { log, resync } = this.#options.topic
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
    // A client that does not read would not see the reason for an unlimited time.
    if (this.#blocked) this.#socket.destroy()
    // A client that never closes its side must not keep the connection open, either.
    else {
      const last = encodeFrame(CLOSED, JSON.stringify({ reason: why }))
      this.#socket.setTimeout(this.#options.stallMs).end(last, () => this.#socket.destroy())
    }
  }

  /** Writes what the kernel takes at once. If some bytes remain, writes nothing more until they have been taken. */
  #write(bytes: Buffer): void {
    this.#socket.write(bytes)
    if (this.#socket.writableLength === 0) return
    this.#blocked = true
    const stalled = setTimeout(() => this.#socket.destroy(), this.#options.stallMs)
    // The callback of an empty write runs once everything before it is in the kernel. `drain` would not work: it is never
    // emitted below the high-water mark.
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
