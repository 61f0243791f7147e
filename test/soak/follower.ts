/** A client that keeps a copy of a topic, by a stream or by polls, as the API's README describes it. */
import type { JsonObject } from '../../src/json.ts'
import { mergePatch } from '../../src/system/merge-patch.ts'
import { idOf } from '../support/api.ts'
import type { Random } from '../support/random.ts'
import { openStream, type TestStream } from '../support/stream.ts'
import type { Credential, Credentials } from './credentials.ts'
import type { SoakedService } from './service.ts'

const MAX_SEEN = 4_096
const TOPICS = {
  system: { path: '/system', events: '/events', changed: 'system.changed' },
  sessions: { path: '/sessions', events: '/sessions/events', changed: 'sessions.changed' },
} as const
/** Why the service may end a stream that it was not asked to end, by the kinds of credentials. */
const REASONS: Readonly<Record<Credential['kind'], readonly string[]>> = {
  key: ['key replaced'],
  token: ['key replaced', 'expired', 'clock not set'],
  issuer: ['expired', 'clock not set', 'issuer removed', 'issuer changed', 'not yet valid'],
}

/** Every event of a topic that any client was sent, by its id: a replayed one must be the same, byte for byte. */
export class Seen {
  readonly #frames = new Map<string, string>()

  check(id: string, raw: string): void {
    const before = this.#frames.get(id)
    if (before !== undefined && before !== raw) throw new Error(`replayed ${raw} after ${before}`)
    this.#frames.set(id, raw)
    const [oldest] = this.#frames.keys()
    if (this.#frames.size > MAX_SEEN && oldest !== undefined) this.#frames.delete(oldest)
  }
}

export class Follower {
  readonly topic: keyof typeof TOPICS
  /** Two ways of merging what it hears. */
  shallow: JsonObject = {}
  deep: JsonObject = {}
  cursor = ''
  /** How often it was told to begin again. */
  resyncs = 0
  credential: Credential
  readonly #service: SoakedService
  readonly #credentials: Credentials
  readonly #random: Random
  readonly #seen: Seen
  #stream: TestStream | undefined
  #poll: AbortController | undefined
  #isStalled = false
  /** An error in what it heard. */
  #error: unknown

  constructor(parts: {
    service: SoakedService
    credentials: Credentials
    random: Random
    seen: Seen
    topic: Follower['topic']
  }) {
    this.#service = parts.service
    this.#credentials = parts.credentials
    this.#random = parts.random
    this.#seen = parts.seen
    this.topic = parts.topic
    this.credential = parts.credentials.fresh()
  }

  get isThere(): boolean {
    return this.#stream !== undefined || this.#poll !== undefined
  }

  get isStalled(): boolean {
    return this.#isStalled
  }

  /** Comes, or comes back to where it was, with a credential that is good. */
  async come(how: 'stream' | 'poll' = this.#random.chance(0.6) ? 'stream' : 'poll'): Promise<void> {
    this.leave()
    if (this.#credentials.isGood(this.credential) !== true || this.#random.chance(0.3))
      this.credential = this.#credentials.fresh()
    if (this.cursor === '') await this.#read()
    if (how === 'stream') await this.#follow()
    else this.#keepPolling()
  }

  leave(): void {
    this.#stream?.close()
    this.#poll?.abort()
    this.#stream = this.#poll = undefined
    this.#isStalled = false
  }

  /** Reads no more until it goes on. It is cut off if it takes too long. */
  stall(isStalled = !this.#isStalled): void {
    if (!this.#stream) return
    this.#isStalled = isStalled
    if (isStalled) this.#stream.socket.pause()
    else this.#stream.socket.resume()
  }

  /** Begins again with the whole. */
  forget(): void {
    this.leave()
    this.cursor = ''
  }

  /** @throws the error since it was asked last. */
  check(): void {
    if (this.#error) throw this.#error
  }

  /** Whether it has the latest, and if so, whether both copies are the truth. */
  isAt(id: string): boolean {
    this.check()
    return this.cursor === id
  }

  async #read(): Promise<void> {
    const answer = await this.#fetch(TOPICS[this.topic].path)
    if (answer?.status !== 200) return
    this.shallow = (await answer.json()) as JsonObject
    this.deep = structuredClone(this.shallow)
    this.cursor = idOf(answer)
  }

  /** With its own credential; undefined if that is not good any more. */
  async #fetch(
    path: string,
    headers: Record<string, string> = {},
    signal?: AbortSignal,
  ): Promise<Response | undefined> {
    const { text } = this.credential
    const before = this.#credentials.isGood(this.credential)
    const answer = await this.#service.fetch(path, {
      headers: { Authorization: `Bearer ${text}`, ...headers },
      ...(signal && { signal }),
    })
    const after = this.#credentials.isGood(this.credential)
    // A crowd has all places of the address.
    if (answer.status === 429) return undefined
    if (answer.status === 401 && (before !== true || after !== true)) return undefined
    if (answer.status >= 400)
      throw new Error(`${path}: ${answer.status} ${await answer.text()} with ${this.#described}`)
    if (before === false && after === false) throw new Error(`${path}: in with ${this.#described}`)
    return answer
  }

  async #follow(): Promise<void> {
    const { text } = this.credential
    const headers = { Authorization: `Bearer ${text}`, ...(this.cursor && { 'Last-Event-ID': this.cursor }) }
    const before = this.#credentials.isGood(this.credential)
    const stream = await openStream(this.#service.port, TOPICS[this.topic].events, headers)
    if (stream.status !== 200) {
      stream.close()
      if (stream.status === 429) return
      if (before === true && this.#credentials.isGood(this.credential) === true)
        throw new Error(`a stream: ${stream.head} with ${this.#described}`)
      return
    }
    this.#stream = stream
    this.#listen(stream).catch(error => {
      this.#error ??= error
    })
  }

  async #listen(stream: TestStream): Promise<void> {
    let why: unknown
    for (;;) {
      const block = await stream.block()
      if (this.#stream !== stream) return
      if (!block) break
      if (block.event === undefined) continue
      if (block.event === 'events.closed') {
        why = block.data?.reason
        continue
      }
      this.#hear(block.event, block.data ?? {})
      if (block.id === undefined) continue
      // A resync has the id of the latest event, and says more than it.
      if (!this.#isWhole(block.data ?? {})) this.#seen.check(block.id, block.raw)
      this.cursor = block.id
    }
    const wasStalled = this.#isStalled
    this.leave()
    if (why === undefined && !wasStalled) throw new Error(`a stream ended without a reason, with ${this.#described}`)
    if (why !== undefined && !REASONS[this.credential.kind].includes(String(why)))
      throw new Error(`a stream ended as ${why}, with ${this.#described}`)
    if (why !== undefined && this.#credentials.isGood(this.credential) === true && !this.#wasBad)
      throw new Error(`a stream ended as ${why} although nothing is wrong with ${this.#described}`)
  }

  /** A step of the clock may have been taken back meanwhile. */
  get #wasBad(): boolean {
    return this.credential.exp !== undefined
  }

  #keepPolling(): void {
    const poll = new AbortController()
    this.#poll = poll
    const run = async () => {
      while (this.#poll === poll) {
        const wait = 1 + this.#random.below(5)
        const headers = { Prefer: `wait=${wait}`, ...(this.cursor && { 'If-None-Match': `"${this.cursor}"` }) }
        const answer = await this.#fetch(TOPICS[this.topic].events, headers, poll.signal)
        if (this.#poll !== poll) return
        if (!answer) return this.leave()
        if (answer.status === 304) continue
        const events = (await answer.json()) as { event: string; data: JsonObject }[]
        if (this.#poll !== poll) return
        for (const { event, data } of events) this.#hear(event, data)
        this.cursor = idOf(answer)
      }
    }
    run().catch(error => {
      if (!poll.signal.aborted) this.#error ??= error
    })
  }

  #hear(event: string, data: JsonObject): void {
    if (event === 'events.resync') this.resyncs++
    if (event !== TOPICS[this.topic].changed) return
    this.shallow = { ...this.shallow, ...data }
    this.deep = mergePatch(this.deep, data) as JsonObject
  }

  #isWhole(data: JsonObject): boolean {
    return this.topic === 'sessions' || ('hardware' in data && 'hostname' in data && 'locale' in data)
  }

  get #described(): string {
    const { kind, iat, exp } = this.credential
    return `${kind}, iat ${iat}, exp ${exp}, at ${Math.floor(this.#service.now() / 1000)}`
  }
}
