import { CommandError } from '../cli/failure.ts'
import type { JsonObject } from '../json.ts'
import type { Member } from './access.ts'
import { atOnce } from './at-once.ts'
import { type ChangeOptions, changeDevice, changesOf } from './change.ts'
import { named, type Outcome, outcomeOf, type Result } from './outcome.ts'
import { compare, isHidden, linesOf, refusalOf } from './preview.ts'
import { DIFFERENT, grouped, listed, report, SUCCESS } from './report.ts'
import type { Ui } from './ui.ts'
import { countOf, inWaves, type RollOutOptions, rollOut } from './waves.ts'

/** A device, and the settings that it should have. */
export interface Wanted {
  readonly member: Member
  readonly settings: JsonObject
  /** Why there are no settings for it. */
  readonly problem?: string
}

export interface ApplyOptions extends RollOutOptions, ChangeOptions {
  /** Whether to do it without asking. */
  readonly isSure: boolean
}

interface Plan {
  readonly wanted: Wanted
  readonly outcome: Outcome
  /** The differences, for a person. */
  readonly lines: readonly string[]
  /** Whether the device answered that it refuses its settings. */
  readonly isRefused: boolean
}

/** Prints what would change. @returns the exit status. */
export async function diff(all: readonly Wanted[], options: RollOutOptions): Promise<number> {
  const plans = await plan(all, options)
  describe(plans, options.ui)
  const outcomes = plans.map(({ outcome }) => outcome)
  const status = report(options.ui, outcomes, options.stop.aborted)
  const isDifferent = outcomes.some(({ state }) => state === 'would change')
  return status === SUCCESS && isDifferent ? DIFFERENT : status
}

/**
 * Gives devices their settings, wave by wave. A device that cannot be reached is left out; one that refuses its settings stops
 * the roll-out before anything has changed, because that is a mistake in the file.
 * @returns the exit status.
 * @throws {CommandError} if the person declines.
 */
export async function apply(all: readonly Wanted[], options: ApplyOptions): Promise<number> {
  const { ui, stop, waves, isSure, isKeptGoing } = options
  const plans = await plan(all, options)
  const due = plans.filter(({ outcome }) => outcome.state === 'would change')
  const others = plans.filter(({ outcome }) => outcome.state !== 'would change').map(({ outcome }) => outcome)
  describe(plans, ui)
  const postponed = due.map(({ wanted }) => named(wanted.member, { state: 'not begun' }))
  if (stop.aborted || due.length === 0) return report(ui, inOrder(all, [...others, ...postponed]), stop.aborted)
  const refused = plans.filter(({ isRefused }) => isRefused)
  if (refused.length > 0 && !isKeptGoing) {
    const status = report(ui, inOrder(all, [...others, ...postponed]))
    ui.note('Nothing was changed, because of refused settings; --keep-going leaves these devices out.')
    return status
  }
  for (const { device, reason } of others.filter(({ state }) => state === 'failed')) ui.note(`${device}: ${reason}`)
  const sizes = inWaves(due, waves).map(wave => wave.length)
  const question = `Change ${countOf(due.length)}${sizes.length > 1 ? `, in waves of ${listed(sizes.map(String))}` : ''}?`
  if (!isSure && !(await ui.ask(question))) throw new CommandError('nothing was changed')
  const settingsOf = new Map(due.map(({ wanted: { member, settings } }) => [member, settings]))
  const outcomes = await rollOut([...settingsOf.keys()], options, member =>
    changeDevice(member.client(), settingsOf.get(member) ?? {}, options),
  )
  return report(ui, inOrder(all, [...others, ...outcomes]), stop.aborted)
}

/** Asks each device what would change. */
async function plan(all: readonly Wanted[], { limit, stop, halted, ui }: RollOutOptions): Promise<readonly Plan[]> {
  let asked = 0
  const plans = await atOnce(
    all,
    limit,
    async wanted => {
      const made = await planOf(wanted, halted)
      ui.show(`Comparing: ${++asked} of ${countOf(all.length)}`)
      return made
    },
    stop,
  )
  ui.show('')
  return all.map((wanted, at) => {
    const outcome = named(wanted.member, { state: 'not begun' })
    return plans[at] ?? { wanted, outcome, lines: [], isRefused: false }
  })
}

async function planOf(wanted: Wanted, halted: Promise<never>): Promise<Plan> {
  let lines: readonly string[] = []
  let isRefused = false
  const compared = async (member: Member): Promise<Result> => {
    if (wanted.problem !== undefined) throw new CommandError(wanted.problem)
    if (Object.keys(wanted.settings).length === 0) return { state: 'unchanged' }
    const comparison = await compare(member.client(), wanted.settings)
    isRefused = comparison.leftOut.length > 0
    if (isRefused) throw new CommandError(refusalOf(comparison))
    lines = linesOf(comparison)
    const { patch, differences } = comparison
    if (Object.keys(patch).length === 0) return { state: 'unchanged' }
    const note = differences.every(isHidden) ? { note: 'only secrets are sent again' } : {}
    return { state: 'would change', changes: changesOf(differences), ...note }
  }
  const outcome = await outcomeOf(wanted.member, compared, halted)
  return { wanted, outcome, lines, isRefused }
}

/** Prints the differences. Those that several devices share are printed once. */
function describe(plans: readonly Plan[], ui: Ui): void {
  const due = plans.filter(({ lines }) => lines.length > 0)
  for (const [text, those] of grouped(due, ({ lines }) => lines.map(line => `  ${line}`).join('\n'))) {
    ui.say(`${listed(those.map(({ outcome }) => outcome.device))}:`)
    ui.say(text)
  }
}

/** Sorts outcomes in the order of the fleet file. */
function inOrder(all: readonly Wanted[], outcomes: readonly Outcome[]): readonly Outcome[] {
  const byName = new Map(outcomes.map(outcome => [outcome.device, outcome]))
  return all.flatMap(({ member }) => byName.get(member.device.name) ?? [])
}
