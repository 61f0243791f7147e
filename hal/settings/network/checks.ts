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
import { refuse, type Violation } from '../../setting.ts'
import type { Interface, Interfaces } from './schema.ts'

const MAX_SERVERS = 8

/** Returns the mistakes in the values of one interface. */
export function whyNotValues(next: Interface, previous: Interface): readonly Violation[] {
  if (next.method === 'dhcp')
    return [
      ...refuse('/address', whyNotWithDhcp('address', next, previous)),
      ...refuse('/gateway', whyNotWithDhcp('gateway', next, previous)),
      ...whyNotServers(next.dns, previous.dns),
    ]
  const network = parseCidr(next.address)
  return [
    ...refuse('/address', whyNotAddress(next.address, network)),
    ...refuse('/gateway', whyNotGateway(next, network)),
    ...whyNotServers(next.dns, previous.dns, network),
  ]
}

/** Refuses an address that another interface has, whether set or leased. */
export function whyNotTwice(name: string, { [name]: own, ...others }: Interfaces): readonly Violation[] {
  const wanted = parseCidr(own?.method === 'static' ? own.address : '')
  if (!wanted) return []
  const holder = Object.entries(others).find(([, { method, address, addresses }]) => {
    const theirs = (method === 'static' ? [address] : addresses).map(parseCidr)
    return theirs.some(cidr => cidr && isSame(cidr, wanted))
  })
  return refuse('/address', holder && `${holder[0]} already has this address`)
}

/** With DHCP, the address and the gateway must be empty, unless they keep their previous value. */
function whyNotWithDhcp(key: 'address' | 'gateway', next: Interface, previous: Interface): string | undefined {
  return next[key] === '' || next[key] === previous[key] ? undefined : 'must be empty unless the method is static'
}

function whyNotAddress(text: string, address: Cidr | undefined): string | undefined {
  if (text === '') return 'required with the method static'
  if (!address) return 'must be an address with its prefix length, such as 192.0.2.10/24 or 2001:db8::10/64'
  if (address.prefix === 0) return 'the prefix length must not be 0'
  return mustNotBe(whyNoHost(address) ?? whyNoHostOf(address, address))
}

function whyNotGateway({ gateway: text, address }: Interface, network: Cidr | undefined): string | undefined {
  const gateway = parseAddress(text)
  if (text === '') return undefined
  if (!gateway) return 'must be an IPv4 or IPv6 address'
  // An invalid address is reported under `address`.
  if (!network) return mustNotBe(whyNoHost(gateway))
  if (isSame(gateway, network)) return mustNotBe('the address of the interface itself')
  const isReached = isWithin(network, gateway) || (network.family === 6 && isLinkLocal6(gateway))
  return (
    mustNotBe(whyNoHost(gateway) ?? whyNoHostOf(network, gateway)) ??
    (isReached ? undefined : `not in the network of ${address}`)
  )
}

/** Refuses invalid servers. Those that were set elsewhere may have another form, such as with a port, and can be kept. */
function whyNotServers(next: readonly string[], previous: readonly string[], network?: Cidr): readonly Violation[] {
  if (next.length > MAX_SERVERS && next.length > previous.length)
    return refuse('/dns', `must not have more than ${MAX_SERVERS} items`)
  const addresses = next.map(parseAddress)
  return next.flatMap((text, at) => {
    const address = addresses[at]
    const isAgain = next.slice(0, at).some((other, before) => other === text || areSame(addresses[before], address))
    if (isAgain) return refuse(`/dns/${at}`, 'duplicate')
    return previous.includes(text) ? [] : refuse(`/dns/${at}`, whyNotServer(address, network))
  })
}

function whyNotServer(address: Address | undefined, network: Cidr | undefined): string | undefined {
  if (!address) return 'must be an IPv4 or IPv6 address'
  return mustNotBe(whyNoHost(address) ?? (network && whyNoHostOf(network, address)))
}

function areSame(one: Address | undefined, other: Address | undefined): boolean {
  return one !== undefined && other !== undefined && isSame(one, other)
}

function mustNotBe(what: string | undefined): string | undefined {
  return what && `must not be ${what}`
}
