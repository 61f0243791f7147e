import type { Stop } from '../../hal/files/watcher.ts'
import type { System } from '../../hal/os/system.ts'
import { POLL_MS, SETTLE_MS } from '../limits.ts'
import type { Entry } from './snapshot.ts'

/** Notices which settings may have changed on the device. */
export class SettingWatcher {
  readonly #system: System
  readonly #look: () => void
  readonly #stale = new Set<Entry>()
  readonly #stops: Stop[] = []
  #settling: NodeJS.Timeout | undefined

  /** @param look Called at most once every `SETTLE_MS`, however often a file is written: by then it is probably whole. */
  constructor(system: System, look: () => void) {
    this.#system = system
    this.#look = look
  }

  /** Looks at all of these from time to time, because not all settings report their changes. */
  poll(entries: readonly Entry[]): void {
    const timer = setInterval(() => {
      for (const entry of entries) this.#changed(entry)
    }, POLL_MS).unref()
    this.#stops.push(() => clearInterval(timer))
  }

  watch(entry: Entry): void {
    const { setting } = entry
    const changed = () => this.#changed(entry)
    for (const path of [...setting.files, ...(setting.sources ?? [])])
      this.#stops.push(this.#system.watch(path, changed))
    if (setting.watch) this.#stops.push(setting.watch(changed))
  }

  stop(): void {
    for (const stop of this.#stops) stop()
    clearTimeout(this.#settling)
  }

  /** The settings that may have changed since the last call. */
  takeStale(): readonly Entry[] {
    const stale = [...this.#stale]
    this.#stale.clear()
    return stale
  }

  #changed(entry: Entry): void {
    this.#stale.add(entry)
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined
      this.#look()
    }, SETTLE_MS)
  }
}
