import type { Outcome, UpdateState } from '../../update/state.ts'

/** The outcome of the last update, unless somebody asked for exactly that, or the error of the last step says it. */
export function newsOf(update: UpdateState | undefined): Outcome | undefined {
  const { last, error } = update ?? {}
  const { outcome, reason = '' } = last ?? {}
  const isTold = outcome === 'failed' && reason !== '' && error?.detail.includes(reason)
  return isTold || reason === 'asked for' ? undefined : last
}
