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

/** The file in the folder RECEIVERD_UPDATE with the time of the last check that reached the channel. */
const CHECKED = '/checked'
/** Another, with the version that was tried last, how often, and when: `1.1.0 2 2026-11-25T12:00:00Z`. */
const TRIED = '/tried'
const MODE = 0o600
const DAY_MS = 24 * 60 * 60_000
/** Checks are about a day apart, with a random part, so that the devices of a fleet do not all check at once. */
const LEAST_MS = 0.75 * DAY_MS
const SPREAD_MS = 0.5 * DAY_MS
/**
 * Milliseconds within which a check is made that is due when the service starts: devices that are switched on together do not
 * check together, and one that is on for an hour a day does check.
 */
const START_MS = 15 * 60_000
/** The shortest pause in milliseconds before a channel is asked again that could not be read; doubled after each failure. */
const RETRY_MS = 10 * 60_000
/**
 * The longest pause in milliseconds before a version is tried again that was refused or could not be installed; the first one is
 * over at the next check. Each attempt may write hundreds of megabytes to a card that is old.
 */
const LONGEST_REST_MS = 30 * DAY_MS
/** By how much a pause may be longer, at random. */
const RETRY_SPREAD = 5
/**
 * Milliseconds between two looks at the clock, which may be set at any time. Far below 24.8 days: a longer timer of Node fires
 * at once.
 */
const LOOK_MS = 60_000

export interface PolicyOptions {
  readonly folder: Pick<Files, 'readText' | 'writeAtomic'>
  readonly settings: () => UpdateSettings
  readonly channel: Pick<Channel, 'url' | 'check'>
  readonly fetcher: Pick<Fetcher, 'fetch' | 'cancel' | 'isBusy'>
  readonly update: Pick<Update, 'state' | 'install'>
  /** Returns the versions that were rolled back or discarded. */
  readonly refused: () => Promise<readonly string[]>
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970: before that, the clock is not set. */
  readonly builtAt: number
  /** Returns 0 to 1. */
  readonly random: () => number
  readonly log: Log
  readonly wait?: Wait
}

/** Updates the device by itself: checks the channel once a day, then downloads and installs as far as the setting allows. */
export class Policy {
  readonly #options: PolicyOptions
  readonly #wait: Wait
  #dueAt: number | undefined
  /** The channel's address during a check or a download; otherwise undefined. */
  #url: string | undefined
  #isFetching = false
  /** How often in a row the channel could not be read. */
  #failures = 0
  #stop: Stop | undefined

  constructor(options: PolicyOptions) {
    this.#options = options
    this.#wait = options.wait ?? timer
  }

  start(): void {
    const from = this.#options.clock.now()
    this.#stop = this.#wait(LOOK_MS, () => {
      this.#look(from)
        .catch(error => {
          const why = error instanceof Problem ? error.message : reasonOf(error)
          this.#options.log('warning', `update: the policy could not be followed: ${why}`)
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

  /** To be called when the configuration may have changed. Ends the download if its channel is no longer set. */
  async reconsider(): Promise<void> {
    const { fetcher } = this.#options
    const url = this.#url
    if (url === undefined || (await this.#isSet(url)) || this.#url !== url) return
    if (this.#isFetching) await fetcher.cancel(new Problem('conflict', 'Another channel was set meanwhile.'))
  }

  /** @param from The time at the end of the last look. */
  async #look(from: number): Promise<void> {
    const { settings, clock, builtAt, random } = this.#options
    const now = clock.now()
    // A clock that is set when the network comes makes checks due on many devices at once, as their start does.
    if (now - from > 2 * LOOK_MS) this.#dueAt = undefined
    if (settings().policy === 'off' || now < builtAt) {
      this.#dueAt = undefined
      return
    }
    this.#dueAt ??= await this.#plan(now)
    // After the clock was set back, the next check must not be years away.
    this.#dueAt = Math.min(this.#dueAt, now + LEAST_MS + SPREAD_MS)
    if (now < this.#dueAt) return
    this.#dueAt = nextAfter(now, random())
    try {
      await this.#act()
    } finally {
      // A channel that was set meanwhile has not been checked.
      if (this.#url !== undefined && !(await this.#isSet(this.#url))) this.#dueAt = clock.now()
      this.#url = undefined
    }
  }

  async #plan(now: number): Promise<number> {
    const { folder, random } = this.#options
    const last = Date.parse((await folder.readText(CHECKED).catch(() => undefined))?.trim() ?? '')
    // A time in the future was noted while the clock was wrong, and is useless.
    const due = last <= now ? nextAfter(last, random()) : now
    return Math.max(due, now + random() * START_MS)
  }

  async #act(): Promise<void> {
    const { settings, channel, update, clock, random } = this.#options
    const url = await channel.url()
    this.#url = url
    const version = await channel.check(url)
    const now = clock.now()
    if (version === undefined) {
      const pauseMs = RETRY_MS * 2 ** this.#failures++ * (1 + random() * RETRY_SPREAD)
      this.#dueAt = Math.min(now + pauseMs, nextAfter(now, random()))
      return
    }
    this.#failures = 0
    // Noted before the download, so that a device that restarts in the middle does not check again at once.
    await this.#note(CHECKED, rfc3339(now), 'the time of the check')
    if (settings().policy === 'check' || !(await this.#isWanted(version))) return
    const attempts = await this.#attemptsAt(version)
    if (now < attempts.nextAt) return
    const { state, bundle } = update.state
    // In the state `failed`, it is there if its installation has failed.
    const isThere = (state === 'downloaded' || state === 'failed') && bundle?.version === version
    if (!isThere && !(await this.#fetch(url))) {
      if (update.state.error?.type.includes(':bundle-')) await this.#tried(version, attempts.times)
      return
    }
    // The download may have taken hours: the setting, the channel and its version may have changed.
    const isWanted = (await this.#isSet(url)) && (await this.#isWanted(update.state.bundle?.version))
    if (settings().policy !== 'install' || !isWanted) return
    await this.#tried(version, attempts.times)
    await update.install({ restart: 'window', isWindowToCome: true }, 'the policy of this device')
  }

  /** How often a version was tried, and when it may be tried again, in milliseconds since 1970. */
  async #attemptsAt(version: string): Promise<{ readonly times: number; readonly nextAt: number }> {
    const { folder, clock } = this.#options
    const [tried, times = '', at = ''] = ((await folder.readText(TRIED).catch(() => undefined)) ?? '').split(/\s/)
    const last = Date.parse(at)
    // A time in the future was noted while the clock was wrong.
    if (tried !== version || !(last <= clock.now())) return { times: 0, nextAt: 0 }
    return { times: Number(times), nextAt: last + Math.min((2 ** Number(times) - 1) * LEAST_MS, LONGEST_REST_MS) }
  }

  async #tried(version: string, before: number): Promise<void> {
    const now = rfc3339(this.#options.clock.now())
    await this.#note(TRIED, `${version} ${before + 1} ${now}`, `the attempt at version ${version}`)
  }

  /** Writes a record. The policy is followed even if the storage refuses it. */
  async #note(path: string, text: string, what: string): Promise<void> {
    const { folder, log } = this.#options
    await folder
      .writeAtomic(path, `${text}\n`, MODE)
      .catch(error => log('warning', `update: ${what} could not be noted: ${reasonOf(error)}`))
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

  /** Reports whether `url` is still the channel. */
  async #isSet(url: string): Promise<boolean> {
    return (await this.#options.channel.url().catch(() => '')) === url
  }

  /**
   * Reports whether a version is newer than the running one, and neither installed, nor rolled back or discarded. Retrying a
   * version that was rolled back would never end. Neither would installing a bundle whose image reports another version than
   * the bundle does.
   */
  async #isWanted(version: string | undefined): Promise<boolean> {
    if (version === undefined || (await this.#options.refused()).includes(version)) return false
    const { running, other, state, last } = this.#options.update.state
    if (['receiving', 'downloading', 'installing', 'installed', 'restarting'].includes(state)) return false
    if (running.state === 'trial' || (last?.version === version && last.outcome !== 'failed')) return false
    const isInstalled = other.version === version && other.state === 'good'
    return !isInstalled && (running.version === undefined || (compareVersions(version, running.version) ?? 0) > 0)
  }
}

/** Returns the time of the check that follows a check at `last`. @param part Random part of the spread, 0 to 1. */
function nextAfter(last: number, part: number): number {
  return last + LEAST_MS + part * SPREAD_MS
}
