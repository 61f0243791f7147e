import type { Outcome, UpdateState } from '../../update/state.ts'

/** Returns the outcome of the last update, unless it was requested, or the error of the last step already reports it. */
export function newsOf(update: UpdateState | undefined): Outcome | undefined {
  const { last, error } = update ?? {}
  const { outcome, reason = '' } = last ?? {}
  const isTold = outcome === 'failed' && reason !== '' && error?.detail.includes(reason)
  return isTold || reason === 'asked for' ? undefined : last
}
