/** UxPlay 1.71 was measured to crash in 2 % of its sessions. More than this share would be a defect. */
const MAX_RATE = 0.05
/** A run fails if so many crashes are less likely than this at that rate. */
const MIN_LIKELIHOOD = 0.0001
/**
 * Logged by systemd; by the unit's script when it has killed UxPlay, which would have gone on without a screen; and by
 * receiverd when it has restarted a UxPlay that hung.
 */
const CRASH =
  '^uxplay.service: Main process exited|^UxPlay has lost the screen|^UxPlay was restarted, because it no longer took connections'
const JOURNAL = 'journalctl --quiet --no-pager --unit uxplay --unit receiverd'

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
    const all = await this.#all()
    if (all <= this.#counted) return undefined
    crashes += all - this.#counted
    this.#counted = all
    const log = await this.#shell(`${JOURNAL} --boot --lines 20`)
    const summary = `UxPlay has crashed: ${crashes} times in ${attempts} attempts to connect\n${log}`
    if (likelihood(crashes, Math.max(attempts, crashes), MAX_RATE) < MIN_LIKELIHOOD) throw new Error(summary)
    return summary
  }

  /** Ignores crashes until now, because the test has provoked them. */
  async excuse(): Promise<void> {
    this.#counted = await this.#all()
  }

  async #all(): Promise<number> {
    const count = `grep --count --extended-regexp '${CRASH}' || true`
    return Number(await this.#shell(`${JOURNAL} --output cat | ${count}`))
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
