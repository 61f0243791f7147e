import { type Credential, invalidToken } from '../auth/authenticator.ts'
import type { Refusal } from '../auth/jwt.ts'
import { formatEtag } from '../http/conditional.ts'
import { json, type WholeReply } from '../http/reply.ts'
import type { EventLog, Position } from './event-log.ts'
import type { End, Reader } from './readers.ts'
import type { Resync } from './resync.ts'

/** What a poll is answered with: everything after its cursor that fits one answer, and the id to go on from. */
export function pollAnswer(log: EventLog, resync: Resync, cursor: Position | 'unknown'): WholeReply {
  if (cursor === 'unknown' || !log.holds(cursor)) return json(resync.array, ['ETag', formatEtag(log.latestId)])
  if (cursor === log.head) return { status: 304, headers: ['ETag', formatEtag(log.latestId)] }
  const { bytes, next } = log.array(cursor)
  return json(bytes, ['ETag', formatEtag(log.idAt(next))])
}

export interface HeldPollOptions {
  readonly credential: Credential
  /** Milliseconds until it is answered that nothing has changed. */
  readonly holdMs: number
  /** Milliseconds until `exp` of its token. */
  readonly validMs: number
  readonly refusalNow: () => Refusal | undefined
  /** Whether there are events after its cursor. */
  readonly hasNews: () => boolean
  readonly answer: () => WholeReply
  /** Called once, when it is over in whatever way. */
  readonly leave: () => void
}

/** A poll that waits for an event, for its time, or for the end of its credential. */
export class HeldPoll implements Reader {
  readonly credential: Credential
  /** Rejects with a 401 where the credential ends first. */
  readonly reply: Promise<WholeReply>
  readonly #options: HeldPollOptions
  #resolve: (reply: WholeReply) => void = () => undefined
  #reject: (error: Error) => void = () => undefined
  readonly #timer: NodeJS.Timeout

  constructor(options: HeldPollOptions) {
    this.#options = options
    this.credential = options.credential
    this.reply = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.#timer = setTimeout(() => this.#timeout(), Math.min(options.holdMs, options.validMs))
  }

  wake(): void {
    // The event of this wake may be the one that the cursor stands at, when both came in one turn of the event loop.
    if (this.#options.hasNews()) this.#answer()
  }

  tick(): void {}

  end(why: End): void {
    if (why === 'shutting down') return this.#answer()
    this.cancel()
    this.#reject(invalidToken(why))
  }

  /** The client has left: nothing is answered, and its place is free at once. */
  cancel(): void {
    clearTimeout(this.#timer)
    this.#options.leave()
  }

  #timeout(): void {
    const refusal = this.#options.refusalNow()
    if (refusal === undefined) this.#answer()
    else this.end(refusal)
  }

  #answer(): void {
    this.cancel()
    this.#resolve(this.#options.answer())
  }
}
