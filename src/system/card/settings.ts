import { type WifiNetwork, whyNoNetwork } from '../../../hal/format/wpa-supplicant.ts'
import type { JsonObject } from '../../json.ts'
import type { FieldError } from '../../problem.ts'
import type { Given, Name, Parsed } from './receiver-txt.ts'

/** In place of an address: the network assigns one. */
const DHCP = 'dhcp'
/** Names that belong together: when the first is given, the others are those that came with it, or none. */
const GROUPS: readonly (readonly [Name, ...Name[]])[] = [
  // Before the address, which may be that of the Wi-Fi adapter.
  ['wifi-ssid', 'wifi-password', 'wifi-country'],
  ['address', 'gateway', 'dns'],
]

/** The values of the lines. */
export function givenIn({ lines }: Parsed): Given {
  return Object.fromEntries(Object.entries(lines).map(([name, { value }]) => [name, value]))
}

/** The settings given before, replaced by those given now. */
export function merged(before: Given, now: Given): Given {
  const replaced = GROUPS.flatMap(([first, ...others]) => (now[first] === undefined ? [] : others))
  const kept = Object.entries(before).filter(([name]) => !replaced.includes(name as Name))
  return { ...Object.fromEntries(kept), ...now }
}

/** Parts of it that make sense without the others: the groups, and each of the other values. */
export function partsOf(given: Given): readonly Given[] {
  const singles = Object.keys(given).filter(name => !GROUPS.flat().includes(name as Name))
  return [...GROUPS, ...singles.map(name => [name as Name])].map(names =>
    Object.fromEntries(names.flatMap(name => (given[name] === undefined ? [] : [[name, given[name]]]))),
  )
}

/** Whether it sets anything of an interface's addresses. */
export function setsAddresses({ address, gateway, dns }: Given): boolean {
  return [address, gateway, dns].some(value => value !== undefined)
}

/** The configuration's part of it, as a JSON Merge Patch. @param link The interface that takes the address. */
export function patchOf(given: Given, link: string): JsonObject {
  const { hostname, name } = given
  return {
    ...(hostname !== undefined && { hostname: hostname.toLowerCase() }),
    ...(name !== undefined && { deviceName: name }),
    ...(setsAddresses(given) && { network: { [link]: addressesOf(given) } }),
  }
}

function addressesOf({ address, gateway, dns }: Given): JsonObject {
  const servers = dns?.split(/[\s,]+/).filter(server => server !== '')
  if (address === undefined) return { ...(gateway !== undefined && { gateway }), ...(servers && { dns: servers }) }
  if (address.toLowerCase() === DHCP) return { method: 'dhcp', address: '', gateway: gateway ?? '', dns: servers ?? [] }
  return { method: 'static', address, gateway: gateway ?? '', dns: servers ?? [] }
}

/** The name whose value has a refused part of that patch. */
export function nameAt({ pointer }: FieldError, { address, gateway }: Given): Name {
  if (pointer === '/hostname') return 'hostname'
  if (pointer === '/deviceName') return 'name'
  const [, , , property] = pointer.split('/')
  if (property === 'gateway' || property === 'dns') return property
  if (address !== undefined) return 'address'
  return gateway === undefined ? 'dns' : 'gateway'
}

/** The network to join; undefined if none is given. */
export function wifiOf(given: Given): WifiNetwork | undefined {
  const ssid = given['wifi-ssid']
  const country = given['wifi-country']?.toUpperCase() ?? ''
  return ssid === undefined ? undefined : { ssid, password: given['wifi-password'] ?? '', country }
}

/** Mistakes in the lines about Wi-Fi, by name. */
export function wifiMistakes(given: Given): Readonly<Partial<Record<Name, string>>> {
  const network = wifiOf(given)
  if (!network && given['wifi-password'] === undefined && given['wifi-country'] === undefined) return {}
  if (!network) return { 'wifi-ssid': 'missing; set it as well, even if it was taken before' }
  return Object.fromEntries(Object.entries(whyNoNetwork(network)).map(([member, why]) => [`wifi-${member}`, why]))
}
