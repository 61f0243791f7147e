import type { Rig } from '../rig/rig.ts'

/** UxPlay 1.71 was measured to crash in 2 % of its sessions. More than this share would be a defect. */
const MAX_RATE = 0.05
/** A run fails if so many crashes are less likely than this at that rate. */
const MIN_LIKELIHOOD = 0.0001

/** Attempts of devices to connect, and crashes of UxPlay, in all rooms of this process. */
let attempts = 0
let crashes = 0

/** The crashes of one machine's UxPlay, by systemd's log. A kill by a test counts as a success there. */
export class Crashes {
  readonly #rig: Rig
  #counted = 0

  constructor(rig: Rig) {
    this.#rig = rig
  }

  count(): void {
    attempts++
  }

  /**
   * @returns the log of the crashes since the last call; undefined if there were none.
   * @throws if there were more than MAX_RATE explains.
   */
  async news(): Promise<string | undefined> {
    const lines = await this.#rig.journal('_PID=1', 'UNIT=uxplay.service', '--output-fields=MESSAGE')
    const all = lines.filter(({ MESSAGE }) => MESSAGE?.includes('Main process exited')).length
    const fresh = all - this.#counted
    if (fresh <= 0) return undefined
    this.#counted = all
    crashes += fresh
    const log = await this.#rig.shell('journalctl --quiet --boot --unit uxplay --lines 20 --no-pager')
    const summary = `UxPlay has crashed: ${crashes} times in ${attempts} attempts to connect\n${log}`
    if (likelihood(crashes, attempts, MAX_RATE) < MIN_LIKELIHOOD) throw new Error(summary)
    return summary
  }
}

/** How likely it is that of `trials` at least `count` have an outcome of this probability (binomial distribution). */
export function likelihood(count: number, trials: number, probability: number): number {
  let sum = 0
  let term = (1 - probability) ** trials
  for (let n = 0; n <= trials; n++) {
    if (n >= count) sum += term
    term *= ((trials - n) / (n + 1)) * (probability / (1 - probability))
  }
  return sum
}
