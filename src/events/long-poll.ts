import type { Authenticator, Credential } from '../auth/authenticator.ts'
import { RefusedCredential } from '../auth/challenge.ts'
import { formatEtag } from '../http/conditional.ts'
import { type Answerer, type Held, type HeldReply, json, type WholeReply, withHeaders } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { Position } from './event-log.ts'
import type { End, Reader } from './reader.ts'
import type { Readers } from './readers.ts'
import type { Topic } from './topic.ts'

/** The responses to polls of a topic: the same object for all polls at one position, so that it is encoded only once. */
export class PollAnswers {
  readonly #topic: Topic
  #last: { readonly id: string; readonly body: Buffer | undefined; readonly reply: WholeReply } | undefined

  constructor(topic: Topic) {
    this.#topic = topic
  }

  /** Returns the events after a cursor, as many as fit into one response, and the id to continue from; 304 without events. */
  after(cursor: Position | 'unknown'): WholeReply {
    const { log, resync } = this.#topic
    if (cursor === 'unknown' || !log.holds(cursor)) return this.#reply(log.latestId, resync.array)
    if (cursor === log.head) return this.#reply(log.latestId, undefined)
    const { bytes, next } = log.array(cursor)
    return this.#reply(log.idAt(next), bytes)
  }

  #reply(id: string, body: Buffer | undefined): WholeReply {
    if (this.#last?.id === id && this.#last.body === body) return this.#last.reply
    const etag = ['ETag', formatEtag(id)]
    const reply = body ? json(body, etag) : { status: 304, headers: etag }
    this.#last = { id, body, reply }
    return reply
  }
}

/** Shared by all polls of a topic. */
export interface HeldPollOptions {
  readonly topic: Topic
  readonly answers: PollAnswers
  readonly authenticator: Authenticator
  readonly readers: Readers
}

/** A poll that waits for an event, for its time to run out, or for its credential to expire. */
export class HeldPoll implements HeldReply, Held, Reader {
  readonly credential: Credential
  readonly network: string
  readonly #options: HeldPollOptions
  readonly #cursor: Position
  readonly #holdMs: number
  readonly #headers: readonly string[]
  #answerer: Answerer | undefined
  #timer: NodeJS.Timeout | undefined

  /**
   * @param holdMs Milliseconds after which the poll is answered without events.
   * @param headers Additional headers for the response.
   */
  constructor(
    options: HeldPollOptions,
    request: Request,
    credential: Credential,
    cursor: Position,
    holdMs: number,
    headers: readonly string[],
  ) {
    this.#options = options
    this.credential = credential
    this.network = request.network
    this.#cursor = cursor
    this.#holdMs = holdMs
    this.#headers = headers
  }

  get isHeld(): boolean {
    return true
  }

  get topic(): Topic {
    return this.#options.topic
  }

  hold(answerer: Answerer): Held {
    const { readers, authenticator } = this.#options
    this.#answerer = answerer
    this.#timer = setTimeout(timeOut, Math.min(this.#holdMs, authenticator.validMs(this.credential)), this)
    readers.add(this)
    return this
  }

  wake(): void {
    // The cursor may already include the event of this wake, if both arrived in one turn of the event loop.
    if (this.#cursor !== this.topic.head) this.#answer()
  }

  tick(): void {}

  end(why: End): void {
    if (why === 'shutting down') return this.#answer()
    this.cancel()
    this.#answerer?.answer(new RefusedCredential(why))
  }

  release(): void {
    const refusal = this.#options.authenticator.refusalNow(this.credential)
    if (refusal === undefined) this.#answer()
    else this.end(refusal)
  }

  cancel(): void {
    clearTimeout(this.#timer)
    this.#options.readers.remove(this)
  }

  #answer(): void {
    this.cancel()
    this.#answerer?.answer(withHeaders(this.#options.answers.after(this.#cursor), this.#headers))
  }
}

/** A single function for all polls, instead of a closure for each. */
function timeOut(poll: HeldPoll): void {
  poll.release()
}
