/**
 * JSON Web Tokens as this device takes them: RFC 7515 compact form, HS256 alone, and a `roles` claim.
 *
 * Verifying says whether a token was made with the key. Whether it is valid *now* is `validity`, apart from it, because
 * a verified token is remembered and its times are checked at each use.
 */
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { isObject, type JsonObject, parseJson } from '../json.ts'
import { MAX_TOKEN_LENGTH } from '../limits.ts'
import { ANY_BYTES, BYTES_32 } from './base64url.ts'
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
const NO_GRANTS: ReadonlySet<Grant> = new Set()
/** The compact form (RFC 7515 §7.1), with a signature of 32 bytes. */
const COMPACT = new RegExp(`^(${ANY_BYTES})\\.(${ANY_BYTES})\\.(${BYTES_32})$`)
const ascii = new TextEncoder()

/** The signing key of an API key: HMAC-SHA256 with the key `ServiceApiJwt` and the API key as the message, raw. */
export function signingKey(apiKey: string): Uint8Array {
  return hmac(sha256, ascii.encode('ServiceApiJwt'), ascii.encode(apiKey))
}

export class JwtVerifier {
  /** The HMAC with the key absorbed: two of four SHA-256 blocks that no token pays for. */
  readonly #keyed
  /** Its copy for a token, the same for all of them: to make one anew takes as long as two blocks. */
  #copy
  readonly #text = Buffer.alloc(MAX_TOKEN_LENGTH)
  readonly #expected = new Uint8Array(SIGNATURE_BYTES)
  /** The header of the last good token. It says nothing of its own, and nearly all have the same. */
  #goodHeader = ''

  constructor(apiKey: string) {
    this.#keyed = hmac.create(sha256, signingKey(apiKey))
    this.#copy = this.#keyed.clone()
  }

  /**
   * Checks form and signature, then what the token says. Nothing in it is believed, nor parsed, before the signature.
   * @param token At most `MAX_TOKEN_LENGTH` characters.
   */
  verify(token: string): Claims | Refusal {
    const [, header, payload, signature] = COMPACT.exec(token) ?? []
    if (!header || !payload || !signature) return 'malformed'

    this.#copy = this.#keyed._cloneInto(this.#copy)
    this.#text.write(token, 'latin1')
    const signed = this.#text.subarray(0, token.length - signature.length - 1)
    this.#copy.update(signed).digestInto(this.#expected)
    if (!equalBytes(Buffer.from(signature, 'base64url'), this.#expected)) return 'bad signature'

    if (header !== this.#goodHeader && !isOurHeader(parseObject(header))) return 'malformed'
    this.#goodHeader = header
    return readClaims(parseObject(payload)) ?? 'malformed'
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

/** RFC 7515 §4.1.1: `alg` as we demand it, never as the token offers it; §4.1.11: `crit` asks for what we do not have. */
function isOurHeader(header: JsonObject | undefined): boolean {
  return header !== undefined && header.alg === 'HS256' && !Object.hasOwn(header, 'crit')
}

function readClaims(claims: JsonObject | undefined): Claims | undefined {
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

/** JSON's `1e999` becomes Infinity: a date that never comes would be a token that never expires. */
function isDateOrAbsent(value: unknown): value is number | undefined {
  return value === undefined || (typeof value === 'number' && Number.isFinite(value))
}

function parseObject(base64url: string): JsonObject | undefined {
  try {
    const value = parseJson(Buffer.from(base64url, 'base64url'))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
