import type { Socket } from 'node:net'
import { Problem } from '../problem.ts'

/** A handler's response, which the server writes. Headers are alternating names and values. */
export type Reply = WholeReply | HeldReply | StreamReply

export interface WholeReply {
  readonly status: number
  readonly headers: readonly string[]
  /** Absent for 204 and 304. */
  readonly body?: Buffer
  /** The content at this path never changes, so browsers may cache it forever. */
  readonly isImmutable?: true
}

/**
 * A response that is given later. The server calls `hold` at once with the answerer, which must be called exactly once, and
 * not before `hold` has returned.
 */
export interface HeldReply {
  hold(answerer: Answerer): Held
}

export interface Answerer {
  answer(reply: WholeReply | Problem): void
}

export interface Cancelable {
  /** Frees the place, because the connection has closed or there is nothing left to wait for. */
  cancel(): void
}

export interface Held extends Cancelable {
  /** Answers now, because the time is up or another request has arrived on the connection. */
  release(): void
}

/** A 200 whose body is open-ended. `open` is called once `preamble` is written, and owns the socket from then on. */
export interface StreamReply {
  readonly headers: readonly string[]
  /** The first part of the body. */
  readonly preamble: string
  readonly open: (socket: Socket) => Cancelable
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

export function problemReply(problem: Problem): WholeReply {
  return {
    status: problem.status,
    headers: ['Content-Type', 'application/problem+json', ...problem.headers],
    body: problem.body(),
  }
}

export function wholeOf(reply: WholeReply | Problem): WholeReply {
  return reply instanceof Problem ? problemReply(reply) : reply
}
