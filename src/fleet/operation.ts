import { CommandError } from '../cli/failure.ts'
import type { Member } from './access.ts'
import { Unanswered } from './client.ts'
import type { Result } from './outcome.ts'

/** Has a device carry out an operation. */
export async function carryOut(member: Member, operation: string): Promise<Result> {
  await member
    .client()
    .send('POST', `/operations/${operation}`)
    .catch(error => {
      if (!(error instanceof Unanswered)) throw error
      throw new CommandError(`${error.message}; it may have carried out the operation`)
    })
  return { state: 'done' }
}
