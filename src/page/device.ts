import type { UpdateState } from '../update/state.ts'
import { Client, FOR_NOW, isPassing, isRefusedForNow, jsonOf, Refusal, Unreachable } from './client.ts'
import type { ServerEvent } from './event-source.ts'
import { type Credential, type Grants, readCredential } from './grants.ts'
import { isObject, type JsonObject } from './json.ts'
import { LiveStream, type StreamState } from './live-stream.ts'
import { isBlank } from './name.ts'
import { Document } from './schema.ts'
import { Signal } from './signal.ts'
import * as texts from './texts.ts'
import { deviceNow, setDeviceClock } from './time.ts'

export interface Session {
  readonly id: string
  readonly protocol: string
  readonly state: 'pending' | 'admitted' | 'active'
  readonly name: string
  readonly model: string
  readonly deviceId: string
  readonly address: string
  readonly since: string
  readonly deadline?: string
}

/** `restarting`: the device announced its shutdown, and should be back soon. */
export type Connection = StreamState | 'restarting'

/** A change that the device reverted. */
export interface Reverted {
  readonly reason: string
  readonly properties: readonly string[]
  readonly notUndone: readonly string[]
}

/** Number of event ids to remember, to recognize an answer that is older than the latest event of the stream. */
const SEEN = 64
/** Milliseconds within which a restarting device should be back, even on a slow board. */
const RESTART_MS = 180_000
/** Milliseconds to wait for an answer about a new API key, and before the request is repeated. */
const KEY_ANSWER_MS = 10_000
const KEY_RETRY_MS = 1_000
const UPDATE_EVENTS = '/update/events'
const CREDENTIAL = '/credential'
/** No event has this id: a stream that resumes from it begins with the whole state. */
const EVERYTHING = '00000000-0000-0000-0000-000000000000'

/** The state of the device, kept up to date by its streams. */
export class Device {
  readonly client: Client
  /**
   * For requests that raise no doubt if they are not answered: a stream tells nothing about the others, and a doubt leads to a
   * reconnection, after which the update and the choices are read again.
   */
  readonly #undoubting: Client
  readonly grants: Grants
  readonly document: Document
  readonly system = new Signal<JsonObject>({})
  readonly choices = new Signal<JsonObject>({})
  readonly sessions = new Signal<readonly Session[]>([])
  /** Undefined where the device cannot be updated, or not yet tell. */
  readonly update = new Signal<UpdateState | undefined>(undefined)
  readonly connection = new Signal<Connection>('connected')
  /** Why the device refuses the credential for now, in its words. */
  refusal = ''
  /** Counts reconnections. After each, the device may run another version, even if the phone was asleep during the update. */
  readonly returns = new Signal(0)
  /** When the credential expires, in milliseconds since 1970; undefined if it does not. */
  readonly expiresAt: number | undefined
  readonly reverted = new Signal<Reverted | undefined>(undefined)
  /** What leaving the page would lose, as a sentence, by the action row of its form. */
  readonly unsaved = new Map<HTMLElement, string>()
  readonly #ended: (why: string) => void
  readonly #streams = new Map<string, LiveStream>()
  readonly #closing = new AbortController()
  /** Aborted when nothing more may be sent. */
  readonly closed = this.#closing.signal
  /** The streams that are not connected, by path; also the credential, if no stream tells about it. */
  readonly #away = new Map<string, StreamState>()
  /** When the device announced its shutdown, by `performance.now()`; undefined once it is connected again. */
  #leftAt: number | undefined
  /** Whether the page itself is replacing the key, so that it expects its streams to end. */
  #isReplacingKey = false
  /** Why the device no longer accepts the credential. */
  #why: string | undefined
  #seen: string[] = []
  /** Whether the next change is the whole configuration: what is not in it, the device no longer has. */
  #isWholeNext = false
  /** The id of the event that matches the configuration from an answer. Events before it are outdated. */
  #awaited: string | undefined

  private constructor(client: Client, credential: Credential, document: Document, ended: (why: string) => void) {
    this.client = client
    this.#undoubting = new Client(client.credential)
    this.grants = credential.grants
    this.expiresAt = credential.expiresAt
    this.#named(credential)
    this.document = document
    this.#ended = ended
    client.unanswered = () => this.#doubt()
    client.closed = this.closed
  }

  /**
   * Signs in, and reads the state of the device.
   * @param ended Called when the device no longer accepts the credential.
   * @throws {Refusal} or {Unreachable}
   */
  static async open(client: Client, ended: (why: string) => void): Promise<Device> {
    // Nothing else is requested before this answer, so that a wrong credential is refused only once.
    const credential = await readCredential(client)
    const { grants } = credential
    const document = await client.read<JsonObject>('/openapi.json')
    const device = new Device(client, credential, new Document(document), ended)
    const [system, sessions] = await Promise.all([
      grants.readsSystem ? device.#readTopic('/system') : undefined,
      grants.seesSessions ? device.#readTopic('/sessions') : undefined,
    ])
    if (system) {
      const { value, id } = system
      device.system.set(value)
      device.#remember(id)
      // May throw, so it comes before the first stream.
      await device.#readUpdate()
      device.#follow('/events', id, event => device.#receiveSystem(event))
      device.#readChoices()
    }
    if (sessions) {
      const { value, id } = sessions
      device.#setSessions(value)
      device.#follow('/sessions/events', id, event => device.#receiveSessions(event))
    }
    return device
  }

  /** The name of the device, or its address if the name is blank. */
  get name(): string {
    const { deviceName } = this.system.value
    return typeof deviceName === 'string' && !isBlank(deviceName) ? deviceName : location.hostname
  }

  /** The name that phones list; undefined if it is unknown, or if phones cannot find the device. */
  get nameOnPhones(): string | undefined {
    const { airplay } = this.system.value
    if (!isObject(airplay) || airplay.enabled !== true || typeof airplay.name !== 'string') return undefined
    return airplay.name === '' ? this.name : airplay.name
  }

  /** Whether every device may mirror; undefined if that is unknown. */
  get isOpen(): boolean | undefined {
    const { moderation } = this.system.value
    return isObject(moderation) ? moderation.approval === 'none' : undefined
  }

  /** The sentences on what leaving the page would lose, each once. */
  get losses(): readonly string[] {
    return [...new Set([...this.unsaved.values(), ...(this.#isReplacingKey ? [texts.keyPending] : [])])]
  }

  /** Asks whether the device still accepts the credential, where no stream tells. */
  async check(): Promise<void> {
    try {
      this.#named(await readCredential(this.client))
      this.#heard(CREDENTIAL, 'connected')
    } catch (error) {
      if (isRefusedForNow(error)) this.#heard(CREDENTIAL, 'refused', error.message)
      else if (error instanceof Refusal && error.status === 401) this.#end(error.message)
      else this.#heard(CREDENTIAL, 'lost')
    }
  }

  /** Reconnects now any stream that waits to. */
  retry(): void {
    if (this.#streams.size === 0) this.check()
    for (const stream of this.#streams.values()) stream.retry()
  }

  close(): void {
    for (const stream of this.#streams.values()) stream.end()
    this.#closing.abort()
  }

  /** Begins to follow the update. It changes often, so it is followed only while its view is shown. */
  followUpdate(): void {
    if (this.#streams.has(UPDATE_EVENTS)) return
    this.#follow(UPDATE_EVENTS, EVERYTHING, ({ event, data }) => {
      if (event === 'update.changed') this.update.set(JSON.parse(data) as UpdateState)
    })
  }

  /** Stops following the update, to free its connection: a browser has only six to a device, for all its windows. */
  leaveUpdate(): void {
    this.#streams.get(UPDATE_EVENTS)?.end()
    this.#streams.delete(UPDATE_EVENTS)
    this.#heard(UPDATE_EVENTS, 'connected')
  }

  /** Reads the update again if the device could not tell of it: RAUC may not have answered yet. */
  async findUpdate(): Promise<void> {
    if (!this.update.value) await this.#readUpdate().catch(() => undefined)
  }

  /** Adopts the configuration from an answer, unless a later one is known. */
  adopt(system: JsonObject, id: string): void {
    if (this.#seen.includes(id)) return
    this.#awaited = id
    this.system.set(system)
  }

  /**
   * Puts a new API key in force. Repeats the request until the outcome is known, or the device is closed.
   * @param removeIssuers Whether to remove the issuers that were added with the old key.
   * @param waiting Called whenever no answer arrives.
   * @returns the names of the issuers that stay.
   * @throws {Refusal} if the old key stays, or if somebody else replaced it; {Unreachable} if the device was closed.
   */
  async replaceKey(apiKey: string, removeIssuers: boolean, waiting: () => void): Promise<readonly string[]> {
    this.#isReplacingKey = true
    const put = async (credential: string) => {
      // Answers after signing out count, too: nobody else can tell the key.
      const client = new Client(credential)
      client.unanswered = this.client.unanswered
      try {
        const signal = AbortSignal.timeout(KEY_ANSWER_MS)
        const response = await client.send('POST', '/api-key', { body: { apiKey, removeIssuers }, signal })
        return (await jsonOf<{ issuers: readonly string[] }>(response)).issuers
      } catch (error) {
        if (isPassing(error)) return undefined
        throw error
      }
    }
    try {
      for (;;) {
        const issuers = await put(this.client.credential).catch((error: Refusal) => {
          if (error.status !== 401) throw error
          // Either the answer to an earlier request was lost, or somebody else replaced the key. Repeating a key that is in
          // force changes nothing.
          return put(apiKey)
        })
        if (issuers) return issuers
        if (!this.closed.aborted) waiting()
        await new Promise(resolve => setTimeout(resolve, KEY_RETRY_MS))
        // Somebody has signed out: nothing more may be done with their key.
        if (this.closed.aborted) throw new Unreachable(texts.noAnswer)
      }
    } catch (error) {
      this.#isReplacingKey = false
      // The credential was refused meanwhile: somebody else replaced the key, or an answer was lost.
      if (this.#why !== undefined) this.#ended(this.#why)
      throw error
    }
  }

  async #readTopic(path: string): Promise<{ readonly value: JsonObject; readonly id: string }> {
    const response = await this.client.send('GET', path)
    return { value: await jsonOf(response), id: idOf(response) }
  }

  #follow(path: string, cursor: string, receive: (event: ServerEvent) => void): void {
    const stream = new LiveStream({
      client: this.#undoubting,
      path,
      cursor,
      receive: event => {
        if (event.event === 'events.closed') this.#streamClosed(event)
        else receive(event)
      },
      changed: (state, why) => this.#heard(path, state, why),
      returned: () => this.#returned(path),
      refused: why => this.#end(this.#leftAt === undefined ? why : texts.refusedAfterRestart),
    })
    this.#streams.set(path, stream)
  }

  /** Called when a request was not answered. The streams reconnect; until then, the page counts as disconnected. */
  #doubt(): void {
    for (const stream of this.#streams.values()) stream.doubt()
  }

  #heard(path: string, state: StreamState, refusal = this.refusal): void {
    if (state === 'connected') this.#away.delete(path)
    else this.#away.set(path, state)
    const away = [...this.#away.values()]
    // A device that refuses is back.
    if (away.length === 0 || away.includes('refused')) this.#leftAt = undefined
    // The network may be gone before the device says goodbye.
    else if (this.update.value?.state === 'restarting') this.#leftAt ??= performance.now()
    const isRestarting = this.#leftAt !== undefined && performance.now() - this.#leftAt < RESTART_MS
    const worst = (['refused', 'lost', 'connecting'] as const).find(state => away.includes(state))
    const now = isRestarting ? 'restarting' : (worst ?? 'connected')
    if (this.connection.value === now && this.refusal === refusal) return
    this.refusal = refusal
    this.connection.set(now)
  }

  #returned(path: string): void {
    if (path !== [...this.#streams.keys()][0]) return
    if (!this.#streams.has(UPDATE_EVENTS)) this.#readUpdate().catch(() => undefined)
    if (!this.grants.readsSystem) readCredential(this.#undoubting).then(this.#named, () => undefined)
    this.returns.set(this.returns.value + 1)
  }

  /** Without the right to read the configuration, the name is all that is known of it. */
  readonly #named = ({ deviceName = '' }: Credential): void => this.system.set({ deviceName })

  async #readUpdate(): Promise<void> {
    // Not requested where it would be refused: the browser's console would show an error.
    if (!('update' in this.system.value)) return
    try {
      this.update.set(await this.#undoubting.read<UpdateState>('/update'))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    }
  }

  #receiveSystem({ id, event, data }: ServerEvent): void {
    if (event === 'events.resync') {
      this.#awaited = undefined
      this.#isWholeNext = true
    }
    if (event === 'system.reverted') this.reverted.set(JSON.parse(data) as Reverted)
    if (event === 'system.changed') {
      const known = this.#isWholeNext ? {} : this.system.value
      this.#isWholeNext = false
      if (this.#awaited === undefined) {
        const changed = JSON.parse(data) as JsonObject
        this.system.set({ ...known, ...changed })
        if (Object.keys(changed).some(name => name in this.choices.value)) this.#readChoices()
      }
    }
    if (id) this.#remember(id)
  }

  #receiveSessions({ event, data }: ServerEvent): void {
    if (event !== 'sessions.changed') return
    const before = new Map(this.sessions.value.map(({ id, since }) => [id, since]))
    this.#setSessions(JSON.parse(data))
    // What has just begun in the future proves that the clock of the device was set ahead.
    for (const { id, since } of this.sessions.value)
      if (before.get(id) !== since && Date.parse(since) > deviceNow()) setDeviceClock(since)
  }

  #setSessions(value: JsonObject): void {
    this.sessions.set(value.sessions as unknown as readonly Session[])
  }

  #remember(id: string): void {
    if (this.#awaited === id) this.#awaited = undefined
    this.#seen = [...this.#seen.slice(1 - SEEN), id]
  }

  /** Ends the session, unless the device is only shutting down, or refuses for now: then the stream reconnects. */
  #streamClosed({ data }: ServerEvent): void {
    const { reason } = JSON.parse(data) as { reason: string }
    if (reason === 'shutting down') this.#leftAt ??= performance.now()
    else if (!FOR_NOW.includes(reason)) this.#end(texts.closed(reason))
  }

  #end(why: string): void {
    this.#why ??= why
    if (!this.#isReplacingKey) this.#ended(why)
  }

  /** Reads the choices. The forms also work without them. */
  async #readChoices(): Promise<void> {
    if (!this.document.has('GET', '/system/choices')) return
    const choices = await this.#undoubting.read<JsonObject>('/system/choices').catch(() => undefined)
    if (isObject(choices)) this.choices.set(choices)
  }
}

/** Returns the event id in the ETag of a response. A proxy that compresses makes the ETag weak. */
export function idOf(response: Response): string {
  return (response.headers.get('ETag') ?? '').replace(/^W\//, '').replaceAll('"', '')
}
