import type { Socket } from 'node:net'
import type { Problem } from '../problem.ts'

/** What a handler answers with; the server writes it. Header names and values stand in turn. */
export type Reply = WholeReply | HeldReply | StreamReply

export interface WholeReply {
  readonly status: number
  readonly headers: readonly string[]
  /** None for 204 and 304. */
  readonly body?: Buffer
}

/** An answer that is given later. `hold` is called at once with what takes it: once, and not before `hold` returns. */
export interface HeldReply {
  hold(answerer: Answerer): Held
}

export interface Answerer {
  answer(reply: WholeReply | Problem): void
}

/** Somebody who waits on a connection. */
export interface Leaver {
  /** Gives up the place: the connection has ended, or there is no more to wait for. */
  cancel(): void
}

export interface Held extends Leaver {
  /** Gives the answer now: its time is over, or something else is asked for on the connection, and comes after it. */
  release(): void
}

/** A 200 that goes on: after `preamble` the socket belongs to `open`, which is called at once, until it ends it. */
export interface StreamReply {
  readonly headers: readonly string[]
  /** The first of the body. */
  readonly preamble: string
  readonly open: (socket: Socket) => Leaver
}

export function json(body: Buffer, headers: readonly string[] = []): WholeReply {
  return {
    status: 200,
    headers: ['Content-Type', 'application/json', ...headers],
    body,
  }
}

export function withHeaders(reply: WholeReply, headers: readonly string[]): WholeReply {
  return headers.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...headers] }
}
