/**
 * JSON Web Tokens made from the API key: RFC 7515 compact form, HS256 only, with a `roles` claim.
 *
 * Verification shows whether a token was made with the key. Whether it is valid *now* is up to `validity`: verified tokens
 * are cached, and their times are checked on each use.
 */
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { isObject, type JsonObject, parseJson } from '../json.ts'
import { ANY_BYTES, BYTES_32 } from './base64url.ts'
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

const NO_GRANTS: ReadonlySet<Grant> = new Set()
/** The compact form (RFC 7515 §7.1), with a 32-byte signature. */
const COMPACT = new RegExp(`^(${ANY_BYTES})\\.(${ANY_BYTES})\\.(${BYTES_32})$`)
const ascii = new TextEncoder()

/** Derives the signing key from an API key: raw HMAC-SHA256 with the key `ServiceApiJwt` and the API key as the message. */
export function signingKey(apiKey: string): Uint8Array {
  return hmac(sha256, ascii.encode('ServiceApiJwt'), ascii.encode(apiKey))
}

export class JwtVerifier {
  /** An HMAC that has absorbed the key, which saves two of four SHA-256 blocks per token. */
  readonly #keyed
  /** The header of the last valid token. Nearly all tokens have the same header. */
  #goodHeader = ''

  constructor(apiKey: string) {
    this.#keyed = hmac.create(sha256, signingKey(apiKey))
  }

  /**
   * Checks the form and the signature, then the claims. Nothing in a token is trusted, or even parsed, before its signature.
   * @param token A text of bounded length, because all of it is hashed.
   */
  verify(token: string): Claims | Refusal {
    const [, header, payload, signature] = COMPACT.exec(token) ?? []
    if (!header || !payload || !signature) return 'malformed'

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
export function validity(claims: Pick<Claims, 'exp' | 'nbf'>, now: number, leewayS: number): Refusal | undefined {
  const seconds = now / 1000
  if (claims.exp !== undefined && seconds >= claims.exp + leewayS) return 'expired'
  if (claims.nbf !== undefined && seconds < claims.nbf - leewayS) return 'not yet valid'
  return undefined
}

/** Makes a token from the API key. `claims` (`roles`, `exp`, `sub`, …) are used unchanged. */
export function mint(apiKey: string, claims: Readonly<Record<string, unknown>>): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const input = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`
  const signature = hmac(sha256, signingKey(apiKey), ascii.encode(input))
  return `${input}.${Buffer.from(signature).toString('base64url')}`
}

/** Requires a fixed `alg`, whatever the token offers (RFC 7515 §4.1.1), and no `crit` extension (§4.1.11). */
function isOurHeader(header: JsonObject | undefined): boolean {
  return header !== undefined && header.alg === 'HS256' && !Object.hasOwn(header, 'crit')
}

/** Returns the claims that all tokens have; undefined if one of them is malformed. */
export function readClaims(claims: JsonObject | undefined): Claims | undefined {
  if (!claims || !Array.isArray(claims.roles)) return undefined
  let grants: ReadonlySet<Grant> = NO_GRANTS
  for (const entry of claims.roles) {
    const granted = grantsOf(entry)
    if (!granted) return undefined
    grants = grants.size === 0 ? granted : new Set([...grants, ...granted])
  }
  const { exp, nbf, sub } = claims
  if (!isDateOrAbsent(exp) || !isDateOrAbsent(nbf)) return undefined
  return { grants, exp, nbf, sub: typeof sub === 'string' ? sub : undefined }
}

/** Refuses Infinity, which JSON's `1e999` becomes: a token with such a date would never expire. */
function isDateOrAbsent(value: unknown): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isFinite(value))
}

/** Parses the JSON object in a part of a token; undefined if it is none. */
export function parseObject(base64url: string): JsonObject | undefined {
  try {
    const value = parseJson(Buffer.from(base64url, 'base64url'))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
