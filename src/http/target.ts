/** The target of a request and its host (RFC 9112 §3.2, §3.3). */
import type { IncomingMessage } from 'node:http'
import { isIPv6 } from 'node:net'
import { Problem } from '../problem.ts'

export interface Target {
  readonly path: string
  readonly query: URLSearchParams | undefined
}

const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)/i
/** A name or an IPv4 address, and an optional port (RFC 3986 §3.2.2, §3.2.3). The name may be empty. */
const NAME_AND_PORT = /^[\w.~!$&'()*+,;=%-]*(?::\d*)?$/
const BAD_ENCODING = /%(?![\dA-F]{2})/i
const LITERAL_AND_PORT = /^\[([^\]]+)\](?::\d*)?$/

/**
 * Checks that an HTTP/1.1 request names its host, and that no request names two. The host makes no difference here, but a
 * proxy may have routed the request by one that this service does not see.
 * @throws {Problem} 400 (RFC 9112 §3.2)
 */
export function checkHost(message: IncomingMessage): void {
  const { host } = message.headers
  if (host === undefined) {
    if (message.httpVersion === '1.0') return
    throw new Problem('bad-request', 'An HTTP/1.1 request must have a Host header.')
  }
  if (isRepeated(message, 'host')) throw new Problem('bad-request', 'The Host header is repeated. Send it once.')
  if (!isHost(host))
    throw new Problem('bad-request', 'The Host header must be a host name or an IP address, and an optional port.')
}

/**
 * Splits a target in origin form (`/path?query`) or in absolute form (`http://host/path?query`). In absolute form, the
 * authority replaces `Host` (RFC 9112 §3.2.2).
 * @throws {Problem} 400 for an absolute form without a valid authority.
 */
export function parseTarget(target: string): Target {
  const origin = target.startsWith('/') ? target : originForm(target)
  const mark = origin.indexOf('?')
  if (mark < 0) return { path: origin, query: undefined }
  return { path: origin.slice(0, mark), query: new URLSearchParams(origin.slice(mark + 1)) }
}

/** Reports whether a request repeats a header. Node silently keeps the first one, but a proxy may read the second. */
export function isRepeated({ rawHeaders }: IncomingMessage, name: string): boolean {
  let candidates = 0
  for (let at = 0; at < rawHeaders.length; at += 2) if (rawHeaders[at]?.length === name.length) candidates++
  // Usually only one name has that length, so no name needs to be converted to lower case.
  return candidates > 1 && countOf(rawHeaders, name) > 1
}

function countOf(rawHeaders: readonly string[], name: string): number {
  return rawHeaders.filter((text, at) => at % 2 === 0 && text.toLowerCase() === name).length
}

function originForm(target: string): string {
  const [start = '', authority] = ABSOLUTE_FORM.exec(target) ?? []
  if (authority === undefined) return target
  // An empty host is not valid in an http URI (RFC 9110 §4.2.1), and a user name in it is an attempt to deceive (§4.2.4).
  if (/^(?::|$)/.test(authority) || !isHost(authority))
    throw new Problem('bad-request', 'The target in absolute form must name a valid host, without a user name.')
  const rest = target.slice(start.length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

function isHost(text: string): boolean {
  if (text.startsWith('[')) return isIPv6(LITERAL_AND_PORT.exec(text)?.[1] ?? '')
  return NAME_AND_PORT.test(text) && !(text.includes('%') && BAD_ENCODING.test(text))
}
