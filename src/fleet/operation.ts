import type { Member } from './access.ts'
import type { Result } from './outcome.ts'

/** Has a device carry out an operation. */
export async function carryOut(member: Member, operation: string): Promise<Result> {
  await member.client().send('POST', `/operations/${operation}`)
  return { state: 'done' }
}
