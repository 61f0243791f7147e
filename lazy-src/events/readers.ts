import type { Credential } from '../auth/authenticator.ts'
import type { Refusal } from '../auth/jwt.ts'
import type { Clock } from '../clock.ts'
import { AddressCount } from '../http/address-count.ts'
import type { Limits } from '../limits.ts'
import { Problem } from '../problem.ts'
import type { EventLog } from './event-log.ts'

/** Why a reader must end: its credential does not hold any more, or the service stops. */
export type End = Refusal | 'shutting down'

/** An open stream or a held poll: a cursor into the log, and a client to tell. */
export interface Reader {
  readonly credential: Credential
  /** Whom its address stands for. */
  readonly network: string
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
  readonly refusalNow: (credential: Credential, now: number) => Refusal | undefined
  readonly clock: Clock
  /** Whether the next event is on its way already. */
  readonly moreToCome: () => boolean
}

/** Seconds after which a refused client may try again. */
const RETRY_AFTER_S = 5
/** Milliseconds of a wake that is too short to rest after. */
const SHORT_WAKE_MS = 1

/** Everyone who waits for events: bounded in number, woken together, ended when their credential ends. */
export class Readers {
  readonly #options: ReadersOptions
  readonly #readers = new Set<Reader>()
  readonly #perNetwork: AddressCount
  #next: NodeJS.Immediate | undefined
  #isResting = false
  /** There are events to tell of when the rest is over. */
  #isAwaited = false
  #isClosed = false
  readonly #heartbeat: NodeJS.Timeout

  constructor(log: EventLog, options: ReadersOptions) {
    this.#options = options
    this.#perNetwork = new AddressCount(options.limits.streamsPerAddress)
    log.onAppend(() => this.#scheduleWake())
    this.#heartbeat = setInterval(() => this.#forEach(reader => reader.tick()), options.limits.heartbeatS * 1000)
    this.#heartbeat.unref()
  }

  get size(): number {
    return this.#readers.size
  }

  /**
   * Checks that there is room for one more reader of a network.
   * @throws {Problem} 503 or 429 with Retry-After.
   */
  requireRoom(network: string): void {
    const { streams, streamsPerAddress } = this.#options.limits
    const headers = ['Retry-After', String(RETRY_AFTER_S)]
    if (this.#isClosed) throw new Problem('unavailable', 'The service is shutting down.', { headers })
    if (this.#readers.size >= streams)
      throw new Problem('unavailable', `All ${streams} event streams and held polls are taken.`, { headers })
    if (!this.#perNetwork.hasRoom(network))
      throw new Problem(
        'too-many-streams',
        `All ${streamsPerAddress} streams and held polls of this address are taken.`,
        {
          headers,
        },
      )
  }

  add(reader: Reader): void {
    this.#perNetwork.enter(reader.network)
    this.#readers.add(reader)
  }

  /** Gives its place back; a second call does nothing. */
  remove(reader: Reader): void {
    if (this.#readers.delete(reader)) this.#perNetwork.leave(reader.network)
  }

  /** Ends every reader whose credential does not hold any more. */
  endRefused(): void {
    this.#forEach(() => undefined)
  }

  /** Ends every reader and the heartbeat. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#heartbeat)
    for (const reader of this.#readers) reader.end('shutting down')
  }

  /**
   * One wake for all events of a turn of the event loop, and where more changes wait already, a rest as long as the wake
   * before the next: a burst costs a reader one write. Without the rest each PATCH of a burst would wait for all readers
   * to be told of the one before: 10,000 streams and 64 PATCHes at once are six times as fast by it.
   */
  #scheduleWake(): void {
    if (this.#isResting && this.#options.moreToCome()) this.#isAwaited = true
    else this.#next ??= setImmediate(() => this.#wake())
  }

  #wake(): void {
    this.#next = undefined
    this.#isAwaited = false
    const start = performance.now()
    this.#forEach(reader => reader.wake())
    const restMs = performance.now() - start
    if (restMs < SHORT_WAKE_MS || this.#isResting) return
    this.#isResting = true
    setTimeout(() => {
      this.#isResting = false
      if (this.#isAwaited && !this.#next) this.#wake()
    }, restMs)
  }

  /** No event after `exp`, and none under a key that was replaced. */
  #forEach(act: (reader: Reader) => void): void {
    const { refusalNow, clock } = this.#options
    const now = clock.now()
    for (const reader of this.#readers) {
      const refusal = refusalNow(reader.credential, now)
      if (refusal === undefined) act(reader)
      else reader.end(refusal)
    }
  }
}
