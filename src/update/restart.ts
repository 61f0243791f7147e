import type { Stop } from '../../hal/files/watcher.ts'
import type { UpdateWindow } from '../../hal/settings/update.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Hindrance } from './state.ts'
import type { Restarter } from './update.ts'
import { timer, type Wait } from './wait.ts'
import { isSet, nextOpening } from './window.ts'

/** Milliseconds of which a random part passes, so that a fleet does not restart at once. */
const SPREAD_MS = 10 * 60_000
/**
 * Milliseconds after which a waiting restart is looked at again, for nothing tells that the clock was set. Far below the 24.8
 * days after which a timer of Node fires at once.
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
  /** How many devices mirror, or want to. */
  readonly sessions: () => number
  readonly reboot: () => Promise<void>
  readonly log: Log
  readonly wait?: Wait
}

type WaitsFor = (hindrance: Hindrance | undefined) => void

/** A restart that waits. */
interface Waiting {
  readonly waitsFor: WaitsFor
  /** The part of `SPREAD_MS` that passes, 0 to 1. */
  readonly part: number
  /** When everything else began to allow it. */
  since: number | undefined
  told: Hindrance | undefined
}

/** Restarts the device once the clock is set, the window is open, nobody mirrors, and a random time has passed. */
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

  /** @returns once a restart at once has begun; one that waits is under way by itself. @throws if the system refuses. */
  async restart(when: 'now' | 'window', waitsFor: WaitsFor): Promise<void> {
    this.cancel()
    if (when === 'now') return this.#options.reboot()
    this.#waiting = { waitsFor, part: this.#options.random(), since: undefined, told: undefined }
    this.reconsider()
  }

  cancel(): void {
    this.#stop?.()
    this.#waiting = undefined
  }

  /** To be called when the window, the time zone or the sessions have changed. */
  reconsider(): void {
    const waiting = this.#waiting
    if (!waiting) return
    this.#stop?.()
    const { hindrance, forMs } = this.#hindrance(waiting)
    if (hindrance === undefined) return void this.#reboot(waiting)
    this.#stop = this.#wait(Math.min(forMs, LOOK_MS), () => this.reconsider())
    if (hindrance === waiting.told) return
    waiting.told = hindrance
    waiting.waitsFor(hindrance)
  }

  /** Why it does not restart now, and for how many milliseconds at least. The random time counts as the window's. */
  #hindrance(waiting: Waiting): { readonly hindrance: Hindrance | undefined; readonly forMs: number } {
    const { clock, builtAt, window, timeZone, sessions } = this.#options
    const now = clock.now()
    const opening = now < builtAt ? undefined : nextOpening(window(), timeZone(), now)
    const isOpen = opening !== undefined && opening.opensAt <= now
    if (!isOpen || sessions() > 0) {
      waiting.since = undefined
      const forMs = isOpen || !opening ? LOOK_MS : opening.opensAt - now
      return { hindrance: now < builtAt ? 'clock' : isOpen ? 'sessions' : 'window', forMs }
    }
    // The clock may have been set back.
    waiting.since = Math.min(waiting.since ?? now, now)
    const restartsAt = waiting.since + waiting.part * Math.min(SPREAD_MS, opening.closesAt - waiting.since)
    return { hindrance: restartsAt > now ? 'window' : undefined, forMs: restartsAt - now }
  }

  async #reboot(waiting: Waiting): Promise<void> {
    waiting.told = undefined
    waiting.waitsFor(undefined)
    try {
      await this.#options.reboot()
      if (this.#waiting === waiting) this.#waiting = undefined
    } catch {
      this.#options.log('error', 'update: the system has refused to restart; it is asked again in a minute')
      // Unless it was cancelled, or somebody has planned another one.
      if (this.#waiting === waiting) this.#stop = this.#wait(LOOK_MS, () => this.reconsider())
    }
  }
}
