/** UxPlay 1.71 was measured to crash in 2 % of its sessions. More than this share would be a defect. */
const MAX_RATE = 0.05
/** A run fails if so many crashes are less likely than this at that rate. */
const MIN_LIKELIHOOD = 0.0001
/** Logged by systemd, and by the unit's script when it has killed UxPlay, which would have gone on without a screen. */
const CRASH = '^uxplay.service: Main process exited|^UxPlay has lost the screen'

/** Attempts of devices to connect, and crashes of UxPlay, on all machines of this process. */
let attempts = 0
let crashes = 0

/** The crashes of one machine's UxPlay, by its journal. To systemd, a kill by a test is a success. */
export class Crashes {
  readonly #shell: (command: string) => Promise<string>
  #counted = 0

  constructor(shell: (command: string) => Promise<string>) {
    this.#shell = shell
  }

  countAttempt(): void {
    attempts++
  }

  /**
   * @returns the log of the crashes since the last call; undefined if there were none.
   * @throws if there were more than MAX_RATE explains.
   */
  async news(): Promise<string | undefined> {
    const journal = 'journalctl --quiet --no-pager --unit uxplay'
    const all = Number(await this.#shell(`${journal} --output cat | grep --count --extended-regexp '${CRASH}' || true`))
    if (all <= this.#counted) return undefined
    crashes += all - this.#counted
    this.#counted = all
    const log = await this.#shell(`${journal} --boot --lines 20`)
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
