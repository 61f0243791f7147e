import type { Socket } from 'node:net'

/** What a handler answers with; the server writes it. Header names and values stand in turn. */
export type Reply = WholeReply | StreamReply

export interface WholeReply {
  readonly status: number
  readonly headers: readonly string[]
  /** None for 204 and 304. */
  readonly body?: Buffer
}

/** A 200 that goes on: after `preamble` the socket belongs to `open`, which is called at once, until it ends it. */
export interface StreamReply {
  readonly headers: readonly string[]
  /** The first of the body. */
  readonly preamble: string
  readonly open: (socket: Socket) => void
}

export function json(body: Buffer, headers: readonly string[] = []): WholeReply {
  return {
    status: 200,
    headers: ['Content-Type', 'application/json', ...headers],
    body,
  }
}
