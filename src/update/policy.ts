import { reasonOf } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import { compareVersions } from '../../hal/format/semver.ts'
import type { UpdateSettings } from '../../hal/settings/update.ts'
import { type Clock, rfc3339 } from '../clock.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
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
  readonly fetcher: Pick<Fetcher, 'fetch' | 'cancel' | 'isBusy'>
  readonly update: Pick<Update, 'state' | 'install'>
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970: before that, the clock is not set. */
  readonly builtAt: number
  /** Returns 0 to 1. */
  readonly random: () => number
  readonly log: Log
  readonly wait?: Wait
}

/** The device's own part in updates: it asks the channel once a day, and goes as far as the setting says. */
export class Policy {
  readonly #options: PolicyOptions
  readonly #wait: Wait
  #dueAt: number | undefined
  /** Of the channel, while it is asked or its bundle is fetched. */
  #url: string | undefined
  #isFetching = false
  #stop: Stop | undefined

  constructor(options: PolicyOptions) {
    this.#options = options
    this.#wait = options.wait ?? timer
  }

  start(): void {
    this.#stop = this.#wait(LOOK_MS, () => {
      this.#look()
        .catch(error => {
          const why = error instanceof Problem ? error.message : reasonOf(error)
          this.#options.log('warning', `update: what the policy asks for could not be done: ${why}`)
        })
        .finally(() => {
          if (this.#stop) this.start()
        })
    })
  }

  stop(): void {
    this.#stop?.()
    this.#stop = undefined
  }

  /** The configuration may have changed: the bundle of another channel is not fetched any more. */
  async reconsider(): Promise<void> {
    const { fetcher } = this.#options
    const url = this.#url
    if (url === undefined || (await this.#isSet(url)) || this.#url !== url) return
    if (this.#isFetching) await fetcher.cancel(new Problem('conflict', 'Another channel was set meanwhile.'))
  }

  async #look(): Promise<void> {
    const { settings, clock, builtAt, folder, random, log } = this.#options
    const now = clock.now()
    if (settings().policy === 'off' || now < builtAt) {
      this.#dueAt = undefined
      return
    }
    this.#dueAt ??= await this.#plan(now)
    // A clock that was set back must not put it off for years.
    this.#dueAt = Math.min(this.#dueAt, now + LEAST_MS + SPREAD_MS)
    if (now < this.#dueAt) return
    this.#dueAt = nextAfter(now, random())
    // Before it is done: a device that restarts in the middle does not ask again at once. Storage that
    // refuses to note it is no reason not to ask.
    await folder
      .writeAtomic(CHECKED, `${rfc3339(now)}\n`, MODE)
      .catch(error => log('warning', `update: the time of the check could not be noted: ${reasonOf(error)}`))
    try {
      await this.#act()
    } finally {
      // Another channel may have been set meanwhile, and was not asked.
      if (this.#url !== undefined && !(await this.#isSet(this.#url))) this.#dueAt = clock.now()
      this.#url = undefined
    }
  }

  async #plan(now: number): Promise<number> {
    const { folder, random } = this.#options
    const last = Date.parse((await folder.readText(CHECKED).catch(() => undefined))?.trim() ?? '')
    // One in the future was noted while the clock was wrong, and tells nothing.
    return last <= now ? nextAfter(last, random()) : now + random() * FIRST_MS
  }

  async #act(): Promise<void> {
    const { settings, channel, update } = this.#options
    const url = await channel.url()
    this.#url = url
    const version = await channel.check(url)
    if (version === undefined || settings().policy === 'check' || !this.#isWanted(version)) return
    const { state, bundle } = update.state
    const isThere = state === 'downloaded' && bundle?.version === version
    if (!isThere && !(await this.#fetch(url))) return
    // Hours may have passed: the setting, the channel and what it has may be others.
    if (settings().policy !== 'install' || !(await this.#isSet(url)) || !this.#isWanted(update.state.bundle?.version))
      return
    await update.install({ restart: isSet(settings().window) ? 'window' : 'manual' }, 'the policy of this device')
  }

  async #fetch(url: string): Promise<boolean> {
    const { fetcher } = this.#options
    if (fetcher.isBusy) return false
    this.#isFetching = true
    try {
      return await fetcher.fetch(url)
    } finally {
      this.#isFetching = false
    }
  }

  /** Whether the channel is still this one; not if there is none. */
  async #isSet(url: string): Promise<boolean> {
    return (await this.#options.channel.url().catch(() => '')) === url
  }

  /**
   * Whether it is newer than what runs and what is installed, and was not rolled back: that would go on for ever. So would a
   * bundle whose image says that it has another version: it was installed, and never runs by that name.
   */
  #isWanted(version: string | undefined): boolean {
    if (version === undefined) return false
    const { running, other, state, last } = this.#options.update.state
    if (['receiving', 'downloading', 'installing', 'installed', 'restarting'].includes(state)) return false
    if (running.state === 'trial' || (last?.version === version && last.outcome !== 'failed')) return false
    const isInstalled = other.version === version && other.state === 'good'
    return !isInstalled && (running.version === undefined || (compareVersions(version, running.version) ?? 0) > 0)
  }
}

/** When the channel is asked after a check at `last`. @param part Of the spread, 0 to 1. */
function nextAfter(last: number, part: number): number {
  return last + LEAST_MS + part * SPREAD_MS
}
