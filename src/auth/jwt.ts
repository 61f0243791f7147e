/**
 * JSON Web Tokens as this device takes them: RFC 7515 compact form, HS256 alone, and a `roles` claim.
 *
 * Verifying says whether a token was made with the key. Whether it is valid *now* is `validity`, apart from it, because
 * a verified token is remembered and its times are checked at each use.
 */
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { isObject, type JsonObject, parseJson } from '../json.ts'
import { equalBytes } from './equal-bytes.ts'
import { type Grant, grantsOf } from './grants.ts'

/** Why a credential is refused. */
export type Refusal =
  | 'malformed'
  | 'bad signature'
  | 'unknown key'
  | 'too long'
  | 'expired'
  | 'not yet valid'
  | 'key replaced'
  | 'clock not set'

export interface Claims {
  readonly grants: ReadonlySet<Grant>
  /** NumericDate (RFC 7519 §2): seconds since 1970, fractions allowed. */
  readonly exp: number | undefined
  readonly nbf: number | undefined
  readonly sub: string | undefined
}

const SIGNATURE_BYTES = 32
const ascii = new TextEncoder()

/** The signing key of an API key: HMAC-SHA256 with the key `ServiceApiJwt` and the API key as the message, raw. */
export function signingKey(apiKey: string): Uint8Array {
  return hmac(sha256, ascii.encode('ServiceApiJwt'), ascii.encode(apiKey))
}

export class JwtVerifier {
  /** The HMAC with the key absorbed. Cloning it for each token saves two of four SHA-256 blocks. */
  readonly #keyed

  constructor(apiKey: string) {
    this.#keyed = hmac.create(sha256, signingKey(apiKey))
  }

  /** Checks form and signature, then what the token says. Nothing in it is believed, nor parsed, before the signature. */
  verify(token: string): Claims | Refusal {
    const afterHeader = token.indexOf('.')
    const afterPayload = token.indexOf('.', afterHeader + 1)
    if (afterHeader < 1 || afterPayload < 0) return 'malformed'
    const header = decodeBase64url(token.slice(0, afterHeader))
    const payload = decodeBase64url(token.slice(afterHeader + 1, afterPayload))
    const signature = decodeBase64url(token.slice(afterPayload + 1))
    if (!header || !payload || signature?.length !== SIGNATURE_BYTES) return 'malformed'

    const expected = this.#keyed
      .clone()
      .update(ascii.encode(token.slice(0, afterPayload)))
      .digest()
    if (!equalBytes(signature, expected)) return 'bad signature'

    return isOurHeader(parseObject(header)) ? (readClaims(parseObject(payload)) ?? 'malformed') : 'malformed'
  }
}

/**
 * Why claims do not hold at `now` (milliseconds since 1970), or undefined where they do. RFC 7519 §4.1.4: a token is
 * refused on and after its `exp`; §4.1.5: before its `nbf`.
 */
export function validity(claims: Pick<Claims, 'exp' | 'nbf'>, now: number, leewayS: number): Refusal | undefined {
  const seconds = now / 1000
  if (claims.exp !== undefined && seconds >= claims.exp + leewayS) return 'expired'
  if (claims.nbf !== undefined && seconds < claims.nbf - leewayS) return 'not yet valid'
  return undefined
}

/** Makes a token from the API key. `claims` are taken as they are: `roles`, `exp`, `sub`, … */
export function mint(apiKey: string, claims: Readonly<Record<string, unknown>>): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const input = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`
  const signature = hmac(sha256, signingKey(apiKey), ascii.encode(input))
  return `${input}.${Buffer.from(signature).toString('base64url')}`
}

/** Canonical base64url (RFC 7515 §2, RFC 4648 §3.5): one spelling for given bytes, so that a token has only one too. */
export function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url')
  return bytes.toString('base64url') === text ? bytes : undefined
}

/** RFC 7515 §4.1.1: `alg` as we demand it, never as the token offers it; §4.1.11: `crit` asks for what we do not have. */
function isOurHeader(header: JsonObject | undefined): boolean {
  return header !== undefined && header.alg === 'HS256' && !Object.hasOwn(header, 'crit')
}

function readClaims(claims: JsonObject | undefined): Claims | undefined {
  if (!claims || !Array.isArray(claims.roles)) return undefined
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

/** JSON's `1e999` becomes Infinity: a date that never comes would be a token that never expires. */
function isDateOrAbsent(value: unknown): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isFinite(value))
}

function parseObject(bytes: Uint8Array): JsonObject | undefined {
  try {
    const value = parseJson(bytes)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
