import type { Credential } from '../auth/authenticator.ts'
import type { Refusal } from '../auth/jwt.ts'
import { AddressCount } from '../http/address-count.ts'
import type { Limits } from '../limits.ts'
import { Problem } from '../problem.ts'
import type { EventLog } from './event-log.ts'

/** Why a reader must end: its credential does not hold any more, or the service stops. */
export type End = Refusal | 'shutting down'

/** An open stream or a held poll: a cursor into the log, and a client to tell. */
export interface Reader {
  readonly credential: Credential
  /** There are events after the cursor. */
  wake(): void
  /** Once a heartbeat. */
  tick(): void
  /** Tells the client why, as far as its transport can, and lets go of it. */
  end(why: End): void
}

export interface ReadersOptions {
  readonly limits: Pick<Limits, 'streams' | 'streamsPerAddress' | 'heartbeatS'>
  /** Why a credential does not hold any more; undefined while it does. */
  readonly refusalNow: (credential: Credential) => Refusal | undefined
}

/** Seconds after which a refused client may try again. */
const RETRY_AFTER_S = 5
/** Milliseconds of a wake that is too short to rest after. */
const SHORT_WAKE_MS = 1

/** Everyone who waits for events: bounded in number, woken together, ended when their credential ends. */
export class Readers {
  readonly #options: ReadersOptions
  readonly #readers = new Set<Reader>()
  readonly #perAddress: AddressCount
  #wakeScheduled = false
  #isResting = false
  readonly #heartbeat: NodeJS.Timeout

  constructor(log: EventLog, options: ReadersOptions) {
    this.#options = options
    this.#perAddress = new AddressCount(options.limits.streamsPerAddress)
    log.onAppend(() => this.#scheduleWake())
    this.#heartbeat = setInterval(() => this.#tick(), options.limits.heartbeatS * 1000)
    this.#heartbeat.unref()
  }

  get size(): number {
    return this.#readers.size
  }

  /**
   * Checks that there is room for one more reader from an address.
   * @throws {Problem} 503 or 429 with Retry-After.
   */
  requireRoom(address: string): void {
    const { streams, streamsPerAddress } = this.#options.limits
    const headers = ['Retry-After', String(RETRY_AFTER_S)]
    if (this.#readers.size >= streams)
      throw new Problem('unavailable', `All ${streams} event streams and held polls are taken.`, { headers })
    if (!this.#perAddress.hasRoom(address))
      throw new Problem(
        'too-many-streams',
        `All ${streamsPerAddress} streams and held polls of this address are taken.`,
        {
          headers,
        },
      )
  }

  /** Takes in what `create` makes. `leave` gives its place back; a second call does nothing. */
  add<R extends Reader>(address: string, create: (leave: () => void) => R): R {
    const countOff = this.#perAddress.enter(address)
    const reader = create(() => {
      if (this.#readers.delete(reader)) countOff()
    })
    this.#readers.add(reader)
    return reader
  }

  /** Ends every reader whose credential does not hold any more. */
  endRefused(): void {
    for (const reader of this.#readers) this.#endIfRefused(reader)
  }

  /** Ends every reader and the heartbeat. */
  close(): void {
    clearInterval(this.#heartbeat)
    for (const reader of this.#readers) reader.end('shutting down')
  }

  /**
   * One wake for all events of a turn of the event loop, and then a rest as long as the wake: a burst costs a reader one
   * write. Without the rest each PATCH of a burst would wait for all readers to be told of the one before: 10,000
   * streams and 64 PATCHes at once are six times as fast by it.
   */
  #scheduleWake(): void {
    if (this.#wakeScheduled) return
    this.#wakeScheduled = true
    if (!this.#isResting) setImmediate(() => this.#wake())
  }

  #wake(): void {
    this.#wakeScheduled = false
    const start = performance.now()
    for (const reader of this.#readers) if (!this.#endIfRefused(reader)) reader.wake()
    const restMs = performance.now() - start
    if (restMs < SHORT_WAKE_MS) return
    this.#isResting = true
    setTimeout(() => {
      this.#isResting = false
      if (this.#wakeScheduled) this.#wake()
    }, restMs)
  }

  #tick(): void {
    for (const reader of this.#readers) if (!this.#endIfRefused(reader)) reader.tick()
  }

  /** No event after `exp`, and none under a key that was replaced. */
  #endIfRefused(reader: Reader): boolean {
    const refusal = this.#options.refusalNow(reader.credential)
    if (refusal !== undefined) reader.end(refusal)
    return refusal !== undefined
  }
}
