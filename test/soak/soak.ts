/** Years of a device's life, in minutes: everything happens all the time, and is looked at in between. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type JsonObject, toJsonLine } from '../../src/json.ts'
import { eventually } from '../support/eventually.ts'
import type { Random } from '../support/random.ts'
import { BY_HAND, disagreements, PATCHES, REFUSED, truthOf } from './changes.ts'
import { Credentials } from './credentials.ts'
import { Follower, Seen } from './follower.ts'
import { loadPage, OpenPage } from './page.ts'
import { Room } from './room.ts'
import type { Measured, SoakedService } from './service.ts'

const FOLLOWERS = 10
/** More than one address may have. */
const CROWD = 70
const HOUR_MS = 3600 * 1000
const YEAR_MS = 365.25 * 24 * HOUR_MS
/** To there and back, or before the service was built, or beyond 2038. */
const STEPS_MS = [HOUR_MS, -HOUR_MS, 26 * HOUR_MS, YEAR_MS, -YEAR_MS, 12 * YEAR_MS, 80 * YEAR_MS, -30 * YEAR_MS, 0, 0]
/** Between two steps of the clock, so that what is out at the first is out before the second. */
const ACTIONS_BETWEEN_STEPS = 25

export interface Sample extends Measured {
  /** Seconds since the start. */
  readonly atS: number
  readonly actions: number
  readonly requests: number
}

export class Soak {
  readonly samples: Sample[] = []
  /** How often each thing was done. */
  readonly done = new Map<string, number>()
  readonly #service: SoakedService
  readonly #random: Random
  readonly #seen = { system: new Seen(), sessions: new Seen() }
  readonly #credentials: Credentials
  readonly #room: Room
  readonly #followers: readonly Follower[]
  readonly #page: OpenPage
  readonly #began = performance.now()
  #actions = 0
  #stepped = 0

  constructor(service: SoakedService, random: Random) {
    this.#service = service
    this.#random = random
    this.#credentials = new Credentials(service, random)
    this.#room = new Room(service, random)
    const topics = Array.from({ length: FOLLOWERS }, (_, n) => (n % 3 === 0 ? 'sessions' : 'system'))
    this.#followers = topics.map(topic => this.#newFollower(topic))
    this.#page = new OpenPage([this.#newFollower('system'), this.#newFollower('sessions')])
  }

  get resyncs(): number {
    return this.#followers.reduce((sum, { resyncs }) => sum + resyncs, 0)
  }

  async start(): Promise<void> {
    const answer = await this.#service.patch({ moderation: { approval: 'moderator' } })
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    await this.#page.isOpen()
  }

  /** So many things happen, with a pause after each. */
  async act(actions: number, pauseMs: number): Promise<void> {
    for (let n = 0; n < actions; n++) {
      const [name, act] = this.#random.pick(this.#actionsNow)
      try {
        await act()
      } catch (error) {
        throw new Error(`action ${this.#actions}, ${name}: ${error instanceof Error ? error.message : error}`, {
          cause: error,
        })
      }
      this.#actions++
      this.done.set(name, (this.done.get(name) ?? 0) + 1)
      for (const follower of this.#followers) follower.check()
      await sleep(pauseMs)
    }
  }

  /** Everybody catches up, and all copies are the truth. Then all leave but the page, and the process is measured. */
  async look(): Promise<Sample> {
    await this.#credentialsAreRight()
    await this.#endTrial()
    await this.#filesAreServed()
    await this.#room.isSettled()
    await this.#copiesAreTrue()
    this.#logIsClean()

    for (const follower of this.#followers) follower.leave()
    this.#room.empty()
    this.#service.hangUp()
    await this.#service.isQuiet(this.#page.streams, () => this.#page.isOpen())
    const measured = await this.#service.measure()
    const sample = {
      ...measured,
      atS: (performance.now() - this.#began) / 1000,
      actions: this.#actions,
      requests: this.#service.requests,
    }
    this.samples.push(sample)
    return sample
  }

  get #actionsNow(): readonly (readonly [name: string, act: () => Promise<unknown>])[] {
    const random = this.#random
    const follower = random.pick(this.#followers)
    const actions: readonly (readonly [name: string, weight: number, act: () => unknown])[] = [
      ['a client comes', 20, () => follower.come()],
      ['a client leaves', 6, () => follower.leave()],
      ['a client stalls, or reads on', 6, () => follower.stall()],
      ['a client begins again', 2, () => follower.forget()],
      ['a setting is changed', 20, () => this.#patch()],
      ['settings are changed at once', 2, () => Promise.all(Array.from({ length: 5 }, () => this.#patch()))],
      ['a change is refused', 2, () => this.#refused()],
      ['a change is tried', 3, () => this.#try()],
      ['a file is changed by hand', 10, () => random.pick(BY_HAND)(this.#service, random)],
      ['the key is replaced', 1, () => this.#credentials.rotate()],
      ['an issuer comes or goes', 2, () => this.#credentials.changeIssuer()],
      ['the clock is set', 2, () => this.#stepClock()],
      ['a device asks', 6, () => this.#room.ask()],
      ['a moderator decides, or a device leaves', 8, () => this.#room.decide()],
      ['more devices ask than there may be', 0.3, () => this.#room.crowd()],
      ['more clients come than may', 0.3, () => this.#crowd()],
      ['the page is loaded', 2, () => loadPage(this.#service)],
      ['somebody scrapes', 2, () => this.#read('/metrics')],
      ['a stranger tries', 3, () => this.#strange()],
    ]
    return actions.flatMap(([name, weight, act]) =>
      Array.from({ length: Math.ceil(10 * weight) }, () => [name, async () => act()] as const),
    )
  }

  #newFollower(topic: Follower['topic']): Follower {
    const [service, random, credentials] = [this.#service, this.#random, this.#credentials]
    return new Follower({ service, random, credentials, topic, seen: this.#seen[topic] })
  }

  async #patch(): Promise<void> {
    const patch = this.#random.pick(PATCHES)(this.#random)
    const answer = await this.#service.patch(patch)
    const text = await answer.text()
    if (answer.status === 409) return
    if (answer.status !== 200) throw new Error(`${toJsonLine(patch)}: ${answer.status} ${text}`)
    if (!contains(JSON.parse(text), patch)) throw new Error(`${toJsonLine(patch)} was acknowledged with ${text}`)
  }

  async #refused(): Promise<void> {
    const [body, status] = this.#random.pick(REFUSED)
    const answer = await this.#service.patch(body)
    if (answer.status !== status && answer.status !== 409) throw new Error(`${body.slice(0, 60)}: ${answer.status}`)
  }

  /** A change on trial, which is kept, undone, or left to itself. */
  async #try(): Promise<void> {
    const answer = await this.#service.patch({ deviceName: `Tried ${this.#random.below(50)}` }, {}, '?confirmWithin=5')
    if (answer.status !== 200 && answer.status !== 409)
      throw new Error(`a trial: ${answer.status} ${await answer.text()}`)
    const end = this.#random.pick(['POST', 'DELETE', ''])
    if (end) await this.#service.fetch('/system/confirm', { method: end })
  }

  async #endTrial(): Promise<void> {
    const answer = await this.#service.fetch('/system/confirm', { method: this.#random.pick(['POST', 'DELETE']) })
    if (![200, 409].includes(answer.status))
      throw new Error(`the end of a trial: ${answer.status} ${await answer.text()}`)
  }

  async #stepClock(): Promise<void> {
    if (this.#actions - this.#stepped < ACTIONS_BETWEEN_STEPS) return
    this.#stepped = this.#actions
    const offsetMs = this.#random.pick(STEPS_MS)
    await this.#service.stepClock(offsetMs)
    if (this.#service.isClockSet !== offsetMs > -YEAR_MS && Math.abs(offsetMs) > 2 * HOUR_MS)
      throw new Error(
        `the clock is ${this.#service.isClockSet ? '' : 'not '}set at ${new Date(this.#service.now()).toISOString()}`,
      )
  }

  /** One address has no more than its share, and others have theirs. */
  async #crowd(): Promise<void> {
    const streams = await Promise.all(Array.from({ length: CROWD }, () => this.#service.stream()))
    const refused = streams.filter(({ status }) => status === 429).length
    for (const stream of streams) stream.close()
    if (refused === 0) throw new Error(`${CROWD} streams of one address were let in`)
  }

  async #read(path: string): Promise<void> {
    const answer = await this.#service.fetch(path)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  }

  async #strange(): Promise<void> {
    const paths = ['/system', '/events', '/sessions', '/issuers', '/status']
    const answer = await this.#service.fetchAs(
      this.#random.text(['a.', 'ey', 'J9', '.', '-'], 40),
      this.#random.pick(paths),
    )
    if (answer.status !== 401) throw new Error(`a stranger got ${answer.status}`)
    const unknown = await this.#service.fetch(`/${this.#random.next()}`)
    if (unknown.status !== 404) throw new Error(`an unknown path: ${unknown.status}`)
  }

  /** Nobody is in with a bad credential. */
  async #credentialsAreRight(): Promise<void> {
    for (const follower of this.#followers) {
      if (follower.isStalled) follower.stall(false)
      await eventually(() => {
        follower.check()
        return !follower.isThere || this.#credentials.isGood(follower.credential) !== false
      }).catch(error => {
        follower.check()
        throw new Error(`still in: ${toJsonLine({ ...follower.credential, text: '' })}`, { cause: error })
      })
    }
  }

  /** It serves what the files say. A change by hand is noticed within a second, or by the poll of each minute. */
  async #filesAreServed(): Promise<void> {
    let [served, truth]: JsonObject[] = [{}, {}]
    await eventually(async () => {
      truth = await truthOf(this.#service.root)
      served = (await this.#service.system()).value
      return isDeepStrictEqual(served, truth)
    }).catch(() => {
      throw new Error(`not what the files say: ${differences(served ?? {}, truth ?? {})}`)
    })
    const wrong = disagreements(this.#service, served ?? {})
    if (wrong.length > 0) throw new Error(wrong.join('; '))
  }

  async #copiesAreTrue(): Promise<void> {
    for (const follower of this.#followers) {
      const path = follower.topic === 'system' ? '/system' : '/sessions'
      let truth: JsonObject = {}
      const isCurrent = async () => {
        if (!follower.isThere) await follower.come()
        const answer = await this.#service.fetch(path)
        truth = (await answer.json()) as JsonObject
        return follower.isAt((answer.headers.get('etag') ?? '').slice(1, -1))
      }
      await eventually(isCurrent).catch(error => {
        follower.check()
        throw new Error(`a client of ${path} does not catch up`, { cause: error })
      })
      for (const copy of [follower.shallow, follower.deep])
        if (!isDeepStrictEqual(copy, truth))
          throw new Error(`a client of ${path} has not the truth: ${differences(copy, truth)}`)
    }
  }

  #logIsClean(): void {
    const lines = this.#service.log.splice(0)
    const secrets = [this.#service.key, ...this.#followers.map(({ credential }) => credential.text)]
    for (const line of lines) {
      if (secrets.some(secret => line.includes(secret))) throw new Error('a credential is in the log')
      if (line.startsWith('<3>')) throw new Error(`in the log: ${line}`)
    }
  }
}

/** Whether a value has all that a merge patch says. */
function contains(value: unknown, patch: unknown): boolean {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return isDeepStrictEqual(value, patch)
  return Object.entries(patch).every(([name, part]) => contains((value as JsonObject | undefined)?.[name], part))
}

function differences(value: JsonObject, truth: JsonObject): string {
  const names = [...new Set([...Object.keys(value), ...Object.keys(truth)])]
  return names
    .filter(name => !isDeepStrictEqual(value[name], truth[name]))
    .map(name => `${name} is ${JSON.stringify(value[name])} and not ${JSON.stringify(truth[name])}`)
    .join('; ')
}
