import { isIP } from 'node:net'

/** Limit on a host name (RFC 1123 §2.1, RFC 1035 §2.3.4). */
export const MAX_HOST = 253
const LABEL = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
/** A host name, an IPv4 address, or anything with a colon: `whyNoHost` says whether it is an IPv6 address. */
export const HOST_PATTERN = `^(${LABEL}(\\.${LABEL})*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)$`

/**
 * Why a text that matches the pattern is not a host; undefined if it is one. A name whose last label is numeric would be taken
 * for an address (RFC 1123 §2.1).
 */
export function whyNoHost(host: string): string | undefined {
  if (isIP(host) !== 0) return undefined
  if (host.includes(':') || /(^|\.)\d+$/.test(host)) return 'must be a host name, an IPv4 address or an IPv6 address'
  return undefined
}
