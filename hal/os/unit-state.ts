import { getValue } from '../format/key-value.ts'
import type { System } from './system.ts'

/** The present state of a unit, by systemd. */
export interface UnitState {
  /** ActiveState, such as `active`, `activating` or `failed`. */
  readonly state: string
  readonly isActive: boolean
  /** Another one after each start; empty if it was never started. */
  readonly run: string
}

/** The states of units, by name. One that is not installed is `inactive`. @throws {HalError} */
export async function unitStates(system: System, names: readonly string[]): Promise<ReadonlyMap<string, UnitState>> {
  if (names.length === 0) return new Map()
  const output = await system.run(['systemctl', 'show', '--property=ActiveState,InvocationID', ...names])
  const blocks = output.split('\n\n')
  return new Map(
    names.map((name, at) => {
      const text = blocks[at] ?? ''
      const state = getValue(text, 'ActiveState') ?? ''
      // A server that reads its configuration again goes on meanwhile.
      const isActive = state === 'active' || state === 'reloading'
      return [name, { state, isActive, run: getValue(text, 'InvocationID') ?? '' }] as const
    }),
  )
}
