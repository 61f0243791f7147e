import { isDeepStrictEqual } from 'node:util'
import { Absent, errorCode, reasonOf } from '../../hal/errors.ts'
import type { Stop } from '../../hal/folder-watcher.ts'
import type { Setting } from '../../hal/setting.ts'
import type { System } from '../../hal/system.ts'
import { type Change, TransactionFailed, transact } from '../../hal/transaction.ts'
import type { EventLog } from '../events/event-log.ts'
import { SYSTEM_CHANGED } from '../events/resync.ts'
import { isObject, type JsonObject, type JsonValue, pointerStep } from '../json.ts'
import { MAX_WAITING_CHANGES, POLL_MS, SETTLE_MS } from '../limits.ts'
import type { Log } from '../log.ts'
import { type FieldError, Problem } from '../problem.ts'
import { Serial } from '../serial.ts'
import { mergePatch } from './merge-patch.ts'
import { illFormedStrings, MAX_ERRORS, schemaErrors } from './validate.ts'

export interface SystemStoreOptions {
  readonly system: System
  readonly settings: readonly Setting[]
  readonly events: EventLog
  readonly log: Log
}

/**
 * The configuration as it is, and the only one that tells of its changes. A PATCH and a watcher take the same path: what
 * may have changed is read again, compared with what was known, and the difference is one event.
 */
export class SystemStore {
  readonly #options: SystemStoreOptions
  readonly #available = new Map<string, Setting>()
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
  #json: string | undefined

  constructor(options: SystemStoreOptions) {
    this.#options = options
  }

  /** Reads everything once, and follows it from then on. */
  async start(): Promise<void> {
    const { system, settings, log } = this.#options
    for (const setting of settings) {
      const because = await setting.unavailable?.()
      if (because === undefined) this.#available.set(setting.name, setting)
      else {
        this.#unavailable.set(setting.name, because)
        log('info', `${setting.name} is not available: ${because}`)
      }
    }
    for (const setting of this.#available.values()) {
      for (const path of setting.files) await system.recover(path)
      // First watched, then read: a change in between is seen twice rather than never.
      const changed = () => this.#lookAgain(setting)
      for (const path of [...setting.files, ...(setting.sources ?? [])]) this.#stops.push(system.watch(path, changed))
      if (setting.watch) this.#stops.push(setting.watch(changed))
    }
    const values = await Promise.all(Array.from(this.#available.values(), setting => this.#read(setting)))
    for (const [at, name] of [...this.#available.keys()].entries()) this.#values.set(name, values[at] ?? null)
    const poll = setInterval(() => {
      for (const setting of this.#available.values()) this.#lookAgain(setting)
    }, POLL_MS).unref()
    this.#stops.push(() => clearInterval(poll))
  }

  /** Looks no more, and resolves when the changes that wait have been made. */
  async stop(): Promise<void> {
    for (const stop of this.#stops) stop()
    clearTimeout(this.#settling)
    await this.#queue.run(async () => undefined)
  }

  /** The whole configuration as JSON, as of the latest event. */
  get json(): string {
    this.#json ??= JSON.stringify(Object.fromEntries(this.#values))
    return this.#json
  }

  /**
   * Applies a JSON Merge Patch, all of it or nothing, durably.
   * @param precondition Called when no other change can come in between; throws where the change must not happen.
   * @returns the names of the settings that were written.
   * @throws {Problem} 422 for a value that is refused, 500 or 507 where the system refuses, 503 for too many at once.
   */
  patch(patch: JsonValue, precondition: () => void): Promise<readonly string[]> {
    if (this.#queue.length >= MAX_WAITING_CHANGES)
      throw new Problem('unavailable', `${MAX_WAITING_CHANGES} changes wait already.`, {
        headers: ['Retry-After', '1'],
      })
    return this.#queue.run(async () => {
      await this.#readStale()
      precondition()
      const changes = await this.#plan(patch)
      if (changes.length === 0) return []
      const touched = changes.map(change => change.setting)
      try {
        await transact(this.#options.system, changes)
      } catch (error) {
        throw this.#refused(error)
      } finally {
        await this.#readBack(touched)
      }
      return touched.map(setting => setting.name)
    })
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
    await this.#readBack(stale)
  }

  /** Reads settings, and those that depend on them, and tells of all that is different as one change. */
  async #readBack(settings: readonly Setting[]): Promise<void> {
    const names = new Set(settings.map(setting => setting.name))
    for (const { name, dependsOn } of this.#available.values())
      if (dependsOn?.some(other => names.has(other))) names.add(name)
    const delta: JsonObject = {}
    for (const [name, setting] of this.#available) {
      if (!names.has(name)) continue
      const value = await this.#read(setting)
      if (!isDeepStrictEqual(value, this.#values.get(name))) delta[name] = value
    }
    if (Object.keys(delta).length === 0) return
    for (const [name, value] of Object.entries(delta)) this.#values.set(name, value)
    this.#json = undefined
    this.#options.events.append(SYSTEM_CHANGED, JSON.stringify(delta))
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
      if (error instanceof Absent) level = 'info'
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
      const setting = this.#available.get(name)
      if (!setting) {
        const because = this.#unavailable.get(name)
        const detail = because === undefined ? 'unknown property' : `not available on this device: ${because}`
        errors.push({ pointer, detail })
        continue
      }
      const previous = this.#values.get(name)
      const next = mergePatch(previous, part)
      if (isDeepStrictEqual(next, previous) && !(this.#broken.has(name) && setting.write)) continue
      const refusals = await this.#check(setting, next, previous ?? null, pointer)
      errors.push(...refusals)
      if (refusals.length === 0) changes.set(name, { setting, previous, next })
    }
    if (errors.length > 0) throw invalid(errors)
    return Array.from(this.#available.keys(), name => changes.get(name)).filter(change => change !== undefined)
  }

  async #check(
    setting: Setting,
    next: JsonValue,
    previous: JsonValue,
    pointer: string,
  ): Promise<readonly FieldError[]> {
    if (!setting.write) return [{ pointer, detail: 'read-only' }]
    if (next === null) return [{ pointer, detail: 'cannot be removed' }]
    const errors = schemaErrors(setting.schema, next, pointer)
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
    const state = notUndone.length === 0 ? 'Nothing has changed.' : `Could not be undone: ${notUndone.join(', ')}.`
    this.#options.log('error', `a change of ${setting} failed: ${reason}; ${state}`)
    const isFull = ['ENOSPC', 'EDQUOT'].includes(errorCode(cause) ?? '')
    return new Problem(
      isFull ? 'no-space' : 'system-refused',
      `The system refused to write ${setting}: ${reason}. ${state}`,
      { cause },
    )
  }
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
