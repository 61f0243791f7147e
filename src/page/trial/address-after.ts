import { isObject, type Json, type JsonObject } from '../json.ts'

/**
 * Where the device will be after a change: the page's own address with another host. Undefined if it stays where it is, or
 * if nobody can tell.
 */
export function addressAfter(patch: JsonObject, before: JsonObject, here = location.href): string | undefined {
  const host = new URL(here).hostname
  const moved = newName(patch, before, host) ?? newIp(patch, before, host.replace(/^\[(.*)\]$/, '$1'))
  if (moved === undefined || moved === host) return undefined
  const url = new URL(here)
  url.hash = ''
  url.hostname = moved.includes(':') ? `[${moved}]` : moved
  return url.href
}

function newName({ hostname }: JsonObject, before: JsonObject, host: string): string | undefined {
  if (typeof hostname !== 'string') return undefined
  if (host === before.hostname) return hostname
  return host === `${before.hostname}.local` ? `${hostname}.local` : undefined
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

function withoutPrefix(address: Json): string {
  return String(address).split('/', 1)[0] ?? ''
}
