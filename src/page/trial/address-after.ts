import { isObject, type Json, type JsonObject } from '../json.ts'

export interface AddressAfter {
  readonly address: string
  /** The device may as well be where it is now. */
  readonly isGuess: boolean
}

/**
 * Where the device will be after a change: the page's own address with another host. Undefined if it stays where it is, or
 * if nobody can tell.
 */
export function addressAfter(patch: JsonObject, before: JsonObject, here = location.href): AddressAfter | undefined {
  const host = new URL(here).hostname
  const ip = host.replace(/^\[(.*)\]$/, '$1')
  const sure = newName(patch, before, host) ?? newIp(patch, before, ip)
  const moved = sure ?? nameInOtherNetwork(patch, before, ip)
  if (moved === undefined || moved === host) return undefined
  const url = new URL(here)
  url.hash = ''
  url.hostname = moved.includes(':') ? `[${moved}]` : moved
  return { address: url.href, isGuess: sure === undefined }
}

function newName({ hostname }: JsonObject, before: JsonObject, host: string): string | undefined {
  if (typeof hostname !== 'string') return undefined
  if (host === before.hostname) return hostname
  return host === localName(before) ? localName({ hostname }) : undefined
}

/** The interface that has the page's address gets another one. */
function newIp({ network }: JsonObject, before: JsonObject, host: string): string | undefined {
  for (const [name, change] of Object.entries(isObject(network) ? network : {})) {
    const known = isObject(before.network) ? before.network[name] : undefined
    if (!isObject(change) || !isObject(known) || typeof change.address !== 'string') continue
    const addresses: readonly Json[] = [known.address ?? '', ...(Array.isArray(known.addresses) ? known.addresses : [])]
    if (addresses.some(address => withoutPrefix(address) === host)) return withoutPrefix(change.address) || undefined
  }
  return undefined
}

/** In another Wi-Fi network it gets another address, but keeps its name. */
function nameInOtherNetwork({ wifi }: JsonObject, before: JsonObject, host: string): string | undefined {
  const links = isObject(before.network) ? Object.values(before.network) : []
  const isIts = links.some(
    link => isObject(link) && Array.isArray(link.addresses) && link.addresses.some(one => withoutPrefix(one) === host),
  )
  return isObject(wifi) && 'networks' in wifi && isIts ? localName(before) : undefined
}

/** The name in mDNS, which takes the first part of a host name alone. */
function localName({ hostname }: JsonObject): string | undefined {
  return typeof hostname === 'string' ? `${hostname.split('.', 1)[0]}.local` : undefined
}

function withoutPrefix(address: Json): string {
  return String(address).split('/', 1)[0] ?? ''
}
