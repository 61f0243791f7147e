import type { Outcome, UpdateState } from '../../update/state.ts'

/** What became of the last update, unless somebody has asked for just that. */
export function newsOf(update: UpdateState | undefined): Outcome | undefined {
  return update?.last?.reason === 'asked for' ? undefined : update?.last
}
