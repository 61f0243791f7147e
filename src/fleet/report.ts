import { printable } from '../log.ts'
import { type Outcome, STATES } from './outcome.ts'
import type { Ui } from './ui.ts'
import { countOf } from './waves.ts'

export const SUCCESS = 0
export const FAILURE = 1
export const USAGE_ERROR = 2
/** For `diff`: nothing failed, and something would change. */
export const DIFFERENT = 3
/** As in shells after SIGINT. */
export const INTERRUPTED = 130

/** Limit on the devices that are named in a line. */
const MAX_NAMED = 8

/** Groups items by their keys, in the order in which each key first comes up. Leaves out items without a key. */
export function grouped<T>(
  items: readonly T[],
  keyOf: (item: T) => string | undefined,
): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    if (key === undefined) continue
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}

/** `lobby-1, lobby-2 and 12 more`. */
export function listed(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMED).join(', ')
  return names.length > MAX_NAMED ? `${shown} and ${names.length - MAX_NAMED} more` : shown
}

/** Prints the outcomes. @returns the exit status. */
export function report(ui: Ui, outcomes: readonly Outcome[], isInterrupted = false): number {
  if (ui.isJson)
    process.stdout.write(`${JSON.stringify({ devices: outcomes, summary: summaryOf(STATES, outcomes) }, null, 2)}\n`)
  for (const [note, those] of grouped(outcomes, ({ note }) => note))
    ui.say(printable(`${listed(those.map(({ device }) => device))}: ${note}`))
  for (const [reason, those] of grouped(outcomes, ({ reason }) => reason))
    ui.say(printable(`failed: ${listed(those.map(({ device }) => device))}: ${reason}`))
  const counts = Object.entries(summaryOf(STATES, outcomes)).map(([state, count]) => `${count} ${state}`)
  ui.say(`${countOf(outcomes.length)}: ${counts.join(', ')}`)
  if (isInterrupted) return INTERRUPTED
  return outcomes.some(({ state }) => state === 'failed' || state === 'not begun') ? FAILURE : SUCCESS
}

/** How many devices are in each state, in this order of the states. */
export function summaryOf<S extends string>(
  states: readonly S[],
  outcomes: readonly { readonly state: S }[],
): Readonly<Record<string, number>> {
  const counts = states.map(state => [state, outcomes.filter(outcome => outcome.state === state).length] as const)
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
}
