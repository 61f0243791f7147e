import type { Engine } from '../engine.ts'
import type { System } from '../os/system.ts'
import { UxPlayEngine } from './uxplay.ts'

/** Every engine, in the order in which they are started. */
export function enginesOf(system: System): readonly Engine[] {
  return [new UxPlayEngine(system)]
}
