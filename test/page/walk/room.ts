/** The device that is walked over: its guests, others who manage it, and mishaps. */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { UpdateState } from '../../../src/update/state.ts'
import { idOf } from '../../support/api.ts'
import { deviceRoot } from '../../support/device.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeRauc } from '../../support/fakes/rauc.ts'
import type { FakeSupplicant } from '../../support/fakes/supplicant.ts'
import { needs } from '../../support/needs.ts'
import type { Random } from '../../support/random.ts'
import type { ServiceOptions, TestService } from '../../support/service.ts'
import { bundleSays, updatable } from '../../support/update-device.ts'
import { startWifiDevice } from '../../support/wifi-device.ts'
import { type PageDevice, startPageDevice } from '../device.ts'
import { STATIONS } from './air.ts'
import { type Field, patchOf } from './fields.ts'
import { Guest } from './guest.ts'
import { FaultyProxy } from './proxy.ts'
import { VERSION } from './update.ts'

/** Rows of one line, and rows of more than one. */
const NAMES = ['Ann', 'Bob’s iPad', 'Meeting room laptop of the second floor, left', '<i>Cid</i>']
/** Most devices are quick to go, some are not. */
const SLOWNESS_MS = [0, 0, 0, 700]
const KEY_BYTES = 32
const UNAUTHORIZED = 401
const CONFLICT = 409

export interface Listed {
  readonly id: string
  readonly name: string
  readonly state: 'pending' | 'active'
}

interface Receiver {
  readonly options: ServiceOptions
  readonly rauc: FakeRauc
  /** The daemon of its Wi-Fi. */
  readonly fake?: FakeSupplicant
}

export class Room {
  readonly guests = new Map<string, Guest>()
  /** Of all that were ever here, by the name of the device. */
  readonly #ids = new Map<string, string[]>()
  readonly proxy: FaultyProxy
  readonly rauc: FakeRauc
  readonly #t: Test
  readonly #options: ServiceOptions
  /** The daemon of its Wi-Fi; undefined where that cannot be. */
  readonly #radio: FakeSupplicant | undefined
  #device: PageDevice
  #count = 0

  private constructor(t: Test, { options, rauc, fake }: Receiver, device: PageDevice, proxy: FaultyProxy) {
    this.#t = t
    this.#options = options
    this.#radio = fake
    this.rauc = rauc
    this.#device = device
    this.proxy = proxy
  }

  static async start(t: Test): Promise<Room> {
    const receiver = await startReceiver(t)
    const device = await startPageDevice(t, receiver.options)
    await device.service.patch({ moderation: { timeoutS: 600 } })
    let room: Room | undefined
    const proxy = await FaultyProxy.start(t, () => room?.service.url ?? device.service.url)
    room = new Room(t, receiver, device, proxy)
    return room
  }

  get service(): TestService {
    return this.#device.service
  }

  get link(): string {
    return `${this.proxy.url}/#key=${this.service.key}`
  }

  get hasWifi(): boolean {
    return this.#radio !== undefined
  }

  /** The network that the device is in, as its radio says; empty if none. */
  get joined(): string {
    const said = this.#radio?.said.findLast(line => line.startsWith('in '))?.slice('in '.length)
    return said === undefined || said === 'none' ? '' : said
  }

  /** These access points are in reach. */
  async reach(names: readonly string[]): Promise<void> {
    await this.#radio?.air(STATIONS.filter(({ ssid }) => names.includes(ssid)))
  }

  async updateState(): Promise<UpdateState['state']> {
    return ((await (await this.service.fetch('/update')).json()) as UpdateState).state
  }

  /** Somebody else removes the bundle, if there is one, and if it is not in use. */
  removeBundle(): Promise<unknown> {
    return this.service.fetch('/update/bundle', { method: 'DELETE' })
  }

  /** A device comes. */
  async enter(random: Random): Promise<Guest> {
    const guest = new Guest(`${random.pick(NAMES)} ${++this.#count}`, random.pick(SLOWNESS_MS))
    await guest.come(this.#device.ask)
    this.guests.set(guest.name, guest)
    this.#ids.set(guest.name, [guest.id])
    return guest
  }

  /** Of the sessions that a device had. */
  idsOf(name: string): readonly string[] {
    return this.#ids.get(name) ?? []
  }

  leave(guest: Guest): void {
    guest.leave()
    this.guests.delete(guest.name)
  }

  async listed(): Promise<readonly Listed[]> {
    const { sessions } = (await (await this.service.fetch('/sessions')).json()) as { sessions: readonly Listed[] }
    return sessions
  }

  /** Somebody else decides. */
  async decide(guest: Guest, verb: 'admit' | 'end'): Promise<void> {
    const path = `/sessions/${guest.id}`
    const answer = await (verb === 'admit'
      ? this.service.fetch(`${path}/admit`, { method: 'POST' })
      : this.service.fetch(path, { method: 'DELETE' }))
    if (!answer.ok) throw new Error(`${verb} ${guest.name}: ${answer.status} ${await answer.text()}`)
  }

  /** Somebody else changes a setting in its file. */
  changeByHand({ byHand }: Field, value: string): void {
    byHand?.(name => this.service.path(name), value)
  }

  /**
   * Somebody else changes a setting through the API.
   * @param trialS Seconds within which it must be confirmed; 0 to keep it.
   * @returns undefined if another change is on trial.
   */
  async change(
    field: Field,
    value: string,
    trialS = 0,
  ): Promise<{ readonly id: string; readonly isOnTrial: boolean } | undefined> {
    const query = trialS > 0 ? `?confirmWithin=${trialS}` : ''
    const answer = await this.service.patch(patchOf([[field, value]]), {}, query)
    if (answer.status === CONFLICT) return undefined
    if (!answer.ok) throw new Error(`${field.label}: ${answer.status} ${await answer.text()}`)
    return { id: idOf(answer), isOnTrial: answer.headers.has('Confirm-Within') }
  }

  /** Somebody else ends a trial. @returns whether it was still going on. */
  async endTrial(id: string, method: 'POST' | 'DELETE'): Promise<boolean> {
    const answer = await this.service.fetch('/system/confirm', { method, headers: { 'If-Match': `"${id}"` } })
    return answer.ok
  }

  /** The ETag of the change that is on trial. */
  async onTrial(): Promise<string | undefined> {
    const status = (await (await this.service.fetch('/status')).json()) as { trial?: { etag: string } }
    return status.trial?.etag.replaceAll('"', '')
  }

  async approve(approval: 'none' | 'moderator'): Promise<void> {
    await this.service.patch({ moderation: { approval } })
  }

  /** The service is restarted, and whoever was there asks again. */
  async restart(meanwhile: () => void): Promise<void> {
    await this.service.close()
    meanwhile()
    // A version that is installed, and was never started, is given up.
    this.rauc.primary = 'rootfs.0'
    const before = [...this.guests.values()]
    await eventually(() => before.every(({ state }) => state === 'away' || state === 'gone'))
    this.#device = await startPageDevice(this.#t, this.#options)
    for (const guest of before) {
      if (guest.state === 'away') await guest.come(this.#device.ask)
      this.#ids.get(guest.name)?.push(guest.id)
    }
  }

  /** Somebody else replaces the API key. */
  async replaceKey(): Promise<void> {
    const apiKey = randomBytes(KEY_BYTES).toString('base64url')
    const answer = await this.service.fetch('/api-key', {
      method: 'POST',
      body: JSON.stringify({ apiKey }),
      headers: { 'Content-Type': 'application/json' },
    })
    // The page itself has just replaced it.
    if (answer.status === UNAUTHORIZED) return
    if (!answer.ok) throw new Error(`a new key: ${answer.status} ${await answer.text()}`)
  }
}

/** A running receiver, with Wi-Fi if this machine has the programs for it. */
async function startReceiver(t: Test): Promise<Receiver> {
  const wifi = needs('wpa_cli', 'python3') ? undefined : await startWifiDevice(t)
  const root = wifi?.options.root ?? deviceRoot(t)
  writeFileSync(join(root, 'etc/os-release'), 'NAME=Receiver\nIMAGE_VERSION=1.0.0\n')
  const rauc = new FakeRauc()
  bundleSays(root, rauc, { version: VERSION })
  const receiver = updatable(root, rauc)
  if (!wifi) return { options: receiver, rauc }
  const { options, fake } = wifi
  await fake.air(STATIONS, 'in Office')
  return {
    fake,
    rauc,
    options: {
      ...receiver,
      run: argv => (argv[0] === 'wpa_cli' ? options : receiver).run?.(argv) ?? Promise.resolve(''),
      // The kernel tells of Wi-Fi, and nothing else here.
      monitor: (argv, line) => (argv[0] === 'ip' ? options : receiver).monitor?.(argv, line) ?? (() => undefined),
    },
  }
}
