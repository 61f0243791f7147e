/** Devices that ask, are let in and leave, and the list of sessions that should follow. */
import { type EngineConnection, openSession, type SessionLine } from '../../src/sessions/engine-client.ts'
import type { Session } from '../../src/sessions/session.ts'
import { eventually } from '../support/eventually.ts'
import type { Random } from '../support/random.ts'
import type { SoakedService } from './service.ts'

const MAX_SESSIONS = 64

/** A device at its engine. */
class Device {
  id = ''
  state: SessionLine['state'] | 'asking' | 'gone' = 'asking'
  readonly #link: EngineConnection

  constructor(link: EngineConnection) {
    this.#link = link
    this.#listen()
  }

  get isListed(): boolean {
    return this.state === 'pending' || this.state === 'active'
  }

  leave(): void {
    this.#link.close()
    this.state = 'gone'
  }

  async #listen(): Promise<void> {
    for await (const { id, state } of this.#link.lines) {
      this.id ||= id ?? ''
      if (this.state !== 'gone') this.state = state
      // It is off the screen at once.
      if (state === 'ended') break
    }
    if (this.isListed) this.state = 'gone'
    this.#link.close()
  }
}

export class Room {
  readonly #service: SoakedService
  readonly #random: Random
  #devices: Device[] = []
  #asked = 0

  constructor(service: SoakedService, random: Random) {
    this.#service = service
    this.#random = random
  }

  async ask(): Promise<void> {
    const n = this.#asked++
    const link = await openSession(this.#service.engines, {
      protocol: this.#random.pick(['miracast', 'cast', `p${n}`]),
      name: `${this.#random.words()} ${n}`,
      model: 'Pixel 9',
      deviceId: `02:00:00:00:00:${n % 100}`,
      address: `192.0.2.${n % 250}`,
    })
    this.#devices.push(new Device(link))
  }

  /** More than there may be. */
  async crowd(): Promise<void> {
    await Promise.all(Array.from({ length: MAX_SESSIONS + 6 }, () => this.ask()))
    await this.isSettled()
    const listed = this.#devices.filter(device => device.isListed).length
    if (listed > MAX_SESSIONS) throw new Error(`${listed} sessions are listed`)
    if (!this.#devices.some(({ state }) => state === 'denied')) throw new Error('nobody was turned away')
    this.empty()
  }

  /** A moderator decides, or a device leaves. */
  async decide(): Promise<void> {
    this.#devices = this.#devices.filter(device => device.isListed || device.state === 'asking')
    const known = this.#devices.filter(({ id }) => id !== '')
    if (known.length === 0) return this.ask()
    const device = this.#random.pick(known)
    const what = this.#random.below(3)
    if (what === 0) return device.leave()
    const [path, method] = what === 1 ? [`/sessions/${device.id}/admit`, 'POST'] : [`/sessions/${device.id}`, 'DELETE']
    const answer = await this.#service.fetch(path, { method })
    // It may have been denied meanwhile, because nobody decided for long.
    if (!answer.ok && answer.status !== 404) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    if (answer.ok && what === 2) await eventually(() => !device.isListed)
    if (answer.ok && what === 1) await eventually(() => device.state !== 'pending')
  }

  /** All leave. */
  empty(): void {
    for (const device of this.#devices) device.leave()
    this.#devices = []
  }

  async listed(): Promise<readonly Session[]> {
    return ((await (await this.#service.fetch('/sessions')).json()) as { sessions: Session[] }).sessions
  }

  /** Waits until everybody who asks was answered, and the list is what the devices were told. */
  async isSettled(): Promise<void> {
    let [expected, listed] = ['', '']
    await eventually(async () => {
      if (this.#devices.some(({ state }) => state === 'asking')) return false
      listed = (await this.listed())
        .map(({ id, state }) => `${id} ${state}`)
        .sort()
        .join()
      const present = this.#devices.filter(device => device.isListed)
      expected = present
        .map(({ id, state }) => `${id} ${state}`)
        .sort()
        .join()
      return listed === expected
    }).catch(() => {
      throw new Error(`sessions are ${listed}; the devices were told ${expected}`)
    })
  }
}
