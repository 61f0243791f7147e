import { reachable } from '../../hal/format/ip.ts'
import type { SystemStore } from './store.ts'

/** Returns the addresses at which other devices can reach this one. */
export function addressesOf(configuration: SystemStore): readonly string[] {
  const interfaces = Object.values(configuration.value('network') ?? {})
  return reachable(interfaces.flatMap(({ up, addresses }) => (up ? addresses : [])))
}
