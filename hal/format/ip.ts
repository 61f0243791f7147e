/** Addresses of IPv4 and IPv6, and their networks in CIDR notation (RFC 4632 §3.1, RFC 4291 §2.3). */
import { isIP } from 'node:net'

export interface Address {
  readonly family: 4 | 6
  readonly bits: bigint
}

/** An address with the prefix length of its network. */
export interface Cidr extends Address {
  readonly prefix: number
}

/**
 * Networks whose addresses cannot belong to a host. Kept as text: parsing the first IPv6 address takes Node 4 ms, to compile
 * a pattern, and a start needs none of them.
 */
const NO_HOST = [
  // RFC 1122 §3.2.1.3
  ['0.0.0.0/8', 'an unspecified address'],
  ['127.0.0.0/8', 'a loopback address'],
  ['224.0.0.0/4', 'a multicast address'],
  ['255.255.255.255/32', 'the broadcast address'],
  // RFC 4291 §2.4, §2.5.5.2
  ['::/128', 'an unspecified address'],
  ['::1/128', 'a loopback address'],
  ['ff00::/8', 'a multicast address'],
  ['::ffff:0:0/96', 'an IPv4-mapped IPv6 address'],
] as const
/** RFC 4291 §2.5.6 */
const LINK_LOCAL = 'fe80::/10'

/** Refuses a zone, which only means something on one device (RFC 4007 §11). */
export function parseAddress(text: string): Address | undefined {
  const family = isIP(text)
  if (family === 4) return { family, bits: join(text.split('.').map(BigInt), 8n) }
  if (family === 6 && !text.includes('%')) return { family, bits: join(groupsOf(text), 16n) }
  return undefined
}

/** `192.0.2.10/24`: an address and its prefix length, without leading zeros. */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/')
  const address = parseAddress(text.slice(0, slash))
  const prefix = Number(text.slice(slash + 1))
  if (slash < 0 || !address || `${prefix}` !== text.slice(slash + 1)) return undefined
  return Number.isInteger(prefix) && prefix >= 0 && prefix <= widthOf(address) ? { ...address, prefix } : undefined
}

/** The prefix length of a netmask such as `255.255.255.0`. */
export function prefixOfMask(mask: string): number {
  return parseAddress(mask)?.bits.toString(2).replaceAll('0', '').length ?? 0
}

export function isSame(one: Address, other: Address): boolean {
  return one.family === other.family && one.bits === other.bits
}

export function isWithin(network: Cidr | undefined, address: Address): boolean {
  if (network?.family !== address.family) return false
  const host = hostBits(network)
  return network.bits >> host === address.bits >> host
}

/** Whether an address is valid only on its own link. Routers announce themselves by such addresses (RFC 4861 §4.2). */
export function isLinkLocal6(address: Address): boolean {
  return isWithin(parseCidr(LINK_LOCAL), address)
}

/** Why an address cannot belong to a host, as a noun phrase; undefined if it can. */
export function whyNoHost(address: Address): string | undefined {
  return NO_HOST.find(([network]) => isWithin(parseCidr(network), address))?.[1]
}

/** The same for an address within its network. In networks of two addresses both are hosts (RFC 3021, RFC 6164). */
export function whyNoHostOf(network: Cidr, address: Address): string | undefined {
  const width = hostBits(network)
  if (width < 2n || !isWithin(network, address)) return undefined
  const host = BigInt.asUintN(Number(width), address.bits)
  if (host === 0n)
    return address.family === 4 ? 'the address of the network itself' : 'the anycast address of its routers'
  // IPv6 has no broadcast address.
  return address.family === 4 && host === (1n << width) - 1n ? 'the broadcast address of its network' : undefined
}

function widthOf({ family }: Address): number {
  return family === 4 ? 32 : 128
}

function hostBits(network: Cidr): bigint {
  return BigInt(widthOf(network) - network.prefix)
}

function join(parts: readonly bigint[], width: bigint): bigint {
  return parts.reduce((bits, part) => (bits << width) | part, 0n)
}

/** The eight groups of an IPv6 address. `URL` rewrites a dotted-quad ending as groups. */
function groupsOf(text: string): bigint[] {
  const [head = '', tail = ''] = new URL(`http://[${text}]`).hostname.slice(1, -1).split('::')
  const [first, last] = [head, tail].map(side => side.split(':').filter(group => group !== '')) as [string[], string[]]
  const between = Array<string>(8 - first.length - last.length).fill('0')
  return [...first, ...between, ...last].map(group => BigInt(`0x${group}`))
}

/** Sorts IPv4 addresses before IPv6 addresses, because they are shorter to type. */
export function ipv4First(addresses: readonly string[]): readonly string[] {
  return addresses.toSorted((one, other) => Number(one.includes(':')) - Number(other.includes(':')))
}

const OWN_LINK = /^(127\.|169\.254\.|::1$|fe80:)/i

/** Addresses in CIDR notation without their prefixes, IPv4 first. Loopback and link-local addresses are left out. */
export function reachable(cidrs: readonly string[]): readonly string[] {
  return ipv4First(cidrs.map(cidr => cidr.replace(/\/.*/, '')).filter(address => !OWN_LINK.test(address)))
}
