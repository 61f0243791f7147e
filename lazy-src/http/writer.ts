import { STATUS_CODES } from 'node:http'
import type { Clock } from '../clock.ts'
import { MAX_HOLD_S } from '../limits.ts'
import type { WholeReply } from './reply.ts'

/** On every answer: what it says is of this moment and for this client, and it is what its type says. */
export const COMMON = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
/** Bytes of an answer that are copied into one piece. More is left as it is, for all who are sent the same. */
const MAX_JOINED_BYTES = 16 * 1024

/** It is kept for longer: a request that crosses the end of its connection would be lost. */
const KEEP_ALIVE = ['Connection', 'keep-alive', 'Keep-Alive', `timeout=${MAX_HOLD_S}`]
export const CLOSE = ['Connection', 'close']

interface Encoded {
  readonly reply: WholeReply
  readonly cors: readonly string[]
  readonly isLast: boolean
  readonly date: string
  readonly bytes: readonly Buffer[]
}

export function contentLength(body: Buffer | undefined): readonly string[] {
  return body ? ['Content-Length', String(body.length)] : []
}

/** Answers as bytes (RFC 9112 §4). */
export class Encoder {
  readonly #clock: Clock
  #second = Number.NaN
  #date = ''
  /** The last answer: most are the same as the one before, to thousands of polls at once or to GET upon GET. */
  #last: Encoded | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A status line, `Date`, and headers: names and values in turn. */
  head(status: number, ...parts: readonly (readonly string[])[]): string {
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nDate: ${this.#now()}\r\n`
    for (const headers of parts)
      for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`
    return `${head}\r\n`
  }

  /**
   * A whole answer, in one piece or two.
   * @param isLast Whether the connection ends with it.
   */
  whole(reply: WholeReply, cors: readonly string[], isLast: boolean): readonly Buffer[] {
    const date = this.#now()
    const last = this.#last
    if (last?.reply === reply && last.cors === cors && last.isLast === isLast && last.date === date) return last.bytes
    const { status, headers, body } = reply
    const length = contentLength(body)
    const head = Buffer.from(this.head(status, COMMON, cors, headers, length, isLast ? CLOSE : KEEP_ALIVE))
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
