import type { Engine } from '../engine.ts'
import type { System } from './system.ts'
import { Unit } from './unit.ts'

const SERVICE = 'receiverd.service'
const SCREEN = 'weston.service'

/** The units that mirror, in the order in which they are started: engines show their pictures on weston's screen. */
export function mirroringUnits(engines: readonly Engine[]): readonly string[] {
  return [SCREEN, ...engines.flatMap(({ units }) => units)]
}

/** The units whose records are a receiver's log: this service, and those that mirror. */
export function loggingUnits(engines: readonly Engine[]): readonly string[] {
  return [SERVICE, ...engines.flatMap(({ units }) => units), SCREEN]
}

/** Restarts these units in turn, except those that are stopped. @returns whether there was anything to restart. */
export async function restartReceiver(system: System, units: readonly string[]): Promise<boolean> {
  let isRestarted = false
  for (const name of units) if (await new Unit(system, name).restart()) isRestarted = true
  return isRestarted
}
