/** Finds the credential in a request: `Authorization` (RFC 6750 §2.1, RFC 7617) or the query's `apiKey`. */
import type { IncomingMessage } from 'node:http'
import { Problem } from '../problem.ts'

/**
 * What a request presents, as texts to try in turn; none where it presents nothing.
 *
 * A `Basic` credential is the key itself here, or the usual base64 of `user:key`. The key itself comes first: one key
 * in eight is also base64 with a colon inside.
 *
 * @throws {Problem} 400 where two credentials contradict each other: which one counts must not depend on who reads.
 */
export function presentedCredential(request: IncomingMessage, query: URLSearchParams | undefined): readonly string[] {
  const fromHeader = readHeader(request)
  const [fromQuery, ...more] = query?.getAll('apiKey') ?? []
  if (more.length > 0) throw new Problem('bad-request', 'apiKey stands more than once in the query; send it once.')
  if (fromQuery === undefined) return fromHeader ?? []
  if (fromHeader === undefined) return [fromQuery]
  if (!fromHeader.includes(fromQuery))
    throw new Problem('bad-request', 'Authorization and apiKey hold different credentials; send one of them.')
  return [fromQuery]
}

function readHeader(request: IncomingMessage): readonly string[] | undefined {
  const header = request.headers.authorization
  if (header === undefined) return undefined
  refuseSecond(request.rawHeaders)
  if (header === '') return undefined
  const space = header.indexOf(' ')
  const scheme = (space < 0 ? header : header.slice(0, space)).toLowerCase()
  const credential = space < 0 ? '' : header.slice(space + 1).trim()
  if (scheme === 'bearer') return [credential]
  if (scheme === 'basic') return basicReadings(credential)
  // Not a credential of ours in any reading: refused as malformed rather than taken for none.
  return ['']
}

function basicReadings(credential: string): readonly string[] {
  const decoded = Buffer.from(credential, 'base64').toString()
  const colon = decoded.indexOf(':')
  return colon < 0 ? [credential] : [credential, decoded.slice(colon + 1)]
}

/** Node keeps the first of two `Authorization` headers in silence; a proxy may have read the second. */
function refuseSecond(rawHeaders: readonly string[]): void {
  let seen = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 13 && name.toLowerCase() === 'authorization') seen++
  }
  if (seen > 1) throw new Problem('bad-request', 'Authorization stands more than once; send it once.')
}
