import type { Stop } from '../../hal/files/watcher.ts'
import type { UpdateWindow } from '../../hal/settings/update.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Delay, Restarter } from './update.ts'
import { timer, type Wait } from './wait.ts'
import { isSet, nextOpening } from './window.ts'

/** The longest random delay in milliseconds, so that the devices of a fleet do not all restart at once. */
const SPREAD_MS = 10 * 60_000
/**
 * Milliseconds between two looks at a pending restart, because nothing reports that the clock was set. Far below 24.8 days: a
 * longer timer of Node fires at once.
 */
const LOOK_MS = 60_000

export interface RestartOptions {
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970: before that, the clock is not set. */
  readonly builtAt: number
  /** Returns 0 to 1. */
  readonly random: () => number
  readonly window: () => UpdateWindow
  readonly timeZone: () => string
  /** Returns the number of devices that mirror, or have been let in. */
  readonly sessions: () => number
  /** Whether the network that worked at the installation still does: the new version is judged by it. */
  readonly isConnected: () => Promise<boolean>
  readonly reboot: () => Promise<void>
  readonly log: Log
  readonly wait?: Wait
}

type WaitsFor = (hindrance: Delay | undefined) => void

/** A pending restart. */
interface Waiting {
  readonly waitsFor: WaitsFor
  /** The random part of `SPREAD_MS` to wait, 0 to 1. */
  readonly part: number
  /** When the clock, the window and the sessions began to allow the restart. */
  since: number | undefined
  /** The delay last reported. */
  told: Delay | undefined
  /** Whether the network is being examined, or the system restarts. */
  isRestarting: boolean
}

/**
 * Restarts the device once the clock is set, the window is open, nobody mirrors, a random time has passed, and the network is
 * there: at night, access points may be off, and a good version would be rolled back.
 */
export class Restarts implements Restarter {
  readonly #options: RestartOptions
  readonly #wait: Wait
  #waiting: Waiting | undefined
  #stop: Stop | undefined

  constructor(options: RestartOptions) {
    this.#options = options
    this.#wait = options.wait ?? timer
  }

  get hasWindow(): boolean {
    return isSet(this.#options.window())
  }

  /** Resolves once a restart `now` has begun, or one for the window is pending. @throws if the system refuses. */
  async restart(when: 'now' | 'window', waitsFor: WaitsFor): Promise<void> {
    this.cancel()
    if (when === 'now') return this.#options.reboot()
    const part = this.#options.random()
    this.#waiting = { waitsFor, part, since: undefined, told: undefined, isRestarting: false }
    this.reconsider()
  }

  cancel(): void {
    this.#stop?.()
    this.#waiting = undefined
  }

  /** To be called when the window, the time zone or the sessions have changed. */
  reconsider(): void {
    const waiting = this.#waiting
    if (!waiting || waiting.isRestarting) return
    this.#stop?.()
    const { hindrance, forMs } = this.#hindrance(waiting)
    if (hindrance === undefined) void this.#reboot(waiting)
    else this.#delay(waiting, hindrance, forMs)
  }

  #delay(waiting: Waiting, hindrance: Delay, forMs: number): void {
    this.#stop = this.#wait(Math.min(forMs, LOOK_MS), () => this.reconsider())
    if (hindrance === waiting.told) return
    waiting.told = hindrance
    waiting.waitsFor(hindrance)
  }

  /** Returns why the device does not restart now, and for at least how long. The random delay is reported as `window`. */
  #hindrance(waiting: Waiting): { readonly hindrance: Delay | undefined; readonly forMs: number } {
    const { clock, builtAt, window, timeZone, sessions } = this.#options
    const now = clock.now()
    const opening = now < builtAt ? undefined : nextOpening(window(), timeZone(), now)
    const isOpen = opening !== undefined && opening.opensAt <= now
    if (!isOpen || sessions() > 0) {
      waiting.since = undefined
      const forMs = isOpen || !opening ? LOOK_MS : opening.opensAt - now
      const hindrance = now < builtAt ? 'clock' : isOpen ? 'sessions' : 'window'
      return { hindrance: this.hasWindow ? hindrance : 'manual', forMs }
    }
    // The clock may have been set back.
    waiting.since = Math.min(waiting.since ?? now, now)
    const restartsAt = waiting.since + waiting.part * Math.min(SPREAD_MS, opening.closesAt - waiting.since)
    return { hindrance: restartsAt > now ? 'window' : undefined, forMs: restartsAt - now }
  }

  async #reboot(waiting: Waiting): Promise<void> {
    waiting.isRestarting = true
    // A network that cannot be examined does not hold up the restart.
    const isConnected = await this.#options.isConnected().catch(() => true)
    // Meanwhile this restart may have been canceled or replaced.
    if (this.#waiting !== waiting) return
    // When the network comes back to a whole fleet, each device waits for a random time again.
    if (isConnected && waiting.told === 'network') waiting.since = undefined
    const { hindrance, forMs } = isConnected
      ? this.#hindrance(waiting)
      : ({ hindrance: 'network', forMs: LOOK_MS } as const)
    waiting.isRestarting = hindrance === undefined
    if (hindrance !== undefined) return this.#delay(waiting, hindrance, forMs)
    waiting.told = undefined
    waiting.waitsFor(undefined)
    try {
      await this.#options.reboot()
      if (this.#waiting === waiting) this.#waiting = undefined
    } catch {
      this.#options.log('error', 'update: the system refused to restart; trying again in a minute')
      waiting.isRestarting = false
      if (this.#waiting === waiting) this.#stop = this.#wait(LOOK_MS, () => this.reconsider())
    }
  }
}
