import {
  type Address,
  type Cidr,
  isLinkLocal6,
  isSame,
  isWithin,
  parseAddress,
  parseCidr,
  whyNoHost,
  whyNoHostOf,
} from '../../format/ip.ts'
import type { Violation } from '../../setting.ts'
import type { Interface, Interfaces } from './schema.ts'

const MAX_SERVERS = 8

/** What is wrong with the values of one interface, each by itself and beside the others. */
export function whyNotValues(next: Interface, previous: Interface): readonly Violation[] {
  if (next.method === 'dhcp')
    return [
      ...refuseAt('/address', whyNotNow('address', next, previous)),
      ...refuseAt('/gateway', whyNotNow('gateway', next, previous)),
      ...whyNotServers(next.dns, previous.dns),
    ]
  const network = parseCidr(next.address)
  return [
    ...refuseAt('/address', whyNotAddress(next.address, network)),
    ...refuseAt('/gateway', whyNotGateway(next, network)),
    ...whyNotServers(next.dns, previous.dns, network),
  ]
}

/** An address stands for one interface alone, also one that another has from DHCP. */
export function whyNotTwice(name: string, interfaces: Interfaces): readonly Violation[] {
  const own = parseCidr(interfaces[name]?.method === 'static' ? interfaces[name].address : '')
  if (!own) return []
  const holder = Object.entries(interfaces).find(([other, { method, address, addresses }]) => {
    const theirs = (method === 'static' ? [address] : addresses).map(parseCidr)
    return other !== name && theirs.some(cidr => cidr && isSame(cidr, own))
  })
  return refuseAt('/address', holder && `${holder[0]} has it already`)
}

/** What DHCP has no use for is refused, unless it only stood there before. */
function whyNotNow(key: 'address' | 'gateway', next: Interface, previous: Interface): string | undefined {
  return next[key] === '' || next[key] === previous[key] ? undefined : 'for the method static alone'
}

function whyNotAddress(text: string, address: Cidr | undefined): string | undefined {
  if (text === '') return 'the method static needs an address'
  if (!address) return 'no address with the length of its prefix, such as 192.0.2.10/24 or 2001:db8::10/64'
  if (address.prefix === 0) return 'a prefix of length 0 is no network'
  return isNot(whyNoHost(address) ?? whyNoHostOf(address, address))
}

function whyNotGateway({ gateway: text, address }: Interface, network: Cidr | undefined): string | undefined {
  const gateway = parseAddress(text)
  if (text === '') return undefined
  if (!gateway) return 'no IPv4 or IPv6 address'
  // What is wrong with the address is said there.
  if (!network) return isNot(whyNoHost(gateway))
  if (isSame(gateway, network)) return 'the address of the interface itself'
  const isReached = isWithin(network, gateway) || (network.family === 6 && isLinkLocal6(gateway))
  return (
    isNot(whyNoHost(gateway) ?? whyNoHostOf(network, gateway)) ??
    (isReached ? undefined : `not in the network of ${address}`)
  )
}

/** What is there already may have a form that is not ours, such as one with a port, and stays. */
function whyNotServers(next: readonly string[], previous: readonly string[], network?: Cidr): readonly Violation[] {
  if (next.length > MAX_SERVERS && next.length > previous.length)
    return refuseAt('/dns', `at most ${MAX_SERVERS} servers`)
  const addresses = next.map(parseAddress)
  return next.flatMap((text, at) => {
    const address = addresses[at]
    const isAgain = next.slice(0, at).some((other, before) => other === text || areSame(addresses[before], address))
    if (isAgain) return refuseAt(`/dns/${at}`, 'a server that stands there already')
    return previous.includes(text) ? [] : refuseAt(`/dns/${at}`, whyNotServer(address, network))
  })
}

function whyNotServer(address: Address | undefined, network: Cidr | undefined): string | undefined {
  if (!address) return 'no IPv4 or IPv6 address'
  return isNot(whyNoHost(address) ?? (network && whyNoHostOf(network, address)))
}

function areSame(one: Address | undefined, other: Address | undefined): boolean {
  return one !== undefined && other !== undefined && isSame(one, other)
}

function isNot(what: string | undefined): string | undefined {
  return what && `${what}, which no host has`
}

function refuseAt(pointer: string, detail: string | undefined): readonly Violation[] {
  return detail === undefined ? [] : [{ pointer, detail }]
}
