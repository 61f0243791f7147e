import type { Stop } from '../../hal/files/watcher.ts'
import { watchDevices } from '../../hal/os/devices.ts'
import type { System } from '../../hal/os/system.ts'
import { POLL_MS, SETTLE_MS } from '../limits.ts'
import type { SettingState } from './snapshot.ts'

/** Notices which settings may have changed on the device. */
export class SettingWatcher {
  readonly #system: System
  readonly #refresh: () => void
  readonly #stale = new Set<SettingState>()
  readonly #stops: Stop[] = []
  /** The watched files. */
  readonly #watched = new Map<SettingState, Set<string>>()
  #settling: NodeJS.Timeout | undefined
  #lookingAgain: NodeJS.Timeout | undefined
  #lookAgainMs = SETTLE_MS

  /** @param refresh Called at most once per `SETTLE_MS`, however often a file is written: by then it is probably complete. */
  constructor(system: System, refresh: () => void) {
    this.#system = system
    this.#refresh = refresh
  }

  /** Watches for whatever can make a setting available, and polls the settings that are read from files. */
  watchAll(entries: readonly SettingState[]): void {
    const subsystems = new Set(entries.flatMap(({ setting }) => setting.devices ?? []))
    if (subsystems.size > 0)
      this.#stops.push(
        watchDevices(this.#system, [...subsystems], subsystem => {
          for (const entry of entries) if (entry.setting.devices?.includes(subsystem)) this.#changed(entry)
        }),
      )
    const timer = setInterval(() => {
      // Polling the others would keep starting processes.
      for (const entry of entries) if (filesOf(entry).length > 0) this.#changed(entry)
    }, POLL_MS).unref()
    this.#stops.push(() => clearInterval(timer))
  }

  /** Watches an available setting. When called again, watches the files that it has gained. */
  watch(entry: SettingState): void {
    const changed = () => this.#changed(entry)
    const watched = this.#watched.get(entry) ?? new Set()
    if (!this.#watched.has(entry) && entry.setting.watch) this.#stops.push(entry.setting.watch(changed))
    this.#watched.set(entry, watched)
    for (const path of filesOf(entry)) {
      if (watched.has(path)) continue
      watched.add(path)
      this.#stops.push(this.#system.watch(path, changed))
    }
  }

  /** Reads again settings that could not be read, at growing intervals. Called after each read, with all such settings. */
  lookAgain(unread: readonly SettingState[]): void {
    if (unread.length === 0) this.#lookAgainMs = SETTLE_MS
    else
      this.#lookingAgain ??= setTimeout(() => {
        this.#lookingAgain = undefined
        this.#lookAgainMs = Math.min(2 * this.#lookAgainMs, POLL_MS)
        for (const entry of unread) this.#changed(entry)
      }, this.#lookAgainMs).unref()
  }

  stop(): void {
    for (const stop of this.#stops) stop()
    clearTimeout(this.#settling)
    clearTimeout(this.#lookingAgain)
  }

  /** The settings that may have changed since the last call. */
  takeStale(): readonly SettingState[] {
    const stale = [...this.#stale]
    this.#stale.clear()
    return stale
  }

  /** Called before these settings are read: they become stale again only through later changes. */
  forget(entries: readonly SettingState[]): void {
    for (const entry of entries) this.#stale.delete(entry)
  }

  #changed(entry: SettingState): void {
    this.#stale.add(entry)
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined
      this.#refresh()
    }, SETTLE_MS)
  }
}

function filesOf({ setting }: SettingState): readonly string[] {
  return [...setting.files, ...(setting.sources ?? [])]
}
