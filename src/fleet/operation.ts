import { CommandError } from '../cli/failure.ts'
import type { Member } from './access.ts'
import { report } from './report.ts'
import { countOf, type RollOutOptions, rollOut } from './waves.ts'

export interface OperationOptions extends RollOutOptions {
  readonly operation: string
  /** Whether to do it without asking. */
  readonly isSure: boolean
}

/** Has each device carry out an operation, wave by wave. @returns the exit status. @throws {CommandError} if it is not begun. */
export async function runOperation(members: readonly Member[], options: OperationOptions): Promise<number> {
  const { operation, isSure, ui, stop } = options
  if (!isSure && !(await ui.ask(`Have ${countOf(members.length)} carry out ${operation}?`)))
    throw new CommandError('nothing was done')
  const outcomes = await rollOut(members, options, async member => {
    await member.client().send('POST', `/operations/${operation}`)
    return { state: 'done' }
  })
  return report(ui, outcomes, stop.aborted)
}
