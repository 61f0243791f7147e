import { isDeepStrictEqual } from 'node:util'
import { errorCode, HalError, isUnreadable, reasonOf } from '../../hal/errors.ts'
import type { Setting } from '../../hal/setting.ts'
import { type JsonObject, type JsonValue, toJsonLine } from '../json.ts'
import type { Log } from '../log.ts'
import { illFormedStrings, schemaErrors } from '../validate.ts'

/** The state of one setting. */
export interface SettingState {
  readonly setting: Setting
  readonly name: string
  /** Why the device does not have the setting; undefined if it has. A setting that it once had stays. */
  missing: string | undefined
  /** The value that was read last. */
  value: JsonValue
  /** Why the fallback is used instead of the stored value; undefined if it is not. */
  fallbackReason: string | undefined
  /** Whether the stored value is unusable. Writing any value repairs it, even the one that the fallback shows. */
  isBroken: boolean
  /** Whether the system refused the last read, which may succeed the next time. */
  isUnread: boolean
}

/** The configuration as read last, with one entry per setting in the order of the registry. */
export class Snapshot {
  readonly #entries: readonly SettingState[]
  readonly #log: Log
  #json: string | undefined

  constructor(settings: readonly Setting[], log: Log) {
    this.#entries = settings.map(setting => ({
      setting,
      name: setting.name,
      missing: 'not read yet',
      value: null,
      fallbackReason: undefined,
      isBroken: false,
      isUnread: false,
    }))
    this.#log = log
  }

  /** The settings that the device has. */
  get available(): readonly SettingState[] {
    return this.#entries.filter(entry => entry.missing === undefined)
  }

  get all(): readonly SettingState[] {
    return this.#entries
  }

  find(name: string): SettingState | undefined {
    return this.#entries.find(entry => entry.name === name)
  }

  /** The whole configuration as JSON. */
  get json(): string {
    this.#json ??= this.jsonOf(this.available)
    return this.#json
  }

  jsonOf(entries: readonly SettingState[]): string {
    return toJsonLine(Object.fromEntries(entries.map(({ name, value }) => [name, value])))
  }

  /**
   * Checks again for settings that the device did not have: during boot, hardware may appear after the service.
   * @returns the entries that have become available. They have not been read yet.
   */
  async probe(entries: Iterable<SettingState> = this.#entries): Promise<readonly SettingState[]> {
    const found: SettingState[] = []
    for (const entry of entries) {
      if (entry.missing === undefined) continue
      entry.missing = await entry.setting.unavailable?.().catch(reasonOf)
      if (entry.missing === undefined) found.push(entry)
    }
    return found
  }

  /**
   * Reads settings and those that depend on them.
   * @returns the settings that changed, with their whole values.
   */
  async read(entries: Iterable<SettingState>): Promise<JsonObject> {
    const delta: JsonObject = {}
    for (const entry of this.withDependents(entries)) {
      const value = await this.#readOrKeep(entry)
      if (value === undefined || isDeepStrictEqual(value, entry.value)) continue
      entry.value = value
      delta[entry.name] = value
      this.#json = undefined
    }
    return delta
  }

  /** Returns the available entries among these, and those whose values depend on them, in the order of the registry. */
  withDependents(entries: Iterable<SettingState>): readonly SettingState[] {
    const names = new Set(Array.from(entries, entry => entry.name))
    const dependents: SettingState[] = []
    for (const entry of this.available) {
      if (!names.has(entry.name) && !entry.setting.dependsOn?.some(other => names.has(other))) continue
      names.add(entry.name)
      dependents.push(entry)
    }
    return dependents
  }

  /** Returns entries whose files embed the value of one of these or of their dependents, and must be written again. */
  embedding(entries: Iterable<SettingState>): readonly SettingState[] {
    const changed = new Set(this.withDependents(entries).map(entry => entry.name))
    return this.available.filter(({ setting, value }) => setting.embeds?.(value).some(other => changed.has(other)))
  }

  /**
   * Returns the value; undefined if not even the fallback can be read. Then the last value is kept, and a setting without one
   * becomes unavailable: one setting must not keep the others from being read.
   */
  async #readOrKeep(entry: SettingState): Promise<JsonValue | undefined> {
    try {
      return await this.#readOne(entry)
    } catch (error) {
      const reason = reasonOf(error)
      if (entry.value === null) entry.missing = reason
      const shown = entry.value === null ? 'not available' : 'showing its last value, because it cannot be read'
      if (entry.fallbackReason !== reason) this.#log('warning', `${entry.name}: ${shown}: ${reason}`)
      entry.fallbackReason = reason
      entry.isBroken = true
      return undefined
    }
  }

  /** Returns a value that matches the schema, whatever is stored. Each reason for using the fallback is logged once. */
  async #readOne(entry: SettingState): Promise<JsonValue> {
    const { setting, name } = entry
    let reason: string
    let isBroken = true
    entry.isUnread = false
    try {
      const value = (await setting.read()) as JsonValue
      if (illFormedStrings(value).length > 0) throw new HalError('UNREADABLE', 'the stored value is not valid UTF-8')
      const [error] = schemaErrors(setting.schema, value, '')
      if (error === undefined) {
        entry.isBroken = false
        if (entry.fallbackReason !== undefined) this.#log('info', `${name}: the stored value is usable again`)
        entry.fallbackReason = undefined
        return value
      }
      reason = `the stored value is invalid: ${error.detail}`
    } catch (error) {
      entry.isUnread = !isUnreadable(error)
      // Otherwise clients, and files that embed the value, would adopt a value that nobody has set.
      if (entry.isUnread && entry.value !== null) throw error
      reason = reasonOf(error)
      isBroken = errorCode(error) !== 'ABSENT'
    }
    const fallback = (await setting.fallback()) as JsonValue
    entry.isBroken = isBroken
    if (entry.fallbackReason !== reason)
      this.#log(isBroken ? 'warning' : 'info', `${name}: using the fallback: ${reason}`)
    entry.fallbackReason = reason
    return fallback
  }
}
