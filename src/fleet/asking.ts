import { CommandError } from '../cli/failure.ts'
import type { Member } from './access.ts'
import type { Result } from './outcome.ts'
import { report } from './report.ts'
import { type RollOutOptions, rollOut } from './waves.ts'

export interface AskingOptions extends RollOutOptions {
  /** Whether to do it without asking. */
  readonly isSure: boolean
}

/**
 * Asks, and then does something with each device, wave by wave.
 * @returns the exit status.
 * @throws {CommandError} if the person declines.
 */
export async function afterAsking(
  members: readonly Member[],
  question: string,
  options: AskingOptions,
  act: (member: Member) => Promise<Result>,
): Promise<number> {
  const { isSure, ui, stop } = options
  if (!isSure && !(await ui.ask(question))) throw new CommandError('nothing was done')
  return report(ui, await rollOut(members, options, act), stop.aborted)
}
