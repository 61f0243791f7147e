import { isDeepStrictEqual } from 'node:util'
import { errorCode, reasonOf } from '../../hal/errors.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import type { System } from '../../hal/os/system.ts'
import { isWritable, type Setting } from '../../hal/setting.ts'
import { type Change, TransactionFailed, type Transactions, type Undone } from '../../hal/transaction/transaction.ts'
import type { EventLog } from '../events/event-log.ts'
import { SYSTEM_CHANGED, SYSTEM_REVERTED } from '../events/resync.ts'
import { isObject, type JsonObject, type JsonValue, pointerStep, toJsonLine } from '../json.ts'
import { MAX_WAITING_CHANGES, POLL_MS, SETTLE_MS } from '../limits.ts'
import type { Log } from '../log.ts'
import { type FieldError, Problem } from '../problem.ts'
import { Serial } from '../serial.ts'
import { illFormedStrings, MAX_ERRORS, nameErrors, schemaErrors } from '../validate.ts'
import { mergePatch } from './merge-patch.ts'

export interface SystemStoreOptions {
  readonly system: System
  readonly settings: readonly Setting[]
  readonly transactions: Transactions
  readonly events: EventLog
  readonly log: Log
}

/** What a PATCH has done. */
export interface Patched {
  /** The settings that were written. */
  readonly written: readonly string[]
  /** Seconds in which it must be confirmed; undefined for what is kept, or has changed nothing. */
  readonly confirmWithinS: number | undefined
}

/**
 * The configuration as it is, and the only one that tells of its changes. A PATCH and a watcher take the same path: what
 * may have changed is read again, compared with what was known, and the difference is one event.
 */
export class SystemStore {
  readonly #options: SystemStoreOptions
  /** Why the device has no such setting, by name. What it had once stays. */
  readonly #unavailable = new Map<string, string>()
  readonly #values = new Map<string, JsonValue>()
  /** Settings whose fallback stands in, with the reason. */
  readonly #fallbacks = new Map<string, string>()
  /** Those of them where something is broken: a write of any value repairs it, also of the fallback's. */
  readonly #broken = new Set<string>()
  /** Settings that may have changed since they were read. */
  readonly #stale = new Set<Setting>()
  readonly #stops: Stop[] = []
  readonly #queue = new Serial()
  #settling: NodeJS.Timeout | undefined
  /** A change that is undone unless it is confirmed in time. */
  #unconfirmed: NodeJS.Timeout | undefined
  #json: string | undefined

  constructor(options: SystemStoreOptions) {
    this.#options = options
  }

  /**
   * Undoes what an earlier run left behind, reads everything once, and follows it from then on.
   * @returns the data of the `system.reverted` for what was undone; undefined where that was nothing.
   */
  async start(): Promise<string | undefined> {
    const { system, settings, log } = this.#options
    for (const setting of settings) await this.#askFor(setting)
    for (const [name, because] of this.#unavailable) log('info', `${name} is not available: ${because}`)
    // Only now it is known which files there are, where that depends on the parts of the device.
    for (const path of new Set(settings.flatMap(setting => setting.files))) await system.recover(path)
    const undone = await this.#recover()
    // First watched, then read: a change in between is seen twice rather than never.
    for (const setting of this.#available) this.#watch(setting)
    await Promise.all(this.#available.map(async setting => this.#values.set(setting.name, await this.#read(setting))))
    await this.#follow(this.#names)
    const poll = setInterval(() => {
      for (const setting of settings) this.#lookAgain(setting)
    }, POLL_MS).unref()
    this.#stops.push(() => clearInterval(poll))
    return undone
  }

  /** Looks no more, and resolves when the changes that wait have been made. */
  async stop(): Promise<void> {
    await this.#queue.run(async () => {
      for (const stop of this.#stops) stop()
      clearTimeout(this.#settling)
      // What is not confirmed stays in the journal, and the next start undoes it.
      clearTimeout(this.#unconfirmed)
    })
  }

  /** Whether another change waits for the present one. */
  get isBusy(): boolean {
    return this.#queue.length > 1
  }

  /** The whole configuration as JSON, as of the latest event. */
  get json(): string {
    this.#json ??= toJsonLine(Object.fromEntries(this.#names.map(name => [name, this.#values.get(name)])))
    return this.#json
  }

  /**
   * Applies a JSON Merge Patch, all of it or nothing, durably.
   * @param precondition Called when no other change can come in between; throws where the change must not happen.
   * @param confirmWithinS Seconds after which the change is undone unless `confirm` is called; undefined to keep it.
   * @throws {Problem} 409 while a change waits for its confirmation, 422 for a value that is refused, 500 or 507 where
   * the system refuses, 503 for too many at once.
   */
  patch(patch: JsonValue, precondition: () => void, confirmWithinS?: number): Promise<Patched> {
    if (this.#queue.length >= MAX_WAITING_CHANGES)
      throw new Problem('unavailable', `${MAX_WAITING_CHANGES} changes wait already.`, {
        headers: ['Retry-After', '1'],
      })
    return this.#queue.run(async () => {
      await this.#readStale()
      if (this.#unconfirmed)
        throw new Problem('conflict', 'A change waits for its confirmation: confirm it, or wait until it is undone.')
      precondition()
      const changes = await this.#plan(patch)
      if (changes.length === 0) return { written: [], confirmWithinS: undefined }
      await this.#apply(changes, confirmWithinS === undefined)
      if (confirmWithinS !== undefined) this.#awaitConfirmation(confirmWithinS)
      return { written: changes.map(change => change.setting.name), confirmWithinS }
    })
  }

  /**
   * Keeps the change that waits for it.
   * @param precondition as for `patch`.
   * @throws {Problem} 409 where none does, 500 or 507 where the system refuses: the change is undone then.
   */
  confirm(precondition: () => void): Promise<void> {
    return this.#queue.run(async () => {
      precondition()
      if (!this.#unconfirmed) throw new Problem('conflict', 'No change waits for a confirmation.')
      clearTimeout(this.#unconfirmed)
      this.#unconfirmed = undefined
      try {
        await this.#options.transactions.keep()
      } catch (error) {
        await this.#readBack(this.#available)
        throw this.#refused(error)
      } finally {
        await this.#follow(this.#names)
      }
    })
  }

  /** The settings that the device has, in the order of the registry. */
  get #available(): readonly Setting[] {
    return this.#options.settings.filter(({ name }) => !this.#unavailable.has(name))
  }

  get #names(): readonly string[] {
    return this.#available.map(({ name }) => name)
  }

  /** @returns whether the device has it. */
  async #askFor(setting: Setting): Promise<boolean> {
    const because = await setting.unavailable?.().catch(reasonOf)
    if (because === undefined) this.#unavailable.delete(setting.name)
    else this.#unavailable.set(setting.name, because)
    return because === undefined
  }

  #watch(setting: Setting): void {
    const { system } = this.#options
    const changed = () => this.#lookAgain(setting)
    for (const path of [...setting.files, ...(setting.sources ?? [])]) this.#stops.push(system.watch(path, changed))
    if (setting.watch) this.#stops.push(setting.watch(changed))
  }

  async #apply(changes: readonly Change[], keep: boolean): Promise<void> {
    const { transactions } = this.#options
    try {
      await transactions.apply(changes, keep)
      if (keep) await transactions.keep()
    } catch (error) {
      throw this.#refused(error)
    } finally {
      await this.#readBack(changes.map(change => change.setting))
    }
  }

  #awaitConfirmation(seconds: number): void {
    const deadline = setTimeout(() => {
      this.#queue
        .run(async () => {
          // A confirmation may have been before it in the queue.
          if (this.#unconfirmed !== deadline) return
          this.#unconfirmed = undefined
          await this.#revert('not confirmed')
        })
        .catch(error => this.#options.log('error', `undoing a change failed: ${reasonOf(error)}`))
    }, seconds * 1000)
    this.#unconfirmed = deadline
  }

  async #revert(reason: string): Promise<void> {
    const undone = await this.#options.transactions.undo()
    await this.#readBack(this.#available.filter(setting => undone.settings.includes(setting.name)))
    this.#options.events.append(SYSTEM_REVERTED, this.#reverted(undone, reason))
    await this.#follow(this.#names)
  }

  async #recover(): Promise<string | undefined> {
    const { transactions, log } = this.#options
    try {
      const undone = await transactions.recover()
      // No event: nobody has a cursor of this run that stands before it.
      return undone && this.#reverted(undone, 'restarted')
    } catch (error) {
      log('error', `the journal of an unfinished change: ${reasonOf(error)}; what it changed stays as it is`)
      return undefined
    }
  }

  /** Logs what was undone, and why; the data of its event. */
  #reverted({ settings, notUndone }: Undone, reason: string): string {
    this.#options.log('warning', `${settings.join(', ')} undone (${reason}). ${outcome(notUndone)}`)
    return JSON.stringify({ reason, properties: settings, notUndone })
  }

  /** At most one look every `SETTLE_MS`, however often a file is written: and then it is likely to be whole. */
  #lookAgain(setting: Setting): void {
    this.#stale.add(setting)
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined
      this.#queue
        .run(() => this.#readStale())
        .catch(error => this.#options.log('error', `looking for changes failed: ${reasonOf(error)}`))
    }, SETTLE_MS)
  }

  async #readStale(): Promise<void> {
    if (this.#stale.size === 0) return
    const stale = [...this.#stale]
    this.#stale.clear()
    const come = await this.#findNew(stale)
    const changed = await this.#readBack(stale)
    await this.#follow(come ? this.#names : changed)
  }

  /** Asks again for what the device has not had so far: while it boots, a part of it may come after the service. */
  async #findNew(settings: readonly Setting[]): Promise<boolean> {
    let come = false
    for (const setting of settings) {
      if (!this.#unavailable.has(setting.name) || !(await this.#askFor(setting))) continue
      come = true
      this.#options.log('info', `${setting.name} is available`)
      this.#watch(setting)
    }
    return come
  }

  /**
   * Reads settings, and those that depend on them, and tells of all that is different as one change.
   * @returns the names of those that are different.
   */
  async #readBack(settings: readonly Setting[]): Promise<readonly string[]> {
    const names = this.#withDependents(settings.map(setting => setting.name))
    const delta: JsonObject = {}
    for (const setting of this.#available) {
      const { name } = setting
      if (!names.has(name)) continue
      const value = await this.#read(setting)
      if (!isDeepStrictEqual(value, this.#values.get(name))) delta[name] = value
    }
    if (Object.keys(delta).length === 0) return []
    for (const [name, value] of Object.entries(delta)) this.#values.set(name, value)
    this.#json = undefined
    this.#options.events.append(SYSTEM_CHANGED, toJsonLine(delta))
    return Object.keys(delta)
  }

  /** Has settings that were changed from outside written into the files of those that follow them. */
  async #follow(names: Iterable<string>): Promise<void> {
    const changes = this.#followers(names)
    // One change at a time: when the one that waits is confirmed or undone, all of them are looked after.
    if (changes.length === 0 || this.#unconfirmed) return
    try {
      await this.#apply(changes, true)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      this.#options.log('error', error.message)
    }
  }

  /** What must be written again, with the value that it has, when settings of these names change. */
  #followers(names: Iterable<string>): readonly Change[] {
    const changed = this.#withDependents(names)
    const changes: Change[] = []
    for (const setting of this.#available) {
      const value = this.#values.get(setting.name)
      if (setting.embeds?.(value).some(other => changed.has(other)))
        changes.push({ setting, previous: value, next: value })
    }
    return changes
  }

  #withDependents(names: Iterable<string>): ReadonlySet<string> {
    const all = new Set(names)
    for (const { name, dependsOn } of this.#available) if (dependsOn?.some(other => all.has(other))) all.add(name)
    return all
  }

  /** A value that fits the schema, whatever the system holds; the log hears once of each reason why it does not. */
  async #read(setting: Setting): Promise<JsonValue> {
    let reason: string
    let level: 'info' | 'warning' = 'warning'
    try {
      const value = (await setting.read()) as JsonValue
      const [misfit] = schemaErrors(setting.schema, value, '')
      if (misfit === undefined) {
        this.#broken.delete(setting.name)
        if (this.#fallbacks.delete(setting.name))
          this.#options.log('info', `${setting.name} is read from the system again`)
        return value
      }
      reason = `what is there ${misfit.detail}`
    } catch (error) {
      reason = reasonOf(error)
      if (errorCode(error) === 'ABSENT') level = 'info'
    }
    if (level === 'warning') this.#broken.add(setting.name)
    else this.#broken.delete(setting.name)
    if (this.#fallbacks.get(setting.name) !== reason) {
      this.#fallbacks.set(setting.name, reason)
      this.#options.log(level, `${setting.name} reads its fallback: ${reason}`)
    }
    return (await setting.fallback()) as JsonValue
  }

  /** What a patch would change, each part checked. */
  async #plan(patch: JsonValue): Promise<readonly Change[]> {
    if (!isObject(patch))
      throw invalid([
        {
          pointer: '',
          detail: 'must be a JSON object with the properties to change',
        },
      ])
    const illFormed = illFormedStrings(patch)
    if (illFormed.length > 0) throw invalid(illFormed)

    const errors: FieldError[] = []
    const changes = new Map<string, Change>()
    for (const [name, part] of Object.entries(patch)) {
      const pointer = pointerStep(name)
      const setting = this.#available.find(setting => setting.name === name)
      if (!setting) {
        const because = this.#unavailable.get(name)
        const detail = because === undefined ? 'unknown property' : `not available on this device: ${because}`
        errors.push({ pointer, detail })
        continue
      }
      const previous = this.#values.get(name)
      const next = mergePatch(previous, part)
      if (isDeepStrictEqual(next, previous) && !(this.#broken.has(name) && isWritable(setting))) continue
      const refusals = await this.#check(setting, next, previous ?? null, pointer)
      errors.push(...refusals)
      if (refusals.length === 0) changes.set(name, { setting, previous, next })
    }
    if (errors.length > 0) throw invalid(errors)
    for (const follower of this.#followers(changes.keys()))
      if (!changes.has(follower.setting.name)) changes.set(follower.setting.name, follower)
    return this.#names.map(name => changes.get(name)).filter(change => change !== undefined)
  }

  async #check(
    setting: Setting,
    next: JsonValue,
    previous: JsonValue,
    pointer: string,
  ): Promise<readonly FieldError[]> {
    if (!isWritable(setting)) return [{ pointer, detail: 'read-only' }]
    if (next === null) return [{ pointer, detail: 'cannot be removed' }]
    const names = nameErrors(setting.schema, next, previous, pointer)
    const errors = names.length > 0 ? names : schemaErrors(setting.schema, next, pointer)
    if (errors.length > 0) return errors
    const refusals = (await setting.check?.(next, previous)) ?? []
    return refusals.map(refusal => ({
      pointer: pointer + refusal.pointer,
      detail: refusal.detail,
    }))
  }

  #refused(error: unknown): Problem {
    if (!(error instanceof TransactionFailed)) throw error
    const { setting, notUndone, cause } = error
    const reason = reasonOf(cause)
    const state = outcome(notUndone)
    const isFull = ['ENOSPC', 'EDQUOT'].includes(errorCode(cause) ?? '')
    return new Problem(
      isFull ? 'no-space' : 'system-refused',
      `The system refused to write ${setting}: ${reason}. ${state}`,
      { cause },
    )
  }
}

function outcome(notUndone: readonly string[]): string {
  return notUndone.length === 0 ? 'Nothing has changed.' : `Could not be undone: ${notUndone.join(', ')}.`
}

function invalid(errors: readonly FieldError[]): Problem {
  const [first] = errors
  const detail =
    errors.length === 1 && first
      ? `${first.pointer || 'The body'}: ${first.detail}.`
      : `${errors.length} values are refused.`
  // A pointer repeats the names above it: without an end, 64 KiB of a body are refused with 78 MB.
  return new Problem('invalid-configuration', `${detail} Nothing has changed.`, { errors: errors.slice(0, MAX_ERRORS) })
}
