import {
  MAX_NETWORKS,
  officialCode,
  type WifiNetwork,
  whyNoCountry,
  whyNoNetwork,
} from '../../../hal/format/wpa-supplicant.ts'
import type { JsonObject } from '../../json.ts'
import type { FieldError } from '../../problem.ts'
import type { Given, Name, Parsed } from './receiver-txt.ts'

/** Used instead of an address: the network assigns one. */
const DHCP = 'dhcp'
/** A device stays in its country when it joins another network. */
const COUNTRY = 'wifi-country'
/** Names that belong together: when the first one is given, the others are replaced, too, or unset if not given. */
const GROUPS: readonly (readonly [Name, ...(keyof Given)[]])[] = [
  // The Wi-Fi comes before the address, which may be that of the Wi-Fi adapter.
  ['wifi-ssid', 'wifi-password', COUNTRY],
  ['address', 'gateway', 'dns', 'link'],
]

/** Returns the values of the parsed lines. */
export function givenIn({ lines }: Parsed): Given {
  return Object.fromEntries(Object.entries(lines).map(([name, { value }]) => [name, value]))
}

/** Returns the settings given before, overridden by those given now. */
export function merged(before: Given, now: Given): Given {
  const replaced = GROUPS.flatMap(([first, ...others]) => (now[first] === undefined ? [] : others))
  const kept = Object.entries(before).filter(([name]) => name === COUNTRY || !replaced.includes(name as Name))
  return { ...Object.fromEntries(kept), ...now }
}

/** Splits settings into parts that can be applied separately: the groups, and each of the other values. */
export function partsOf(given: Given): readonly Given[] {
  const singles = Object.keys(given).filter(name => !GROUPS.flat().includes(name as Name))
  return [...GROUPS, ...singles.map(name => [name as keyof Given])].map(names =>
    Object.fromEntries(names.flatMap(name => (given[name] === undefined ? [] : [[name, given[name]]]))),
  )
}

/** Reports whether the settings include anything about an interface's addresses. */
export function setsAddresses({ address, gateway, dns }: Given): boolean {
  return [address, gateway, dns].some(value => value !== undefined)
}

/**
 * Returns the part for the configuration, as a JSON Merge Patch.
 * @param link The interface that gets the address.
 * @param known The networks that the device joins already.
 */
export function patchOf(given: Given, link: string, known: readonly WifiNetwork[] = []): JsonObject {
  const { hostname, name } = given
  const wifi = wifiOf(given, known)
  return {
    ...(hostname !== undefined && { hostname: hostname.toLowerCase() }),
    ...(name !== undefined && { deviceName: name }),
    ...(wifi && { wifi }),
    ...(setsAddresses(given) && { network: { [link]: addressesOf(given) } }),
  }
}

function addressesOf({ address, gateway, dns }: Given): JsonObject {
  const servers = dns?.split(/[\s,]+/).filter(server => server !== '')
  if (address === undefined) return { ...(gateway !== undefined && { gateway }), ...(servers && { dns: servers }) }
  if (address.toLowerCase() === DHCP) return { method: 'dhcp', address: '', gateway: gateway ?? '', dns: servers ?? [] }
  return { method: 'static', address, gateway: gateway ?? '', dns: servers ?? [] }
}

/** Returns the name whose value caused a refused part of that patch. */
export function nameAt({ pointer }: FieldError, { address, gateway }: Given): Name {
  if (pointer === '/hostname') return 'hostname'
  if (pointer === '/deviceName') return 'name'
  if (/^\/wifi(\/|$)/.test(pointer)) return 'wifi-ssid'
  const [, , , property] = pointer.split('/')
  if (property === 'gateway' || property === 'dns') return property
  if (address !== undefined) return 'address'
  return gateway === undefined ? 'dns' : 'gateway'
}

/** Returns mistakes in the lines about Wi-Fi, by name. Unlike the API, a card cannot ask to keep the current password. */
export function wifiMistakes(given: Given): Readonly<Partial<Record<Name, string>>> {
  const { 'wifi-ssid': ssid, 'wifi-password': password, 'wifi-country': country } = given
  if (ssid === undefined && password === undefined && country === undefined) return {}
  if (ssid === undefined) return { 'wifi-ssid': 'missing; set it as well, even if it was taken before' }
  const why = whyNoNetwork({ ssid, password: password ?? '' })
  const whyNot = whyNoCountry(countryOf(given))
  return {
    ...(why.ssid && { 'wifi-ssid': why.ssid }),
    ...(why.password && { 'wifi-password': why.password }),
    ...(whyNot && { 'wifi-country': whyNot }),
  }
}

/**
 * Returns a Wi-Fi configuration in which this network is preferred to the known ones: a device that was out of reach may be
 * carried back to them. `hidden` is set so that a hidden network is found, too. Without a country, the device keeps its own.
 */
function wifiOf(given: Given, known: readonly WifiNetwork[]): JsonObject | undefined {
  const ssid = given['wifi-ssid']
  if (ssid === undefined) return undefined
  const first = { ssid, password: given['wifi-password'] ?? '', hidden: true }
  const others = known.filter(network => network.ssid !== ssid).map(network => ({ ...network }))
  return {
    ...(given[COUNTRY] !== undefined && { country: countryOf(given) }),
    networks: [first, ...others].slice(0, MAX_NETWORKS),
  }
}

/** On a card, UK will do: nobody is there to be asked, and without Wi-Fi, nobody may find the device. */
function countryOf(given: Given): string {
  return officialCode(given['wifi-country']?.toUpperCase() ?? '')
}
