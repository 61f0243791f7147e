/** Tokens that this device makes, on its command line and through its API. */
import { MAX_SUBJECT_LENGTH } from '../limits.ts'
import { mint } from './jwt.ts'

export interface TokenRequest {
  /** Roles without duplicates: a long list must not make a token that exceeds the limit of the service. */
  readonly roles: readonly string[]
  readonly expiresInMs: number | undefined
  readonly subject: string | undefined
}

/** Matches a subject. The length is in code points, and control characters are excluded, because the log quotes it. */
export const SUBJECT = `^\\P{Cc}{1,${MAX_SUBJECT_LENGTH}}$`

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Parses a duration such as `90s`, `15m`, `8h` or `30d` into milliseconds; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,9})([smhd])$/.exec(text)
  return match ? Number(match[1]) * UNITS_MS[match[2] as keyof typeof UNITS_MS] : undefined
}

/**
 * Makes a token from the API key.
 * @param now Milliseconds since 1970.
 * @returns the token and its expiry, in seconds since 1970; undefined if it does not expire.
 */
export function issueToken(
  apiKey: string,
  { roles, expiresInMs, subject }: TokenRequest,
  now: number,
): { readonly token: string; readonly exp: number | undefined } {
  const iat = Math.floor(now / 1000)
  const exp = expiresInMs === undefined ? undefined : iat + expiresInMs / 1000
  return { token: mint(apiKey, { roles, iat, exp, sub: subject }), exp }
}
