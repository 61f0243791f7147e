import { HalError } from '../../errors.ts'
import { words } from '../../format/ini.ts'
import { isSame, parseCidr, prefixOfMask } from '../../format/ip.ts'
import { getValue } from '../../format/key-value.ts'
import type { Configuration } from '../../format/network-file.ts'
import type { System } from '../../os/system.ts'
import { ownMember } from '../keyed.ts'
import { deviceLinks, type NetworkLink } from './links.ts'
import type { Interface } from './schema.ts'

/** Where networkd keeps its leases, each in a file named after the link's index. */
export const LEASES = '/run/systemd/netif/leases'
/** Milliseconds after a reload of networkd within which a static address must be in use. */
const APPLY_MS = 5_000
const APPLY_POLL_MS = 20
/** Milliseconds for which the address must stay in use: networkd removes it once more after networkctl(1) returns. */
const STABLE_MS = 200

/** Returns the addresses on a system that is not running: the static one, or that of the last lease. */
export async function givenAddresses(
  system: System,
  { index }: NetworkLink,
  { method, address }: Configuration,
): Promise<readonly string[]> {
  if (method === 'static') return address ? [address] : []
  return (await leased(system, index)).address
}

type Lease = Readonly<Record<'address' | 'gateway' | 'dns', readonly string[]>>

/** Returns the address, the router and the name servers that DHCP assigned to an interface; empty lists without a lease. */
export async function leased(system: System, index: string): Promise<Lease> {
  const lease = (await system.readText(`${LEASES}/${index}`).catch(() => '')) ?? ''
  const address = getValue(lease, 'ADDRESS')
  const [router] = words(getValue(lease, 'ROUTER') ?? '')
  return {
    address: address ? [`${address}/${prefixOfMask(getValue(lease, 'NETMASK') ?? '')}`] : [],
    gateway: router === undefined ? [] : [router],
    dns: words(getValue(lease, 'DNS') ?? ''),
  }
}

/**
 * Waits until a static address is in use, because networkctl(1) returns before networkd is done. Does not wait without a
 * carrier.
 * @throws {HalError} if the address does not come into use.
 */
export async function untilApplied(system: System, name: string, { method, address, up }: Interface): Promise<void> {
  const wanted = parseCidr(address)
  if (method === 'dhcp' || !wanted || !up) return
  let stableMs = 0
  for (let waitedMs = 0; waitedMs < APPLY_MS; waitedMs += APPLY_POLL_MS) {
    const present = (ownMember(system.addresses(), name) ?? []).map(parseCidr)
    const isInUse = present.some(cidr => cidr && isSame(cidr, wanted) && cidr.prefix === wanted.prefix)
    stableMs = isInUse ? stableMs + APPLY_POLL_MS : 0
    if (stableMs > STABLE_MS) return
    await new Promise(resolve => setTimeout(resolve, APPLY_POLL_MS))
  }
  const isUp = (await deviceLinks(system)).some(link => link.name === name && link.up)
  if (isUp) throw new HalError('COMMAND_FAILED', `systemd-networkd did not set the address of ${name}`)
}
