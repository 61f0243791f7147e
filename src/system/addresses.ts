import { reachable } from '../../hal/format/ip.ts'
import type { SystemStore } from './store.ts'

/** Addresses at which others can reach the device. */
export function addressesOf(configuration: SystemStore): readonly string[] {
  const interfaces = Object.values(configuration.value('network') ?? {})
  return reachable(interfaces.flatMap(({ up, addresses }) => (up ? addresses : [])))
}
