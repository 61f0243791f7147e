import { reachable } from '../../hal/format/ip.ts'
import type { Address } from '../config.ts'

/** The other end of a connection. */
export interface Client {
  /** The IP address, without port or zone; `local` on a Unix socket. */
  readonly address: string
  /** The key under which limits count the client: see `networkOf`. */
  readonly network: string
}

const LINK_LOCAL = { prefix: 0xfe80, mask: 0xffc0 }
const UNIQUE_LOCAL = { prefix: 0xfc00, mask: 0xfe00 }

/** @param remoteAddress The property of the socket: undefined on a Unix socket. */
export function clientAt(remoteAddress: string | undefined): Client {
  const [unmapped = ''] = (remoteAddress ?? 'local').replace(/^::ffff:(?=[\d.]+$)/i, '').split('%', 1)
  return { address: unmapped, network: networkOf(unmapped) }
}

/**
 * Returns the network under which an address is counted. A host on the internet can choose addresses from a whole IPv6 /64
 * (RFC 4291 §2.5.4), so the /64 counts as one. All hosts on a local network share one /64, so link-local (RFC 4291 §2.5.6)
 * and unique local addresses (RFC 4193) count individually, as IPv4 addresses do.
 */
function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const first = Number.parseInt(groups[0] ?? '0', 16)
  for (const { prefix, mask } of [LINK_LOCAL, UNIQUE_LOCAL]) if ((first & mask) === prefix) return address
  const after = tail ? tail.split(':') : []
  while (groups.length + after.length < 8) groups.push('0')
  const prefix = [...groups, ...after].slice(0, 4).map(group => group.replace(/^0+(?=.)/, ''))
  return `${prefix.join(':')}::/64`
}

/** Formats a host and a port as in a URL (RFC 3986 §3.2.2). */
export function hostAndPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

export const HTTPS_PORT = 443
const HTTP_PORT = 80

/** Returns the URL of the page at a host name or an address. */
export function pageAt(host: string, port: number, isTls: boolean): string {
  const [scheme, usual] = isTls ? ['https', HTTPS_PORT] : ['http', HTTP_PORT]
  return `${scheme}://${hostAndPort(host, port).replace(new RegExp(`:${usual}$`), '')}/`
}

/** Returns the host and the port of a URL of http. URLs have IPv6 addresses in brackets, and leave out the usual port. */
export function addressIn(url: string): Address {
  const { hostname, port } = new URL(url)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || HTTP_PORT) }
}

/** Whether clients on the network reach the service at that URL: not on the loopback, nor on a Unix socket, which is no URL. */
export function isReachable(url: string): boolean {
  return URL.canParse(url) && reachable([addressIn(url).host]).length > 0
}

/** On the loopback, or at every address of the device. */
const LOCAL = /^(127\.|::1$|0\.0\.0\.0$|::$)/

/** Whether the device itself reaches the service at that URL, whatever its network. */
export function isLocal(url: string): boolean {
  return URL.canParse(url) && LOCAL.test(addressIn(url).host)
}
