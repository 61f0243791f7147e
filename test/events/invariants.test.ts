/**
 * Invariants of any sequence of changes, disconnections and cursors. Each run follows a seed; SEED=N runs that one alone.
 */
import { rmSync, writeFileSync } from 'node:fs'
import t from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { mergePatch } from '../../src/system/merge-patch.ts'
import { idOf } from '../support/api.ts'
import { Random } from '../support/random.ts'
import { startTestService, type TestService } from '../support/service.ts'
import type { TestStream } from '../support/stream.ts'

const SEEDS = process.env.SEED ? [Number(process.env.SEED)] : [1, 2, 3]
const STEPS = 60
const CLIENTS = 6

/** Every event that any client was sent, by its id. */
type Seen = Map<string, string>

/** A client as the API's README describes it, with two ways of merging what it hears. */
class Client {
  shallow: JsonObject = {}
  deep: JsonObject = {}
  cursor = ''
  /** Cursors that it had before: going back to one of them must do no harm. */
  readonly history: string[] = []
  #stream: TestStream | undefined
  readonly #random: Random
  readonly #seen: Seen

  constructor(random: Random, seen: Seen) {
    this.#random = random
    this.#seen = seen
  }

  async read(service: TestService): Promise<void> {
    this.disconnect()
    const { value, id } = await service.system()
    this.shallow = value
    this.deep = structuredClone(value)
    this.#moveTo(id)
  }

  disconnect(): void {
    this.#stream?.close()
    this.#stream = undefined
  }

  goBack(): void {
    this.disconnect()
    if (this.history.length > 0) this.cursor = this.#random.pick(this.history)
  }

  /** Goes on from its cursor until it has the event with this id, by a stream or by polls. */
  async catchUp(service: TestService, id: string): Promise<void> {
    if (this.#random.chance(0.5)) await this.#poll(service, id)
    else await this.#follow(service, id)
  }

  async #poll(service: TestService, id: string): Promise<void> {
    this.disconnect()
    while (this.cursor !== id) {
      const answer = await service.fetch('/events', {
        headers: { 'If-None-Match': `"${this.cursor}"`, Prefer: 'wait=5' },
      })
      const text = await answer.text()
      // An answer can reach beyond the event, where something else has changed meanwhile.
      if (answer.status === 304 && (await service.system()).id === this.cursor) return
      if (answer.status !== 200) throw new Error(`${answer.status} instead of ${id}`)
      for (const { event, data } of JSON.parse(text) as { event: string; data: JsonObject }[]) this.#hear(event, data)
      this.#moveTo(idOf(answer))
    }
  }

  async #follow(service: TestService, id: string): Promise<void> {
    this.#stream ??= await service.stream('/events', { 'Last-Event-ID': this.cursor })
    while (this.cursor !== id) {
      const block = await this.#stream.event()
      if (!block?.event || !block.data) throw new Error(`the stream ended before ${id}`)
      this.#hear(block.event, block.data)
      if (block.id === undefined) continue
      // A resync has the id of the latest event and says more than it: everything.
      const isWhole = 'hardware' in block.data && 'hostname' in block.data && 'locale' in block.data
      const before = this.#seen.get(block.id)
      if (!isWhole && before !== undefined && before !== block.raw)
        throw new Error(`replayed ${block.raw} after ${before}`)
      if (!isWhole) this.#seen.set(block.id, block.raw)
      this.#moveTo(block.id)
      // It can reach beyond the event, as an answer to a poll can.
      if (isWhole) return
    }
  }

  #hear(event: string, data: JsonObject): void {
    if (event !== 'system.changed') return
    this.shallow = { ...this.shallow, ...data }
    this.deep = mergePatch(this.deep, data) as JsonObject
  }

  #moveTo(id: string): void {
    this.cursor = id
    this.history.push(id)
  }
}

const CHANGES: readonly ((random: Random) => JsonObject)[] = [
  random => ({ deviceName: `Room ${random.below(5)}` }),
  random => ({ hostname: `host-${random.below(5)}` }),
  random => ({ timezone: random.pick(['Europe/Brussels', 'Asia/Tokyo', 'Etc/UTC']) }),
  random => ({ locale: random.pick(['en_GB.UTF-8', 'de_DE.UTF-8', 'C.UTF-8']) }),
  random => ({ ntp: { servers: ['a.example', 'b.example', 'c.example'].slice(random.below(4)) } }),
]

const FOREIGN: readonly ((service: TestService, random: Random) => void)[] = [
  (service, random) => writeFileSync(service.path('etc/hostname'), `foreign-${random.below(5)}\n`),
  (service, random) =>
    writeFileSync(service.path('etc/machine-info'), `PRETTY_HOSTNAME="Foreign ${random.below(5)}"\n`),
  service => rmSync(service.path('etc/machine-info'), { force: true }),
  service => writeFileSync(service.path('etc/locale.conf'), '\0'),
  (service, random) => writeFileSync(service.path('etc/locale.conf'), `LANG=${random.pick(['fr_FR.UTF-8', 'C'])}\n`),
]

for (const seed of SEEDS)
  t.test(`every client ends with what GET returns, seed ${seed}`, async t => {
    const random = new Random(seed)
    const env = { RECEIVERD_EVENTS: String(random.pick([1, 3, 8, 1_024])) }
    const seen: Seen = new Map()
    let service = await startTestService(t, { env })
    const given = new Set<string>()
    const clients = Array.from({ length: CLIENTS }, () => new Client(random, seen))
    for (const client of clients) await client.read(service)

    for (let step = 0; step < STEPS; step++) {
      const client = random.pick(clients)
      const kind = random.below(20)
      if (kind < 8) {
        const patches = Array.from({ length: 1 + random.below(4) }, () =>
          service.patch(
            Object.assign({}, ...Array.from({ length: 1 + random.below(3) }, () => random.pick(CHANGES)(random))),
          ),
        )
        for (const answer of await Promise.all(patches)) t.equal(answer.status, 200) || t.comment(await answer.text())
      } else if (kind < 12) random.pick(FOREIGN)(service, random)
      else if (kind < 16) await client.catchUp(service, (await service.system()).id)
      else if (kind === 16) client.disconnect()
      else if (kind === 17) client.goBack()
      else if (kind === 18) await client.read(service)
      else {
        await service.close()
        service = await startTestService(t, { env, root: service.root })
        for (const client of clients) client.disconnect()
        const { id } = await service.system()
        t.notOk(given.has(id), 'an id of an earlier run is not used again')
      }
      given.add((await service.system()).id)
    }

    // The last look at changes from outside.
    await service.patch({ deviceName: `The end of ${seed}` })
    await service.patch({ locale: 'en_GB.UTF-8', ntp: { enabled: true } })
    const { value, id } = await service.system()
    for (const [n, client] of clients.entries()) {
      await client.catchUp(service, id)
      t.strictSame(client.shallow, value, `client ${n}, merging shallowly`)
      t.strictSame(client.deep, value, `client ${n}, merging deeply`)
      client.disconnect()
    }
  })
