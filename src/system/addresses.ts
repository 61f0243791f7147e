import { ipv4First } from '../../hal/format/ip.ts'
import type { SystemStore } from './store.ts'

const OWN_LINK = /^(127\.|169\.254\.|::1$|fe80:)/i

/** Addresses at which others can reach the device. */
export function addressesOf(configuration: SystemStore): readonly string[] {
  const interfaces = Object.values(configuration.value('network') ?? {})
  return reachable(interfaces.flatMap(({ up, addresses }) => (up ? addresses : [])))
}

/** Addresses in CIDR notation without their prefix, IPv4 first: none of the loopback, and no link-local ones. */
export function reachable(cidrs: readonly string[]): readonly string[] {
  return ipv4First(cidrs.map(cidr => cidr.replace(/\/.*/, '')).filter(address => !OWN_LINK.test(address)))
}
