import { getValue } from '../format/key-value.ts'
import type { System } from './system.ts'

/** The current state of a unit, as systemd reports it. */
export interface UnitState {
  /** ActiveState, such as `active`, `activating` or `failed`. */
  readonly state: string
  readonly isActive: boolean
  /** Whether systemd is about to start or stop it, or waits for other units before it does. */
  readonly hasJob: boolean
  /** The invocation ID, which changes with each start; empty if the unit was never started. */
  readonly run: string
}

/** The states of units, by name. A unit that is not installed is `inactive`. @throws {HalError} */
export async function unitStates(
  system: Pick<System, 'run'>,
  names: readonly string[],
): Promise<ReadonlyMap<string, UnitState>> {
  if (names.length === 0) return new Map()
  const output = await system.run(['systemctl', 'show', '--property=ActiveState,InvocationID,Job', ...names])
  const blocks = output.split('\n\n')
  return new Map(
    names.map((name, at) => {
      const text = blocks[at] ?? ''
      const state = getValue(text, 'ActiveState') ?? ''
      // A server keeps serving while it reloads its configuration.
      const isActive = state === 'active' || state === 'reloading'
      const hasJob = Boolean(getValue(text, 'Job'))
      return [name, { state, isActive, hasJob, run: getValue(text, 'InvocationID') ?? '' }] as const
    }),
  )
}
