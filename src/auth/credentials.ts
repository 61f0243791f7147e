/** The credential of a request: in `Authorization` (RFC 6750 §2.1, RFC 7617), or in the query's `apiKey`. */
import { Problem } from '../problem.ts'
import { RefusedCredential } from './challenge.ts'

const NONE: readonly string[] = []
/** Base64 in either alphabet, with or without padding. Node's decoder skips all other characters. */
const BASE64 = /^[+/\w-]+={0,2}$/
const NO_SCHEME = 'Authorization has no scheme in front of the credential. Send Authorization: Bearer CREDENTIAL.'
const OTHER_SCHEME =
  'Authorization has a scheme that is not supported. Send Authorization: Bearer CREDENTIAL, or Basic with the credential as ' +
  'the password.'
const SPACE = 0x20
const TAB = 0x09

/**
 * Returns the credential of a request, as texts to try in order; none if it has no credential.
 *
 * A `Basic` credential here is either the key itself, or the usual base64 of `user:key`. The key itself comes first: one key
 * in eight is also base64 with a colon inside.
 *
 * @param authorization The value of the only `Authorization` header.
 * @param apiKeys The values of `apiKey` in the query.
 * @throws {Problem} 400 for two different credentials, because which one counts must not depend on the reader. 401 for a
 * header that has no credential under either interpretation.
 */
export function presentedCredential(
  authorization: string | undefined,
  apiKeys: readonly string[] = NONE,
): readonly string[] {
  const fromHeader = authorization ? readHeader(authorization) : undefined
  const fromQuery = apiKeys[0]
  if (apiKeys.length > 1) throw new Problem('bad-request', 'The query repeats apiKey. Send it once.')
  if (fromQuery === undefined) {
    if (fromHeader instanceof RefusedCredential) throw fromHeader
    return fromHeader ?? NONE
  }
  if (fromHeader === undefined) return apiKeys
  if (fromHeader instanceof RefusedCredential || !fromHeader.includes(fromQuery))
    throw new Problem('bad-request', 'Authorization and apiKey hold different credentials. Send one of them.')
  return apiKeys
}

function readHeader(header: string): readonly string[] | RefusedCredential {
  const end = header.indexOf(' ')
  const scheme = end < 0 ? header : header.slice(0, end)
  // Empty if the header is only a scheme: valid in form, but refused as a credential.
  const credential = header.slice(skipSpace(header, scheme.length))
  switch (scheme.toLowerCase()) {
    case 'bearer':
      return [credential]
    case 'basic':
      return readBasic(credential)
    default:
      // The detail does not quote the header: the text in place of the scheme may be the key.
      return new RefusedCredential('malformed', scheme === header ? NO_SCHEME : OTHER_SCHEME)
  }
}

/** Skips only HTTP whitespace (RFC 9110 §5.6.3). Other space that `trim` removes makes the credential invalid. */
function skipSpace(header: string, at: number): number {
  let end = at
  while (header.charCodeAt(end) === SPACE || header.charCodeAt(end) === TAB) end++
  return end
}

function readBasic(credential: string): readonly string[] {
  if (!BASE64.test(credential)) return [credential]
  const decoded = Buffer.from(credential, 'base64').toString()
  const colon = decoded.indexOf(':')
  return colon < 0 ? [credential] : [credential, decoded.slice(colon + 1)]
}
