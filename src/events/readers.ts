import { AddressCount } from '../address-count.ts'
import type { Credential } from '../auth/authenticator.ts'
import type { Refusal } from '../auth/challenge.ts'
import type { Clock } from '../clock.ts'
import type { Limits } from '../limits.ts'
import { Problem } from '../problem.ts'
import { Audience } from './audience.ts'
import type { Reader } from './reader.ts'
import type { Topic } from './topic.ts'

export interface ReadersOptions {
  readonly limits: Pick<Limits, 'streams' | 'streamsPerAddress' | 'heartbeatS'>
  /** Returns why a credential is no longer valid; undefined while it is. */
  readonly refusalNow: (credential: Credential, now: number) => Refusal | undefined
  readonly clock: Clock
}

/** Seconds after which a refused client may try again. */
const RETRY_AFTER_S = 5

/** All readers that wait for events, of any topic: limited in number, and ended when their credential becomes invalid. */
export class Readers {
  readonly #options: ReadersOptions
  readonly #audiences = new Map<Topic, Audience>()
  readonly #perNetwork: AddressCount
  #size = 0
  /** Runs while there is any reader to send heartbeats to. */
  #heartbeat: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: ReadersOptions) {
    this.#options = options
    this.#perNetwork = new AddressCount(options.limits.streamsPerAddress)
  }

  get size(): number {
    return this.#size
  }

  /** Number of readers that are held polls, counted on each call. */
  get heldPolls(): number {
    let count = 0
    for (const readers of this.#audiences.values()) for (const { isHeld } of readers) if (isHeld) count++
    return count
  }

  /**
   * Checks that there is room for one more reader from a network.
   * @throws {Problem} 503 or 429 with Retry-After.
   */
  requireRoom(network: string): void {
    const { streams, streamsPerAddress } = this.#options.limits
    const headers = ['Retry-After', String(RETRY_AFTER_S)]
    if (this.#isClosed) throw new Problem('unavailable', 'The service is shutting down.', { headers })
    if (this.#size >= streams)
      throw new Problem('unavailable', `All ${streams} event streams and held polls are in use.`, { headers })
    if (!this.#perNetwork.hasRoom(network))
      throw new Problem(
        'too-many-streams',
        `All ${streamsPerAddress} event streams and held polls of this address are in use.`,
        { headers },
      )
  }

  add(reader: Reader): void {
    this.#audience(reader.topic).add(reader)
    this.#perNetwork.enter(reader.network)
    this.#size++
    this.#heartbeat ??= setInterval(() => this.#beat(), this.#options.limits.heartbeatS * 1000).unref()
  }

  /** Frees the reader's place. A second call does nothing. */
  remove(reader: Reader): void {
    if (!this.#audience(reader.topic).delete(reader)) return
    this.#perNetwork.leave(reader.network)
    if (--this.#size === 0) this.#stopHeartbeat()
  }

  /** Ends every reader whose credential is no longer valid. */
  endRefused(): void {
    for (const readers of this.#audiences.values()) this.#forEach(readers, () => undefined)
  }

  /** Ends every reader, and accepts no more. */
  close(): void {
    this.#isClosed = true
    for (const readers of this.#audiences.values()) for (const reader of readers) reader.end('shutting down')
  }

  #audience(topic: Topic): Audience {
    const known = this.#audiences.get(topic)
    if (known) return known
    const audience = new Audience(topic, (readers, act) => this.#forEach(readers, act))
    this.#audiences.set(topic, audience)
    return audience
  }

  #beat(): void {
    for (const readers of this.#audiences.values()) this.#forEach(readers, reader => reader.tick())
  }

  #stopHeartbeat(): void {
    clearInterval(this.#heartbeat)
    this.#heartbeat = undefined
  }

  /** Calls `act` for the readers whose credential is valid: nobody gets an event after `exp`, or under a replaced key. */
  #forEach(readers: Iterable<Reader>, act: (reader: Reader) => void): void {
    const { refusalNow, clock } = this.#options
    const now = clock.now()
    for (const reader of readers) {
      const refusal = refusalNow(reader.credential, now)
      if (refusal === undefined) act(reader)
      else reader.end(refusal)
    }
  }
}
