import { HalError, isNoSpace, reasonOf } from '../../hal/errors.ts'
import { type Clock, rfc3339 } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Look } from './checks.ts'
import type { Expectations, Trial, TrialRecords } from './trial.ts'

/** Time as it passes, whatever the clock says. */
export interface Pace {
  /** Milliseconds since some moment. */
  now(): number
  wait(ms: number): Promise<void>
}

/** The slot that this system was started from, as RAUC has it. */
export interface Bootloader {
  /** The name of the slot is empty if it was not started from one. */
  status(): Promise<{ readonly bootSlot: string }>
  mark(state: 'good', bootName: string): Promise<void>
}

export interface JudgeOptions {
  readonly rauc: Bootloader
  readonly records: TrialRecords
  readonly look: (expect: Expectations) => Promise<Look>
  readonly pace: Pace
  readonly clock: Clock
  /** An earlier time than this, in milliseconds since 1970, cannot be right. */
  readonly builtAt: number
  readonly log: Log
}

/**
 * How long it is asked. The unit has a minute and a half more (receiverd-judge.service): for Node to start on a busy board, for a look,
 * and for the verdict.
 */
export const TRIAL_MS = 270_000
const POLL_MS = 3_000
/** How long all must be well, without a unit that is started again: some crash only after a while. */
export const STEADY_MS = 10_000

/**
 * Judges the version that runs, if it is on trial: it stays if it does what worked at the installation. Any other version
 * stays anyway.
 * @returns whether it stays; if not, the reason is on record, and the device is to be restarted.
 * @throws {HalError} if there is a record of a trial that cannot be read, or without a trial RAUC does not answer.
 */
export async function judge(options: JudgeOptions): Promise<boolean> {
  const { rauc, records, log } = options
  const trial = await records.trial()
  // A version that cannot read the record cannot be judged by it. Its attempts are limited.
  if (!trial && (await records.isTrial())) throw new HalError('UNREADABLE', 'the record of the trial is damaged')
  // On trial, RAUC must answer in time, as all others.
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

/** A trial in this run of the system. */
class TrialRun {
  readonly #trial: Trial
  readonly #options: JudgeOptions
  /** Since when all is well, and in which runs of the units. */
  #well: { readonly since: number; readonly runs: Look['runs'] } | undefined
  /** The last thing that did not work. */
  #fault = ''

  constructor(trial: Trial, options: JudgeOptions) {
    this.#trial = trial
    this.#options = options
  }

  /** Resolves when it is over, with whether the version stays. */
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
      this.#say(reasonOf(error))
      return false
    }
  }

  /** Whether all has been well for long enough. */
  async #isWell(): Promise<boolean> {
    const { look, pace } = this.#options
    const { wanting, runs } = await look(this.#trial.expect)
    const before = this.#well?.runs
    const again = before && [...runs].find(([name, run]) => before.get(name) !== run)
    if (wanting.length > 0) this.#say(wanting.join('; '))
    else if (again) this.#say(`${again[0]} was started again`)
    if (wanting.length > 0) this.#well = undefined
    else if (!this.#well || again) this.#well = { since: pace.now(), runs }
    return this.#well !== undefined && pace.now() - this.#well.since >= STEADY_MS
  }

  /**
   * Makes it good. After a power cut in between, the next start goes on here, without judging again what was good: or the
   * other system starts, because no attempt was left, and sees a trial that has not ended.
   */
  async #settle(): Promise<void> {
    const { rauc, records, log } = this.#options
    const { slot, version } = this.#trial
    const isNoted = this.#trial.isGood || (await this.#noteGood())
    await rauc.mark('good', slot)
    // From here on it is good. The rest is for people, and the next start can do it, if it does not judge again.
    try {
      await records.conclude({ version, outcome: 'installed', ...this.#at })
    } catch (error) {
      log('warning', `the record of the trial cannot be closed: ${reasonOf(error)}`)
      if (!isNoted) await records.remove()
    }
  }

  /** A full disk is not the fault of this version. */
  async #noteGood(): Promise<boolean> {
    const { records, log } = this.#options
    try {
      await records.begin({ ...this.#trial, isGood: true })
      return true
    } catch (error) {
      if (!isNoSpace(error)) throw error
      log('warning', `that the version is good cannot be put on record: ${reasonOf(error)}`)
      return false
    }
  }

  async #condemn(): Promise<void> {
    const { records, log } = this.#options
    const { slot, version } = this.#trial
    const reason = this.#fault
    log('error', `version ${version} is not good: ${reason}; the device restarts`)
    // Storage that refuses it must not keep a bad version.
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
