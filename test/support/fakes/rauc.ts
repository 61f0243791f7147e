import { basename } from 'node:path'
import type { Run } from '../../../hal/os/command.ts'
import { CommandFailure } from '../../../hal/os/command.ts'

/** A slot as RAUC 1.13 describes it, with RAUC's own names; `status` is absent if nothing was ever installed. */
export interface FakeSlot {
  readonly bootname: string
  'boot-status'?: 'good' | 'bad'
  status?: 'ok' | 'pending'
  'bundle.version'?: string
  'installed.timestamp'?: string
  'activated.timestamp'?: string
}

/** A bundle as `InspectBundle` and `InstallBundle` see it: its content, or why it is refused. */
export type FakeBundle = { readonly version: string; readonly compatible: string } | string

const variant = (type: string, data: unknown) => ({ type, data })

/**
 * RAUC at the other end of busctl, with two slots. Its output has the form that RAUC 1.13 and busctl of systemd 257
 * were seen to print. An installation ends when the test says so.
 */
export class FakeRauc {
  bootSlot = 'A'
  /** Empty if no slot has an attempt left. */
  primary = 'rootfs.0'
  operation = 'idle'
  percent = 0
  lastError = ''
  /** Whether nothing answers, as without the package. */
  isAbsent = false
  /** Methods that are carried out but whose answer is lost, and methods that are refused: `Mark`, or `Mark bad` alone. */
  readonly unanswered = new Set<string>()
  readonly refused = new Set<string>()
  readonly bundles = new Map<string, FakeBundle>()
  /** The calls that were made, except reads. */
  readonly did: string[] = []
  readonly slots: Record<string, FakeSlot> = {
    'rootfs.1': { bootname: 'B', 'boot-status': 'bad' },
    'rootfs.0': { bootname: 'A', 'boot-status': 'good', status: 'ok', 'bundle.version': '1.0.0' },
  }

  /** Whether a call has come that `hold` makes wait. */
  isWaiting = false

  #held: string | undefined
  #released = Promise.resolve()
  #release = () => {}

  /** Makes a method wait until `release`. */
  hold(method: string): void {
    this.#held = method
    this.#released = new Promise(resolve => {
      this.#release = resolve
    })
  }

  release(): void {
    this.#release()
  }

  readonly run: Run = async ([, , ...words]) => {
    if (words.some(word => word === this.#held)) {
      this.isWaiting = true
      await this.#released
    }
    const [verb, , , , ...rest] = words
    if (this.isAbsent) throw failure('The name de.pengutronix.rauc was not provided by any .service files')
    if (verb === 'get-property') return rest.map(name => `${JSON.stringify(this.#property(name))}\n`).join('')
    const [method = '', , ...args] = rest
    if (this.operation !== 'idle') throw failure('already processing a different method')
    if (this.refused.has(method) || this.refused.has(`${method} ${args[0]}`)) throw failure('refused')
    const answer = this.#call(method, args)
    if (this.unanswered.has(method)) throw failure('Connection timed out')
    return `${JSON.stringify(answer)}\n`
  }

  /** Lets the running installation succeed. */
  succeed(version: string, at = '2026-11-25T00:18:44Z'): void {
    const [name = '', slot] = this.#other()
    Object.assign(slot ?? {}, { status: 'ok', 'boot-status': 'good', 'bundle.version': version })
    Object.assign(slot ?? {}, { 'installed.timestamp': at, 'activated.timestamp': at })
    Object.assign(this, { primary: name, operation: 'idle', percent: 100 })
  }

  fail(lastError: string): void {
    Object.assign(this, { operation: 'idle', percent: 100, lastError })
  }

  #property(name: string): object {
    if (name === 'Progress') return variant('(isi)', [this.percent, 'Copying image to rootfs.1', 3])
    const texts: Record<string, string> = {
      BootSlot: this.bootSlot,
      Operation: this.operation,
      LastError: this.lastError,
    }
    return variant('s', texts[name] ?? '')
  }

  #call(method: string, [first = '', second = '']: readonly string[]): object {
    if (method === 'GetPrimary' && this.primary === '')
      throw failure('Failed getting primary slot: uboot backend: Unable to find primary boot slot')
    if (method === 'GetPrimary') return variant('s', [this.primary])
    if (method === 'GetSlotStatus') return variant('a(sa{sv})', [Object.entries(this.slots).map(slotOf)])
    this.did.push(`${method} ${method === 'Mark' ? `${first} ${second}` : basename(first)}`)
    if (method === 'Mark') {
      const slot = this.slots[second]
      if (first === 'active') this.primary = second
      if (first === 'bad' && slot) slot['boot-status'] = 'bad'
      // The next one in the boot order.
      if (first === 'bad' && this.primary === second)
        this.primary = Object.keys(this.slots).find(name => this.slots[name]?.['boot-status'] === 'good') ?? ''
      return variant('ss', [second, `marked slot ${second} as ${first}`])
    }
    if (method === 'InstallBundle') {
      const [, slot] = this.#other()
      Object.assign(slot ?? {}, { status: 'pending', 'boot-status': 'bad' })
      Object.assign(this, { operation: 'installing', percent: 46, lastError: '' })
      return {}
    }
    const bundle = this.bundles.get(first) ?? 'Invalid bundle format: Failed to open bundle for reading'
    if (typeof bundle === 'string') throw failure(bundle)
    const update = Object.fromEntries(Object.entries(bundle).map(([name, value]) => [name, variant('s', value)]))
    return variant('a{sv}', [
      { update: variant('v', variant('a{sv}', update)), meta: variant('v', variant('a{sa{ss}}', {})) },
    ])
  }

  #other(): readonly [name: string, slot: FakeSlot] | readonly [] {
    return Object.entries(this.slots).find(([, { bootname }]) => bootname !== this.bootSlot) ?? []
  }
}

function slotOf([name, slot]: readonly [string, FakeSlot]) {
  return [name, Object.fromEntries(Object.entries(slot).map(([key, value]) => [key, variant('s', value)]))]
}

function failure(message: string): CommandFailure {
  return new CommandFailure('busctl failed with status 1', `Call failed: ${message}\n`)
}
