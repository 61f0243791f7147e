import { isDeepStrictEqual } from 'node:util'
import * as Type from 'typebox/type'
import type { Configuration } from '../../format/network-file.ts'
import { IDENTITY } from '../identity.ts'
import { Keyed } from '../keyed.ts'
import { LOCKS_OUT } from '../locks-out.ts'

/** Forms show such a member only while its sibling has this value, and prefill it from `choices`. */
const WITH_STATIC = { 'x-only-with': { method: 'static' } }
/** Forms prefill such a member, if it is empty, when its sibling is set to this value. */
const PROPOSED_WITH_STATIC = { 'x-propose-with': { method: 'static' } }

const interfaceSchema = Type.Object(
  {
    present: Type.Boolean({ description: 'Whether the interface is plugged in.', readOnly: true }),
    mac: Type.String({ description: 'Hardware address.', readOnly: true }),
    up: Type.Boolean({ description: 'Whether the link has a carrier.', readOnly: true }),
    method: Type.Enum(['dhcp', 'static'], {
      description: 'Whether the network assigns the address and the gateway (dhcp), or they are set here (static).',
    }),
    address: Type.String({
      ...WITH_STATIC,
      description:
        'For static: IPv4 or IPv6 address with its prefix length, such as 192.0.2.10/24. Empty for dhcp; see ' +
        'addresses. Further addresses in the file of the interface are kept, unless the method changes.',
    }),
    gateway: Type.String({
      ...WITH_STATIC,
      description:
        'For static: address of the router, or empty for none. Empty for dhcp. The router for the other of IPv4 and IPv6 ' +
        'in the file of the interface is kept, unless the method changes.',
    }),
    dns: Type.Array(Type.String(), {
      ...PROPOSED_WITH_STATIC,
      description:
        'Addresses of name servers, in order of preference. For dhcp, in addition to those that the network assigns.',
    }),
    addresses: Type.Array(Type.String(), { description: 'Addresses in use, in CIDR notation.', readOnly: true }),
  },
  { title: 'interface', additionalProperties: false },
)
export type Interface = Type.Static<typeof interfaceSchema>

export const schema = Keyed(interfaceSchema, {
  description: 'Network interfaces, wired and wireless, by name.',
  ...IDENTITY,
  ...LOCKS_OUT,
})
export type Interfaces = Type.Static<typeof schema>

/** Returns the members that can be set, in the form that is written: with DHCP, a previous address is dropped. */
export function configured({ method, address, gateway, dns }: Interface): Configuration {
  return method === 'static' ? { method, address, gateway, dns } : { method, address: '', gateway: '', dns }
}

export function isSameConfiguration(one: Interface, other: Interface): boolean {
  return isDeepStrictEqual(configured(one), configured(other))
}
