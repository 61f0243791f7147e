import { isObject, type Json, type JsonObject } from '../json.ts'

export interface AddressAfter {
  readonly address: string
  /** The device may as well be where it is now. */
  readonly isGuess: boolean
}

interface Moved {
  readonly host: string
  readonly isGuess: boolean
}

/**
 * Where the device will be after a change: the page's own address with another host. Undefined if it stays where it is, or
 * if nobody can tell.
 */
export function addressAfter(patch: JsonObject, before: JsonObject, here = location.href): AddressAfter | undefined {
  const host = new URL(here).hostname
  const ip = host.replace(/^\[(.*)\]$/, '$1')
  const moved = newName(patch, before, host) ?? newIp(patch, before, ip)
  if (moved === undefined || [host, ip].includes(moved.host)) return undefined
  const url = new URL(here)
  url.hash = ''
  url.hostname = moved.host.includes(':') ? `[${moved.host}]` : moved.host
  return { address: url.href, isGuess: moved.isGuess }
}

function newName({ hostname }: JsonObject, before: JsonObject, host: string): Moved | undefined {
  if (typeof hostname !== 'string') return undefined
  const name = host === before.hostname ? hostname : host === localName(before) ? localName({ hostname }) : undefined
  return name === undefined ? undefined : { host: name, isGuess: false }
}

/** The interface that has the page's address gets another one, or joins another network. */
function newIp(patch: JsonObject, before: JsonObject, ip: string): Moved | undefined {
  const [name, link] = Object.entries(objectIn(before.network)).find(([, link]) => hasAddress(link, ip)) ?? []
  if (name === undefined) return undefined
  const { method, address } = objectIn(objectIn(patch.network)[name])
  // An address that a router announces stays beside one that is set (RFC 4862, section 5.5.3).
  const isAnnounced = ip.includes(':') && withoutPrefix(objectIn(link).address) !== ip
  const set = withoutPrefix(address)
  if (set !== '') return { host: set, isGuess: isAnnounced }
  // Nobody knows the address that a network will assign, but the device keeps its name.
  const isAssigned = (method === 'dhcp' && !isAnnounced) || 'networks' in objectIn(patch.wifi)
  const host = isAssigned ? localName({ ...before, ...patch }) : undefined
  return host === undefined ? undefined : { host, isGuess: true }
}

function hasAddress(link: Json, ip: string): boolean {
  const { address, addresses } = objectIn(link)
  return [address, ...(Array.isArray(addresses) ? addresses : [])].some(one => withoutPrefix(one) === ip)
}

/** The name in mDNS, which takes the first part of a host name alone. */
function localName({ hostname }: JsonObject): string | undefined {
  return typeof hostname === 'string' ? `${hostname.split('.', 1)[0]}.local` : undefined
}

/** An address without its prefix length, as browsers write it (RFC 5952). */
function withoutPrefix(address: Json | undefined): string {
  const ip = typeof address === 'string' ? (address.split('/', 1)[0] ?? '') : ''
  try {
    return ip.includes(':') ? new URL(`http://[${ip}]`).hostname.slice(1, -1) : ip
  } catch {
    // The device says what is wrong with it.
    return ip
  }
}

function objectIn(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {}
}
