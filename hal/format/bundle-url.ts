/**
 * The address of a firmware bundle. Its query may be a secret, such as a signature or a token: it is masked wherever the
 * address is shown.
 */

/** RFC 9110 §4.1 recommends supporting at least 8,000; this is more than any signed link needs, and fits into a log line. */
export const MAX_URL = 2_048
/** Replaces a query. No address contains it, because URLs are in ASCII. */
const MASK = '?…'
/** The ASCII characters that RFC 3986 allows: neither spaces nor control characters, quotes, backslashes or braces. */
const CHARACTERS = /^[!#-;=?-[\]_a-z~]*$/

/** Why a text is not the address of a bundle, without a full stop; undefined if it is one. */
export function whyNoBundleUrl(text: string): string | undefined {
  if (text.length > MAX_URL) return `must not be longer than ${MAX_URL} characters`
  if (!CHARACTERS.test(text)) return 'must be a URL in ASCII; write other characters percent-encoded'
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:\/\/[^/?#]/i.test(text)) return 'must be a URL that begins with https:// or http://'
  if (/^[^/]*\/\/[^/?#]*@/.test(text)) return 'must not contain a user name or a password'
  if (text.includes('#')) return 'must not contain a fragment (#)'
  return undefined
}

/** The address with its query masked, so that it may be shown. */
export function masked(url: string): string {
  const at = url.indexOf('?')
  return at < 0 ? url : url.slice(0, at) + MASK
}

export function isMasked(url: string): boolean {
  return url.endsWith(MASK)
}
