import type { Outcome, UpdateState } from '../../update/state.ts'

/** The states in which the outcome of the update before is no longer news. */
const NEXT = ['installing', 'installed', 'restarting']

/** Returns the outcome of the last update, unless the next one is under way, or the error of the last step already reports it. */
export function newsOf(update: UpdateState | undefined): Outcome | undefined {
  if (!update || NEXT.includes(update.state)) return undefined
  const { last, error } = update
  const { outcome, reason = '' } = last ?? {}
  const isTold = outcome === 'failed' && reason !== '' && error?.detail.includes(reason)
  return isTold ? undefined : last
}

/** Reports whether somebody asked the device to go back to the version before. */
export const wasAskedFor = ({ outcome, reason }: Outcome): boolean =>
  outcome === 'rolled back' && reason === 'asked for'
