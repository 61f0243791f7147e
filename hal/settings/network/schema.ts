import { isDeepStrictEqual } from 'node:util'
import * as Type from 'typebox/type'
import type { Configuration } from '../../format/network-file.ts'
import { Keyed } from '../keyed.ts'

const interfaceSchema = Type.Object(
  {
    present: Type.Boolean({ description: 'Whether the interface is plugged in. Read-only.' }),
    mac: Type.String({ description: 'Hardware address. Read-only.' }),
    up: Type.Boolean({ description: 'Whether there is a carrier. Read-only.' }),
    method: Type.Enum(['dhcp', 'static'], { description: 'Where address and gateway come from: dhcp or static.' }),
    address: Type.String({
      description:
        'With static: IPv4 or IPv6 address and prefix length, such as 192.0.2.10/24. With dhcp: empty; see addresses.',
    }),
    gateway: Type.String({
      description: 'With static: address of the default router, or empty for none. With dhcp: empty.',
    }),
    dns: Type.Array(Type.String(), {
      description: 'Addresses of name servers in order of preference. With dhcp, they are added to those of the lease.',
    }),
    addresses: Type.Array(Type.String(), { description: 'Addresses in use, in CIDR notation. Read-only.' }),
  },
  { title: 'interface', additionalProperties: false },
)
export type Interface = Type.Static<typeof interfaceSchema>

export const schema = Keyed(interfaceSchema, { description: 'Network interfaces, wired and wireless, by name.' })
export type Interfaces = Type.Static<typeof schema>

/** The members that can be set, as they are written: with DHCP, an address from before is dropped. */
export function configured({ method, address, gateway, dns }: Interface): Configuration {
  return method === 'static' ? { method, address, gateway, dns } : { method, address: '', gateway: '', dns }
}

export function isSameConfiguration(one: Interface, other: Interface): boolean {
  return isDeepStrictEqual(configured(one), configured(other))
}
