import { STATUS_CODES } from 'node:http'
import type { Clock } from '../clock.ts'
import { MAX_HOLD_S } from '../limits.ts'
import type { WholeReply } from './reply.ts'

/** Sent with every response: only this client may use it, only once, and only as the declared type. */
const COMMON = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
/** Sent with files that never change: cacheable for a year, the most that caches heed, without revalidation (RFC 8246). */
const IMMUTABLE = ['Cache-Control', 'public, max-age=31536000, immutable', 'X-Content-Type-Options', 'nosniff']
export const CLOSE = ['Connection', 'close']
/** Connections are actually kept for longer (`IDLE_MS`), so that no request crosses the end of its connection. */
const KEEP_ALIVE = ['Connection', 'keep-alive', 'Keep-Alive', `timeout=${MAX_HOLD_S}`]
/** Up to this size, head and body are joined into one buffer. A larger body is sent to all clients without a copy. */
const MAX_JOINED_BYTES = 16 * 1024

interface Encoded {
  readonly reply: WholeReply
  readonly cors: readonly string[]
  readonly isLast: boolean
  readonly date: string
  readonly bytes: readonly Buffer[]
}

/** Returns the headers that all responses of a kind have in common. */
export function commonHeaders({ isImmutable }: WholeReply): readonly string[] {
  return isImmutable ? IMMUTABLE : COMMON
}

export function contentLength(body: Buffer | undefined): readonly string[] {
  return body ? ['Content-Length', String(body.length)] : []
}

/** Encodes responses as bytes (RFC 9112 §4). */
export class Encoder {
  readonly #clock: Clock
  #second = Number.NaN
  #date = ''
  /** The last response. Most equal the one before: one event for thousands of polls, or GET after GET. */
  #last: Encoded | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns the head: the status line, `Date`, and the given headers. */
  head(status: number, ...parts: readonly (readonly string[])[]): string {
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nDate: ${this.#now()}\r\n`
    for (const headers of parts)
      for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`
    return `${head}\r\n`
  }

  /**
   * Encodes a whole response, as one or two buffers.
   * @param isLast Whether the connection ends after it.
   */
  whole(reply: WholeReply, cors: readonly string[], isLast: boolean): readonly Buffer[] {
    const date = this.#now()
    const last = this.#last
    if (last?.reply === reply && last.cors === cors && last.isLast === isLast && last.date === date) return last.bytes
    const { status, headers, body } = reply
    const length = contentLength(body)
    const connection = isLast ? CLOSE.filter(() => !headers.includes('Connection')) : KEEP_ALIVE
    const head = Buffer.from(this.head(status, commonHeaders(reply), cors, headers, length, connection))
    const pieces = body ? [head, body] : [head]
    const bytes = body && body.length <= MAX_JOINED_BYTES ? [Buffer.concat(pieces)] : pieces
    this.#last = { reply, cors, isLast, date, bytes }
    return bytes
  }

  #now(): string {
    const now = this.#clock.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#date = new Date(now).toUTCString()
    }
    return this.#date
  }
}
