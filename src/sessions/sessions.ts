import type { Carrier, Device, EndReason, EngineHost, SessionState } from '../../hal/engine.ts'
import { reasonOf } from '../../hal/errors.ts'
import { type Clock, rfc3339 } from '../clock.ts'
import { PacedTopic } from '../events/paced-topic.ts'
import type { Topic, TopicOptions } from '../events/topic.ts'
import { UUID } from '../http/uuid.ts'
import { DECISION_MS, FULL_LOG_MS, MAX_SESSIONS, PUBLISH_MS } from '../limits.ts'
import type { Log } from '../log.ts'
import { Counts } from '../metrics/counts.ts'
import { Problem } from '../problem.ts'
import { type Former, protocolLabel, type Session, safeDevice } from './session.ts'

const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/

export interface SessionsOptions {
  readonly ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>
  /** Seconds after which a pending device is denied if nobody decides, and an admitted one is given up if it does not connect. */
  readonly timeoutS: () => number
  readonly clock: Clock
  readonly log: Log
}

/** A moderator's decision that an engine is carrying out. */
interface Decision {
  readonly verb: 'admit' | 'end'
  readonly done: Promise<void>
}

interface TrackedSession {
  session: Session
  readonly carrier: Carrier
  timer: NodeJS.Timeout | undefined
  decision: Decision | undefined
  /** How the session ended; preset until then. */
  outcome: 'left' | 'denied' | 'ended' | 'timed out'
}

/** The devices that mirror or ask to, through any engine, and the decisions about them. */
export class Sessions implements EngineHost {
  /** Outcomes of sessions, by protocol. */
  readonly outcomes = new Counts(['protocol', 'outcome'])
  readonly #options: SessionsOptions
  /** Oldest first. */
  readonly #entries = new Map<string, TrackedSession>()
  readonly #paced: PacedTopic
  #turnedAway = 0
  #reporting: NodeJS.Timeout | undefined

  constructor(options: SessionsOptions) {
    this.#options = options
    const read = () => ({ sessions: this.all })
    this.#paced = new PacedTopic({ name: 'sessions', grant: 'moderator:r', read, paceMs: PUBLISH_MS, ...options.ring })
  }

  get topic(): Topic {
    return this.#paced.topic
  }

  /** All sessions as JSON, oldest first, and the id of the event with the same content. */
  get current(): PacedTopic['current'] {
    return this.#paced.current
  }

  /** All sessions, oldest first. */
  get all(): readonly Session[] {
    return Array.from(this.#entries.values(), ({ session }) => session)
  }

  /** @throws {Problem} 404 if no session has this id. */
  get(id: string): Session {
    return this.#find(id).session
  }

  /**
   * Adds a session for a device.
   * @returns its id; undefined if there are too many sessions, so that the engine must turn the device away. A device that
   * mirrors through an exclusive engine is always added, because it is already on the screen.
   * @param former Its `id` is kept if it is a UUID that no session has, and its `since` if it is not in the future.
   */
  enter(carrier: Carrier, device: Device, state: SessionState, former: Former = {}): string | undefined {
    if (this.isFull && !(carrier.isExclusive && state === 'active')) {
      this.#turnedAway++
      this.outcomes.add([protocolLabel(device.protocol), 'turned away'])
      if (!this.#reporting) this.#reportFull()
      return undefined
    }
    const id = this.#freeId(former.id) ?? this.#options.ring.newId()
    const session = { id, state, ...this.#times(state, former.since), ...safeDevice(device) }
    const entry: TrackedSession = { session, carrier, timer: undefined, decision: undefined, outcome: 'left' }
    this.#entries.set(id, entry)
    this.#startTimer(entry)
    this.#paced.changed()
    return id
  }

  get isFull(): boolean {
    return this.#entries.size >= MAX_SESSIONS
  }

  /**
   * Changes the state of a session. Does nothing if the session is gone.
   * @param device Changed properties of the device, which has connected again. A moderator has approved the former ones.
   */
  move(id: string, state: SessionState, device: Partial<Device> = {}): void {
    const entry = this.#entries.get(id)
    if (!entry || entry.session.state === state) return
    const { deadline: _, ...session } = entry.session
    const now = safeDevice({ ...session, ...device })
    if (now.name !== session.name || (session.address !== '' && now.address !== session.address))
      this.warn(`session ${quoted(entry)}${placeOf(session)} continues as ${JSON.stringify(now.name)}${placeOf(now)}`)
    entry.session = { ...session, ...now, state, ...this.#times(state) }
    this.#startTimer(entry)
    this.#paced.changed()
  }

  /** Removes a session whose device is gone. */
  leave(id: string): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    clearTimeout(entry.timer)
    this.#entries.delete(id)
    this.#count(entry, entry.outcome)
    this.#paced.changed()
  }

  /** Logs what an engine did by itself. */
  warn(what: string): void {
    this.#options.log('warning', what)
  }

  /**
   * Lets a pending device in. Has no effect on a device that was already admitted.
   * @param replaced Which sessions may be ended for it, on an exclusive engine: all, none, or the session with this ID.
   * @param who Who decided, for the log.
   * @throws {Problem} 404 if no session has this ID, 409 if a different decision was made or another device is in the way,
   * 504 if the engine did not carry it out in time.
   */
  async admit(id: string, replaced: boolean | string, who: string): Promise<Session> {
    const entry = this.#find(id)
    if (entry.session.state === 'pending' || entry.decision)
      await this.#decide(entry, 'admit', async () => {
        for (const other of this.#inTheWayOf(entry)) {
          if (replaced !== true && replaced !== other.session.id)
            throw new Problem('in-the-way', `${quoted(other)} is mirroring; this device shows one at a time.`, {
              members: { session: other.session.id },
            })
          await this.#end(other, 'moderator', who)
        }
        await entry.carrier.admit(id)
        this.#find(id)
        this.#count(entry, 'admitted')
        this.#log(entry, `admitted by ${who}`)
      })
    return this.get(id)
  }

  /**
   * Denies a pending device, or ends the session of another one.
   * @throws {Problem} as `admit`.
   */
  async end(id: string, who: string): Promise<void> {
    const entry = this.#find(id)
    await this.#end(entry, 'moderator', who)
    // A timeout that was being carried out may have let the device stay.
    if (this.#entries.get(id) === entry) await this.#end(entry, 'moderator', who)
  }

  /** Lets in all pending devices about which nobody is deciding, because devices are no longer moderated. */
  admitPending(): void {
    for (const [id, entry] of [...this.#entries])
      if (entry.session.state === 'pending' && !entry.decision)
        this.admit(id, false, 'the end of moderation').catch(error => {
          // A restart for the changed option may have put it out before.
          if (this.#entries.get(id) === entry)
            this.#logFailure(entry, 'is still waiting, although devices no longer need to wait', error)
        })
  }

  /** Stops the timers. Devices keep mirroring. */
  stop(): void {
    for (const { timer } of this.#entries.values()) clearTimeout(timer)
    this.#paced.stop()
    clearTimeout(this.#reporting)
  }

  #find(id: string): TrackedSession {
    const entry = this.#entries.get(id)
    if (!entry) throw new Problem('not-found', 'There is no such session; it may have ended.')
    return entry
  }

  /** The sessions that must end before a pending device can be let in. */
  #inTheWayOf({ carrier }: TrackedSession): readonly TrackedSession[] {
    if (!carrier.isExclusive) return []
    return [...this.#entries.values()].filter(other => other.carrier === carrier && other.session.state === 'active')
  }

  async #end(entry: TrackedSession, reason: EndReason, who: string): Promise<void> {
    const { id, state } = entry.session
    await this.#decide(entry, 'end', async () => {
      const outcome = state === 'pending' ? 'denied' : 'ended'
      entry.outcome = reason === 'timeout' ? 'timed out' : outcome
      try {
        await entry.carrier.end(id, reason)
      } catch (error) {
        entry.outcome = 'left'
        throw error
      }
      if (this.#entries.get(id) === entry) {
        entry.outcome = 'left'
        return
      }
      this.#log(entry, `${outcome} by ${who}`)
    })
  }

  /** Of two different concurrent decisions, the first wins; the same decision made twice counts as one. */
  async #decide(entry: TrackedSession, verb: Decision['verb'], act: () => Promise<void>): Promise<void> {
    if (entry.decision && entry.decision.verb !== verb)
      throw new Problem('conflict', 'A different decision about this session is being carried out.')
    const done = () => {
      entry.decision = undefined
    }
    entry.decision ??= { verb, done: inTime(act).finally(done) }
    try {
      await entry.decision.done
    } catch (error) {
      if (error instanceof Problem) throw error
      throw new Problem('engine-refused', `The mirroring program refused: ${reasonOf(error)}.`, { cause: error })
    }
  }

  #startTimer(entry: TrackedSession): void {
    clearTimeout(entry.timer)
    if (entry.session.state === 'active') return
    const seconds = this.#options.timeoutS()
    entry.timer = setTimeout(() => {
      this.#end(entry, 'timeout', `a timeout of ${seconds} s`)
        .catch(error => {
          // A moderator made a decision just before the timeout, which is not a failure.
          if (!entry.decision) this.#logFailure(entry, 'stays, although its time is over', error)
        })
        .then(() => this.#postpone(entry))
    }, seconds * 1000)
  }

  /** Gives a session that stays, although its time is over, as much time again. */
  #postpone(entry: TrackedSession): void {
    const { session } = entry
    if (this.#entries.get(session.id) !== entry || session.state === 'active') return
    const { since: _, ...times } = this.#times(session.state)
    entry.session = { ...session, ...times }
    this.#startTimer(entry)
    this.#paced.changed()
  }

  #count({ session }: TrackedSession, outcome: string): void {
    this.outcomes.add([protocolLabel(session.protocol), outcome])
  }

  #log(entry: TrackedSession, what: string): void {
    this.#options.log('notice', `session ${quoted(entry)} (${entry.session.protocol}) ${what}`)
  }

  #logFailure(entry: TrackedSession, what: string, { message }: Problem): void {
    this.#options.log('error', `session ${quoted(entry)} ${what}. ${message}`)
  }

  #reportFull(): void {
    const devices = this.#turnedAway === 1 ? 'a device' : `${this.#turnedAway} devices`
    this.#options.log('warning', `turned away ${devices}: there are ${MAX_SESSIONS} sessions already`)
    this.#turnedAway = 0
    this.#reporting = setTimeout(() => {
      this.#reporting = undefined
      if (this.#turnedAway > 0) this.#reportFull()
    }, FULL_LOG_MS)
  }

  #freeId(former: unknown): string | undefined {
    if (typeof former !== 'string' || !UUID.test(former)) return undefined
    const id = former.toLowerCase()
    return this.#entries.has(id) ? undefined : id
  }

  /** Returns when a state that begins now began, and when it will end by itself. */
  #times(state: SessionState, former?: unknown): Pick<Session, 'since' | 'deadline'> {
    const now = this.#options.clock.now()
    const before = typeof former === 'string' && RFC3339.test(former) ? Date.parse(former) : Number.NaN
    const since = rfc3339(Number.isNaN(before) ? now : Math.min(before, now))
    return state === 'active' ? { since } : { since, deadline: rfc3339(now + 1000 * this.#options.timeoutS()) }
  }
}

function placeOf({ address }: Device): string {
  return address === '' ? '' : ` of ${address}`
}

function quoted({ session }: TrackedSession): string {
  return JSON.stringify(session.name)
}

async function inTime(act: () => Promise<void>): Promise<void> {
  const late = new Promise<never>((_, reject) => {
    const detail = `The mirroring program did not carry out the decision within ${DECISION_MS / 1000} s. It may still do so: check /sessions.`
    setTimeout(() => reject(new Problem('engine-timeout', detail)), DECISION_MS).unref()
  })
  await Promise.race([act(), late])
}
