/**
 * JSON Web Tokens made from the API key: RFC 7515 compact form, HS256 only, with a `roles` claim.
 *
 * Verification shows whether a token was made with the key. Whether it is valid *now* is up to `validity`: verified tokens
 * are cached, and their times are checked on each use.
 */
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { isObject, type JsonObject, parseJson } from '../json.ts'
import { BYTES_32, SOME_BYTES } from './base64url.ts'
import type { Refusal } from './challenge.ts'
import { equalBytes } from './equal-bytes.ts'
import { type Grant, grantsOf } from './grants.ts'

export interface Claims {
  readonly grants: ReadonlySet<Grant>
  /** NumericDate (RFC 7519 §2): seconds since 1970, fractions allowed. */
  readonly exp: number | undefined
  readonly nbf: number | undefined
  readonly sub: string | undefined
}

/** The compact form (RFC 7515 §7.1), with a 32-byte signature. */
const COMPACT = new RegExp(`^${SOME_BYTES}\\.${SOME_BYTES}\\.${BYTES_32}$`)
const ascii = new TextEncoder()

/** Derives the signing key from an API key: raw HMAC-SHA256 with the key `ServiceApiJwt` and the API key as the message. */
export function signingKey(apiKey: string): Uint8Array {
  return hmac(sha256, ascii.encode('ServiceApiJwt'), ascii.encode(apiKey))
}

export class JwtVerifier {
  /** An HMAC that has absorbed the key, which saves two of four SHA-256 blocks per token. */
  readonly #keyed
  /** The header of the last valid token. Nearly all tokens have the same header. */
  #goodHeader: string | undefined

  constructor(apiKey: string) {
    this.#keyed = hmac.create(sha256, signingKey(apiKey))
  }

  /**
   * Checks the form and the signature, then the claims. Nothing in a token is trusted, or even parsed, before its signature.
   * @param token A text of bounded length, because all of it is hashed.
   */
  verify(token: string): Claims | Refusal {
    if (!COMPACT.test(token)) return 'malformed'
    const [header, payload, signature] = token.split('.') as [string, string, string]

    const expected = this.#keyed
      .clone()
      .update(ascii.encode(`${header}.${payload}`))
      .digest()
    if (!equalBytes(Buffer.from(signature, 'base64url'), expected)) return 'bad signature'

    if (header !== this.#goodHeader && !isOurHeader(parseObject(header))) return 'malformed'
    this.#goodHeader = header
    return readClaims(parseObject(payload)) ?? 'malformed'
  }
}

/**
 * Returns why claims are not valid at `now` (milliseconds since 1970); undefined if they are. A token is refused at and after
 * its `exp` (RFC 7519 §4.1.4), and before its `nbf` (§4.1.5).
 */
export function validity(
  { exp = Number.POSITIVE_INFINITY, nbf = Number.NEGATIVE_INFINITY }: Pick<Claims, 'exp' | 'nbf'>,
  now: number,
  leewayS: number,
): Refusal | undefined {
  const seconds = now / 1000
  if (seconds >= exp + leewayS) return 'expired'
  return seconds < nbf - leewayS ? 'not yet valid' : undefined
}

/** Makes a token from the API key. `claims` (`roles`, `exp`, `sub`, …) are used unchanged. */
export function mint(apiKey: string, claims: Readonly<Record<string, unknown>>): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const input = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`
  const signature = hmac(sha256, signingKey(apiKey), ascii.encode(input))
  return `${input}.${Buffer.from(signature).toString('base64url')}`
}

/** Requires a fixed `alg`, whatever the token offers (RFC 7515 §4.1.1), and no `crit` extension (§4.1.11). */
function isOurHeader(header: JsonObject): boolean {
  return header.alg === 'HS256' && !Object.hasOwn(header, 'crit')
}

/** Returns the claims that all tokens have; undefined if one of them is malformed. */
export function readClaims(claims: JsonObject): Claims | undefined {
  if (!Array.isArray(claims.roles)) return undefined
  const grants = new Set<Grant>()
  for (const entry of claims.roles) {
    const granted = grantsOf(entry)
    if (!granted) return undefined
    for (const grant of granted) grants.add(grant)
  }
  const { exp, nbf, sub } = claims
  if (!isDateOrAbsent(exp) || !isDateOrAbsent(nbf)) return undefined
  return { grants, exp, nbf, sub: typeof sub === 'string' ? sub : undefined }
}

/** Refuses Infinity, which JSON's `1e999` becomes: a token with such a date would never expire. */
export function isDateOrAbsent(value: unknown): value is number | undefined {
  return value === undefined || Number.isFinite(value)
}

/** Parses the JSON object in a part of a token. Anything else gives an empty one, which is neither a header nor claims. */
export function parseObject(base64url: string): JsonObject {
  try {
    const value = parseJson(Buffer.from(base64url, 'base64url'))
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}
