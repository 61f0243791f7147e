import { HalError, isNoSpace, reasonOf } from '../../hal/errors.ts'
import { type Clock, rfc3339 } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Look } from './checks.ts'
import { departure, type Expectations, type Trial, type TrialRecords } from './trial.ts'

/** Monotonic time, independent of the clock. */
export interface Pace {
  /** Milliseconds since a fixed moment. */
  now(): number
  wait(ms: number): Promise<void>
}

/** RAUC's view of the slot that the system was started from. */
export interface Bootloader {
  /** `bootSlot` is empty if the system was not started from a slot. */
  status(): Promise<{ readonly bootSlot: string }>
  mark(state: 'good', bootName: string): Promise<void>
}

export interface JudgeOptions {
  readonly rauc: Bootloader
  readonly records: TrialRecords
  readonly look: (expect: Expectations) => Promise<Look>
  readonly pace: Pace
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970: before that, the clock is not set. */
  readonly builtAt: number
  readonly log: Log
}

/**
 * Milliseconds that a version has to prove good. The unit allows a minute and a half more (receiverd-judge.service): for Node to
 * start on a busy board, for the last check, and for the verdict.
 */
export const TRIAL_MS = 270_000
const POLL_MS = 3_000
/** Milliseconds for which all must be well, without a restart of a unit: some crash only after a while. */
export const STEADY_MS = 10_000

/**
 * Judges the running version, if it is on trial: it stays if everything works that worked before. A version that is not on
 * trial stays.
 * @returns whether the version stays. If not, the reason is on record, and the caller must restart the device.
 * @throws {HalError} if the record of a trial cannot be read, or if RAUC does not answer and there is no trial.
 */
export async function judge(options: JudgeOptions): Promise<boolean> {
  const { rauc, records, log } = options
  const trial = await records.trial()
  // A version that cannot read the record cannot be judged. The boot loader limits its attempts.
  if (!trial && (await records.isTrial())) throw new HalError('UNREADABLE', 'the record of the trial is damaged')
  // During a trial, RAUC has until the deadline to answer, as everything else has.
  const { bootSlot } = await rauc.status().catch(error => {
    if (trial) return { bootSlot: trial.slot }
    throw error
  })
  if (bootSlot === '') throw new HalError('ABSENT', 'the device was not started from a slot of RAUC')
  if (trial?.slot === bootSlot) return new TrialRun(trial, options).end()
  await rauc.mark('good', bootSlot)
  log('info', 'not on trial: the version stays')
  return true
}

/** The trial of the running version. */
class TrialRun {
  readonly #trial: Trial
  readonly #options: JudgeOptions
  /** Since when all has been well, and with which runs of the units. */
  #well: { readonly since: number; readonly runs: Look['runs'] } | undefined
  /** The parts that did not work in the last look that succeeded. */
  #wanting: readonly string[] = []
  /** The last fault seen. */
  #fault = ''

  constructor(trial: Trial, options: JudgeOptions) {
    this.#trial = trial
    this.#options = options
  }

  /** Runs the trial. @returns whether the version stays. */
  async end(): Promise<boolean> {
    const { pace, log } = this.#options
    const { version } = this.#trial
    const deadline = pace.now() + TRIAL_MS
    while (!(await this.#isSettled())) {
      if (pace.now() >= deadline) {
        await this.#condemn()
        return false
      }
      await pace.wait(POLL_MS)
    }
    log('notice', `version ${version} is good`)
    return true
  }

  async #isSettled(): Promise<boolean> {
    try {
      if (!(this.#trial.isGood || (await this.#isWell()))) return false
      await this.#settle()
      return true
    } catch (error) {
      // A look that fails says nothing about the parts: those that did not work before are still the reason.
      this.#say([...this.#wanting, reasonOf(error)].join('; '))
      return false
    }
  }

  /** Reports whether all has been well for `STEADY_MS`. */
  async #isWell(): Promise<boolean> {
    const { look, pace } = this.#options
    const { wanting, runs } = await look(this.#trial.expect)
    const before = this.#well?.runs
    const again = before && [...runs].find(([name, run]) => before.get(name) !== run)
    this.#wanting = wanting
    if (wanting.length > 0) this.#say(wanting.join('; '))
    else if (again) this.#say(`${again[0]} was started again`)
    if (wanting.length > 0) this.#well = undefined
    else if (!this.#well || again) this.#well = { since: pace.now(), runs }
    return this.#well !== undefined && pace.now() - this.#well.since >= STEADY_MS
  }

  /**
   * Marks the version good. If a power cut interrupts this, the next start resumes here, and does not judge the version again.
   * Or no attempt was left: then the other system starts, and finds an unfinished trial.
   */
  async #settle(): Promise<void> {
    const { rauc, records, log } = this.#options
    const { slot, version, isReturn } = this.#trial
    const isNoted = this.#trial.isGood || (await this.#noteGood())
    await rauc.mark('good', slot)
    // From here on, the version is good. The record only informs people, and the next start can write it if `isGood` was noted.
    try {
      await records.conclude(isReturn ? departure(this.#trial) : { version, outcome: 'installed', ...this.#at })
    } catch (error) {
      log('warning', `the record of the trial cannot be closed: ${reasonOf(error)}`)
      if (!isNoted) await records.remove()
    }
  }

  /** Records that the version is good. Returns false if the disk is full, which is not the fault of this version. */
  async #noteGood(): Promise<boolean> {
    const { records, log } = this.#options
    try {
      await records.begin({ ...this.#trial, isGood: true })
      return true
    } catch (error) {
      if (!isNoSpace(error)) throw error
      log('warning', `the good verdict could not be recorded: ${reasonOf(error)}`)
      return false
    }
  }

  async #condemn(): Promise<void> {
    const { records, log } = this.#options
    const { slot, version } = this.#trial
    const reason = this.#fault
    log('error', `version ${version} is not good: ${reason}; the device restarts`)
    // A bad version must not stay because the storage fails.
    await records
      .condemn({ slot, version, reason, ...this.#at })
      .catch(error => log('error', `the verdict could not be written: ${reasonOf(error)}`))
  }

  #say(fault: string): void {
    const { version } = this.#trial
    if (fault !== this.#fault) this.#options.log('info', `version ${version} is on trial: ${fault}`)
    this.#fault = fault
  }

  get #at(): { readonly at?: string } {
    const { clock, builtAt } = this.#options
    const now = clock.now()
    return now < builtAt ? {} : { at: rfc3339(now) }
  }
}
