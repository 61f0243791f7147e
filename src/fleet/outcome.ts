import { reasonOf } from '../../hal/errors.ts'
import { CommandError } from '../cli/failure.ts'
import type { Json } from '../settings-file/settings-file.ts'
import { UsageError } from '../usage-error.ts'
import type { Member } from './access.ts'

/** Limit on a reason or a note, in characters. */
const MAX_TEXT = 2_000

export const STATES = ['unchanged', 'would change', 'changed', 'done', 'failed', 'not begun'] as const
export type State = (typeof STATES)[number]

/** The outcome for one device. */
export interface Outcome {
  readonly device: string
  readonly address: string
  readonly state: State
  /** Why it failed. */
  readonly reason?: string
  /** The values that differ, by JSON pointers. */
  readonly changes?: readonly { readonly pointer: string; readonly before: Json; readonly after: Json }[]
  /** What else the command has to say about the device. */
  readonly note?: string
}

export type Result = Omit<Outcome, 'device' | 'address'>

interface Failed {
  readonly state: 'failed'
  readonly reason: string
}

/** Does something with a device, as `orFailed`. */
export async function outcomeOf(
  member: Member,
  act: (member: Member) => Promise<Result>,
  halted: Promise<never>,
): Promise<Outcome> {
  // It may throw before there is a promise.
  return named(member, await orFailed((async () => act(member))(), halted))
}

/** Waits for a result. A failure is one, too, and so is the end of the waiting. @param halted Rejects then. */
export function orFailed<T>(result: Promise<T>, halted: Promise<never>): Promise<T | Failed> {
  return Promise.race([result, halted]).catch(error => ({ state: 'failed', reason: causeIn(error) }))
}

export function named({ device, address }: Member, result: Result): Outcome {
  const { note } = result
  return { device: device.name, address, ...result, ...(note !== undefined && { note: clipped(note) }) }
}

/** Why something failed with a device, as a clause without a full stop. */
export function causeIn(error: unknown): string {
  return clipped(error instanceof CommandError || error instanceof UsageError ? error.message : reasonOf(error))
}

/** A device may send text of any length. */
function clipped(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text
}
