import type { System } from './system.ts'
import { Unit } from './unit.ts'

/** The units that mirror, in the order in which they are started: UxPlay shows its pictures on weston's screen. */
const UNITS = ['weston.service', 'uxplay.service']

/** Restarts what mirrors, unless it is stopped. @returns whether there was anything to restart. */
export async function restartReceiver(system: System): Promise<boolean> {
  let isRestarted = false
  for (const name of UNITS) if (await new Unit(system, name).restart()) isRestarted = true
  return isRestarted
}
