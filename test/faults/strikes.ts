/** A service that is struck while it is used, and the invariants after each strike, whatever it was. */
import { readdirSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { mint } from '../../src/auth/jwt.ts'
import type { JsonObject } from '../../src/json.ts'
import { mergePatch } from '../../src/system/merge-patch.ts'
import { Snapshot } from '../../src/system/snapshot.ts'
import { VALUES } from '../contract/values.ts'
import { changedPaths, leftoversIn, type Tree, treeOf } from '../hal/support/tree.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { TestIssuer } from '../support/issuer.ts'
import { Random } from '../support/random.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { Striker } from './striker.ts'

/** Of a call to fail: from one in a whole change to several in a row, so that the undo is struck, too. */
const RAGES = [0.003, 0.01, 0.03, 0.1] as const
/** Descriptors that may come and go by themselves: connections, and the library's own. */
const SPARE_DESCRIPTORS = 24
const STATE = '/var/lib/receiverd/'

type Answer = { readonly status: number; readonly text: string }

export class Strikes {
  readonly striker: Striker
  /** How often each thing was done, and how it ended: `patch 507`. */
  readonly done = new Map<string, number>()
  readonly #t: Test
  readonly #random: Random
  readonly #root: string
  readonly #device: FakeReceiver
  readonly #stranger = mint('Q'.repeat(43), { roles: ['admin:rw'] })
  #service: TestService | undefined
  #key = ''
  /** Keys that were in force before. */
  #former: string[] = []
  /** The one that is certain to be there, if any; undefined while that cannot be said. */
  #issuer: TestIssuer | 'none' | undefined = 'none'
  #descriptors = 0
  #said = 0

  constructor(t: Test, seed: number) {
    this.#t = t
    this.#random = new Random(seed)
    this.striker = new Striker(new Random(seed + 1))
    this.#root = deviceRoot(t)
    this.#device = new FakeReceiver(this.#root)
  }

  get #api(): TestService {
    if (!this.#service) throw new Error('it is not started')
    return this.#service
  }

  async start(): Promise<void> {
    const { run, ...options } = this.#device.options
    this.#service = await startTestService(this.#t, {
      ...options,
      root: this.#root,
      fs: this.striker.fs,
      run: this.striker.run(run ?? (async () => '')),
    })
    this.#said = 0
  }

  async begin(): Promise<void> {
    await this.start()
    this.#key = this.#api.key
    this.#descriptors = openDescriptors()
  }

  /** Does something while strikes fall, and then looks at everything. */
  async step(): Promise<void> {
    const random = this.#random
    const acts = {
      patch: () => this.#patch(),
      trial: () => this.#trial(),
      rotate: () => this.#rotate(),
      issuer: () => this.#putIssuer(),
      read: () => this.#read(),
      restart: () => this.#restart(),
    }
    const name = random.pick([
      ...Array(12).fill('patch'),
      'trial',
      'trial',
      'rotate',
      'issuer',
      'read',
      'restart',
    ] as (keyof typeof acts)[])
    try {
      await acts[name]()
      this.#leaks()
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      throw new Error(
        `${name}: ${why} (after ${[...this.striker.recent].join(', ')}; the log: ${this.#api.log.slice(-4).join(' | ')})`,
        { cause: error },
      )
    } finally {
      this.striker.rage(0)
    }
    this.striker.takeRecent()
  }

  /** Does something while strikes fall. */
  async #under<T>(act: () => Promise<T>): Promise<T> {
    this.striker.rage(this.#random.pick(RAGES))
    try {
      return await act()
    } finally {
      this.striker.rage(0)
    }
  }

  async #ask(path: string, init: RequestInit = {}, credential = this.#key): Promise<Answer> {
    const answer = await this.#api.fetchAs(credential, path, init)
    const text = await answer.text()
    this.#count(`${init.method ?? 'GET'} ${path.split('?')[0]} ${answer.status}`)
    for (const secret of [this.#root, this.#stranger, 'injected', '.ts:', '/etc/secret', STATE])
      if (text.includes(secret)) throw new Error(`${path} answers with ${secret}: ${text}`)
    if (!path.startsWith('/api-key') && text.includes(this.#key)) throw new Error(`${path} answers with the key`)
    if (answer.status >= 500) this.#saysWhatIsWrong(path, text, answer.status)
    return { status: answer.status, text }
  }

  #saysWhatIsWrong(path: string, text: string, status: number): void {
    const { type, detail, status: said } = JSON.parse(text) as Record<string, unknown>
    if (said !== status || typeof type !== 'string' || typeof detail !== 'string' || detail.length < 20)
      throw new Error(`${path}: ${status} ${text}`)
    if (/unexpected error|undefined|\[object/.test(detail))
      throw new Error(`${path} does not say what is wrong: ${text}`)
    const isFull = [...this.striker.recent].some(code => code === 'ENOSPC' || code === 'EDQUOT')
    if (status === 507 && !isFull) throw new Error(`${path} says that there is no space: ${text}`)
  }

  /** A change of some settings: all of it, or nothing, or what the answer names. */
  async #patch(query = ''): Promise<Answer> {
    const before = await this.#settled()
    const tree = this.#tree()
    const names = Object.keys(VALUES).filter(name => name in before)
    const chosen = Array.from({ length: 1 + this.#random.below(3) }, () => this.#random.pick(names))
    const patch = Object.fromEntries(
      chosen.map(name => [name, this.#random.pick(VALUES[name] ?? [null])]),
    ) as JsonObject
    const init = { method: 'PATCH', body: JSON.stringify(patch), headers: { 'Content-Type': 'application/json' } }
    const isAsked = (name: string, value: JsonObject) =>
      isDeepStrictEqual(value[name], mergePatch(before[name] ?? null, patch[name] ?? null))
    const answer = await this.#under(() => this.#ask(`/system${query}`, init))
    const after = await this.#settled()
    if (answer.status === 200) {
      const acknowledged = JSON.parse(answer.text) as JsonObject
      for (const [name, part] of Object.entries(patch)) {
        const asked = mergePatch(before[name] ?? null, part ?? null)
        if (!isDeepStrictEqual(after[name], asked))
          throw new Error(`${name} was acknowledged, and is ${show(after[name])}, not ${show(asked)}`)
        // It is written, and cannot be read yet: an event follows.
        if (!isDeepStrictEqual(acknowledged[name], asked) && !this.#wasUnread(name))
          throw new Error(`${name} was acknowledged as ${show(acknowledged[name])}`)
      }
    } else if (answer.text.includes('Nothing has changed.')) {
      // Its temporary file may be struck, too; the next start removes that.
      const changed = changedPaths(tree, this.#tree()).filter(path => !path.includes('.receiverd-'))
      if (changed.length > 0) throw new Error(`nothing has changed, it says, but ${changed} did: ${answer.text}`)
    } else if (answer.status >= 500) {
      const left = leftIn(answer)
      if (left.length === 0) throw new Error(`it does not say what has changed: ${answer.text}`)
      // The next start takes it back, unless the journal was struck as well: then the named settings are as asked for.
      await this.#close()
      await this.start()
      const now = await this.#settled()
      for (const name of names)
        if (!isDeepStrictEqual(now[name], before[name]) && !(left.includes(name) && isAsked(name, now)))
          throw new Error(
            `${name} was not undone: ${show(now[name])}, and not ${show(before[name])}, after ${answer.text}`,
          )
    } else if (answer.status !== 422 && answer.status !== 409) throw new Error(`${answer.status} ${answer.text}`)
    return answer
  }

  /** A change that is kept, undone, or taken back by a restart. */
  async #trial(): Promise<void> {
    const before = await this.#settled()
    const answer = await this.#patch('?confirmWithin=600')
    if (answer.status !== 200) return
    const tried = await this.#settled()
    const how = this.#random.pick(['POST', 'DELETE', 'restart'])
    if (how === 'restart') {
      await this.#close()
      await this.start()
      return this.#is(await this.#settled(), before, 'a trial was not undone by a restart')
    }
    const end = await this.#under(() => this.#ask('/system/confirm', { method: how }))
    // It is no change if it had changed nothing.
    if (end.status === 409 && isDeepStrictEqual(before, tried)) return
    const after = await this.#settled()
    if (end.status === 200 && how === 'POST') {
      this.#is(after, tried, 'a change was kept, and is not there')
      await this.#close()
      await this.start()
      this.#is(await this.#settled(), tried, 'a change was kept, and is gone after a restart')
    } else if (how === 'POST' && /Could not be undone/.test(end.text)) {
      const left = leftIn(end)
      await this.#close()
      await this.start()
      // Unless the journal was struck as well, as in `#patch`.
      const now = await this.#settled()
      const expected = Object.entries(before).map(([name, value]) => {
        const isLeft = left.includes(name) && isDeepStrictEqual(now[name], tried[name])
        return [name, isLeft ? tried[name] : value] as const
      })
      this.#is(now, Object.fromEntries(expected) as JsonObject, 'a change was not kept, and not undone by a restart')
    } else if (end.status >= 500) this.#is(after, before, 'a change was not kept, and is there')
    else if (end.status === 200) {
      // The event names failed undos, and the next start undoes them.
      await this.#close()
      await this.start()
      this.#is(await this.#settled(), before, 'a change was cancelled, and is there after a restart')
    } else throw new Error(`${how} /system/confirm: ${end.status} ${end.text}`)
  }

  #is(value: JsonObject, expected: JsonObject, what: string): void {
    for (const name of Object.keys(expected))
      if (!isDeepStrictEqual(value[name], expected[name]))
        throw new Error(`${what}: ${name} is ${show(value[name])}, and not ${show(expected[name])}`)
  }

  /** The old key, or the new one: never both, never neither, and an acknowledged one for sure. */
  async #rotate(): Promise<void> {
    const old = this.#key
    const answer = await this.#under(() => this.#ask('/api-key', { method: 'POST' }))
    if (answer.status === 200) this.#key = (JSON.parse(answer.text) as { apiKey: string }).apiKey
    // A key that was stored, but not acknowledged, may come into force by itself.
    else await eventually(async () => (await this.#isIn(old)) || (await this.#isIn(this.#api.key)))
    await eventually(async () => (await this.#isIn(this.#api.key)) && true)
    this.#key = this.#api.key
    if (answer.status !== 200 && answer.status < 500) throw new Error(`${answer.status} ${answer.text}`)
    if (this.#key !== old) this.#former = [old, ...this.#former].slice(0, 4)
    await this.#nobodyElseIsIn()
  }

  async #isIn(credential: string): Promise<boolean> {
    const { status } = await this.#api.fetchAs(credential, '/credential')
    return status === 200
  }

  async #nobodyElseIsIn(): Promise<void> {
    if (!(await this.#isIn(this.#key))) throw new Error('the key in force is refused')
    if (!(await this.#isIn(mint(this.#key, { roles: ['admin:r'] }))))
      throw new Error('a token of the key in force is refused')
    const expired = mint(this.#key, { roles: ['admin:rw'], exp: 1 })
    const others = this.#former.flatMap(key => [key, mint(key, { roles: ['admin:rw'] })])
    for (const credential of [this.#stranger, expired, ...others])
      if (await this.#isIn(credential)) throw new Error('somebody is in who should not be')
    if (this.#issuer instanceof TestIssuer && !(await this.#isIn(this.#issuer.token())))
      throw new Error('an issuer that was acknowledged is refused')
  }

  async #putIssuer(): Promise<void> {
    const issuer = new TestIssuer('owner')
    const isPut = this.#random.chance(0.6)
    const before = this.#issuer
    const headers = { 'Content-Type': 'application/json' }
    const init = isPut ? { method: 'PUT', body: issuer.file(), headers } : { method: 'DELETE' }
    const answer = await this.#under(() => this.#ask('/issuers/owner', init))
    if (answer.status < 300) this.#issuer = isPut ? issuer : 'none'
    else if (answer.status === 404 && !isPut) this.#issuer = 'none'
    else if (answer.status >= 500) this.#issuer = undefined
    else throw new Error(`${answer.status} ${answer.text}`)
    if (answer.status < 300 && before instanceof TestIssuer && (await this.#isIn(before.token())))
      throw new Error(`an issuer that was ${isPut ? 'replaced' : 'removed'} is still in`)
    await this.#nobodyElseIsIn()
  }

  async #read(): Promise<void> {
    for (const path of [
      '/status',
      '/system/choices',
      '/metrics',
      '/issuers',
      '/system',
      '/sessions',
      '/logs',
      '/openapi.json',
    ])
      await this.#under(() => this.#ask(path))
    await this.#settled()
  }

  /** It starts whatever is struck, and has all that it had. */
  async #restart(): Promise<void> {
    const before = await this.#settled()
    await this.#under(async () => {
      await this.#close()
      await this.start()
      await this.#ask('/health')
    })
    // Where the key could not be read, that is mended by looking again.
    await eventually(() => this.#isIn(this.#key)).catch(async () => {
      await this.#close()
      await this.start()
    })
    // A setting and an issuer that could not be read for the first time are there at the next start at the latest.
    const names = Object.keys(await this.#served())
    const isIssuerUnread = this.#api.log.some(line => line.startsWith('warning: issuers'))
    if (names.length !== Object.keys(before).length || isIssuerUnread) {
      await this.#close()
      await this.start()
    }
    this.#is(await this.#settled(), before, 'after a restart')
    await this.#nobodyElseIsIn()
    const left = leftoversIn(this.#root)
    if (left.length > 0) throw new Error(`left behind: ${left}`)
  }

  async #close(): Promise<void> {
    await this.#api.close()
  }

  async #served(): Promise<JsonObject> {
    const { status, text } = await this.#ask('/system')
    if (status !== 200) throw new Error(`/system: ${status} ${text}`)
    return JSON.parse(text) as JsonObject
  }

  /**
   * The configuration, after time to look again: it must be that of the files and the running system. The pauses between two
   * looks at what cannot be read grow with the time for which strikes have fallen, which is long on a busy machine.
   */
  async #settled(): Promise<JsonObject> {
    let [served, truth]: JsonObject[] = [{}, {}]
    await eventually(async () => {
      const snapshot = new Snapshot(registry(new System(this.#root, this.#device.options)), () => undefined)
      await snapshot.probe()
      await snapshot.read(snapshot.available)
      const { update: _, ...rest } = JSON.parse(snapshot.json) as JsonObject
      truth = rest
      served = await this.#served()
      return isDeepStrictEqual(served, truth)
    }).catch(() => {
      const names = Object.keys(truth ?? {}).filter(name => !isDeepStrictEqual(served?.[name], truth?.[name]))
      throw new Error(
        names.map(name => `${name}: ${show(served?.[name])} is served, ${show(truth?.[name])} is so`).join('; '),
      )
    })
    return served ?? {}
  }

  /** The device's files, without our own state. */
  #tree(): Tree {
    const tree = treeOf(this.#root)
    return Object.fromEntries(Object.entries(tree).filter(([path]) => path.startsWith('/etc/')))
  }

  #leaks(): void {
    const lines = this.#api.log.slice(this.#said)
    this.#said = this.#api.log.length
    for (const line of lines)
      for (const secret of [this.#key, this.#stranger, ...this.#former])
        if (line.includes(secret)) throw new Error(`a credential is in the log: ${line}`)
    const now = openDescriptors()
    if (now > this.#descriptors + SPARE_DESCRIPTORS)
      throw new Error(`${now} descriptors are open, at first ${this.#descriptors}`)
  }

  /** Whether it was unreadable at some time of this step. This is logged once, perhaps in a step before. */
  #wasUnread(name: string): boolean {
    const usable = `info: ${name}: the stored value is usable again`
    const last = this.#api.log.findLastIndex(line => line.startsWith(`warning: ${name}: `) || line === usable)
    return last >= 0 && (last >= this.#said || this.#api.log[last] !== usable)
  }

  #count(what: string): void {
    this.done.set(what, (this.done.get(what) ?? 0) + 1)
  }
}

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length
}

/** The settings that could not be undone. */
function leftIn({ text }: Answer): readonly string[] {
  const [, names = ''] = /Could not be undone: ([^.]*)\./.exec(text) ?? []
  return names.split(', ').filter(name => name !== '')
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? 'absent'
}
