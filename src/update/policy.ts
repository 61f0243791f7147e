import type { Files } from '../../hal/files/files.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import { compareVersions } from '../../hal/format/semver.ts'
import type { UpdateSettings } from '../../hal/settings/update.ts'
import { type Clock, rfc3339 } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Channel } from './channel.ts'
import type { Fetcher } from './fetcher.ts'
import type { Update } from './update.ts'
import { timer, type Wait } from './wait.ts'
import { isSet } from './window.ts'

/** When the channel was asked last, in the folder RECEIVERD_UPDATE. */
const CHECKED = '/checked'
const MODE = 0o600
const DAY_MS = 24 * 60 * 60_000
/** From one check to the next: about a day, and at another time each day, so that a fleet does not ask at once. */
const LEAST_MS = 0.75 * DAY_MS
const SPREAD_MS = 0.5 * DAY_MS
/** Milliseconds within which a device asks for the first time. */
const FIRST_MS = 60 * 60_000
/** Far below the 24.8 days after which a timer of Node fires at once; and the clock may be set at any time. */
const LOOK_MS = 60_000

export interface PolicyOptions {
  readonly folder: Pick<Files, 'readText' | 'writeAtomic'>
  readonly settings: () => UpdateSettings
  readonly channel: Pick<Channel, 'url' | 'check'>
  readonly fetcher: Pick<Fetcher, 'fetch' | 'isBusy'>
  readonly update: Pick<Update, 'state' | 'install'>
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970: before that, the clock is not set. */
  readonly builtAt: number
  /** Returns 0 to 1. */
  readonly random: () => number
  readonly log: Log
  readonly wait?: Wait
}

/** What the device does by itself: it asks the channel once a day, and goes as far as the setting says. */
export class Policy {
  readonly #options: PolicyOptions
  readonly #wait: Wait
  #dueAt: number | undefined
  #stop: Stop | undefined

  constructor(options: PolicyOptions) {
    this.#options = options
    this.#wait = options.wait ?? timer
  }

  start(): void {
    this.#stop = this.#wait(LOOK_MS, () => {
      this.#look()
        .catch(() => this.#options.log('warning', 'update: what the policy asks for could not be done'))
        .finally(() => {
          if (this.#stop) this.start()
        })
    })
  }

  stop(): void {
    this.#stop?.()
    this.#stop = undefined
  }

  async #look(): Promise<void> {
    const { settings, clock, builtAt } = this.#options
    const now = clock.now()
    if (settings().policy === 'off' || now < builtAt) {
      this.#dueAt = undefined
      return
    }
    this.#dueAt ??= await this.#plan(now)
    // A clock that was set back must not put it off for years.
    this.#dueAt = Math.min(this.#dueAt, now + LEAST_MS + SPREAD_MS)
    if (now < this.#dueAt) return
    this.#dueAt = undefined
    // Before it is done: a device that restarts in the middle does not ask again at once.
    await this.#options.folder.writeAtomic(CHECKED, `${rfc3339(now)}\n`, MODE)
    await this.#act()
  }

  async #plan(now: number): Promise<number> {
    const { folder, random } = this.#options
    const last = Date.parse((await folder.readText(CHECKED).catch(() => undefined))?.trim() ?? '')
    // One in the future was noted while the clock was wrong, and tells nothing.
    return last <= now ? last + LEAST_MS + random() * SPREAD_MS : now + random() * FIRST_MS
  }

  async #act(): Promise<void> {
    const { settings, channel, fetcher, update } = this.#options
    const url = await channel.url()
    const version = await channel.check(url)
    if (version === undefined || settings().policy === 'check' || !this.#isWanted(version)) return
    const { state, bundle } = update.state
    const isThere = state === 'downloaded' && bundle?.version === version
    if (!isThere && (fetcher.isBusy || !(await fetcher.fetch(url)))) return
    if (settings().policy !== 'install') return
    await update.install({ restart: isSet(settings().window) ? 'window' : 'manual' }, 'the policy of this device')
  }

  /** Whether it is newer than what runs and what is installed, and was not rolled back: that would go on for ever. */
  #isWanted(version: string): boolean {
    const { running, other, state, last } = this.#options.update.state
    if (['receiving', 'downloading', 'installing', 'installed', 'restarting'].includes(state)) return false
    if (running.state === 'trial' || (last?.version === version && last.outcome === 'rolled back')) return false
    const isInstalled = other.version === version && other.state === 'good'
    return !isInstalled && (running.version === undefined || (compareVersions(version, running.version) ?? 0) > 0)
  }
}
