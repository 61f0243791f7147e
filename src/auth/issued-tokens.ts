/**
 * Tokens that issuers sign: RFC 7515 compact form with EdDSA (RFC 8037) or ES256 (RFC 7518 §3.4), both with signatures of
 * 64 bytes. Those of HS256 have 32: by its length alone, no token is ever tried as both, and the public key of an issuer
 * is never the key of an HMAC.
 */
import { verify } from 'node:crypto'
import type { JsonObject } from '../json.ts'
import { MAX_CLOCK_AHEAD_S } from '../limits.ts'
import { ANY_BYTES, BYTES_64 } from './base64url.ts'
import type { Refusal } from './challenge.ts'
import type { Grant } from './grants.ts'
import { ALGORITHMS, type Issuer } from './issuer.ts'
import { type Claims, parseObject, readClaims, validity } from './jwt.ts'
import { Verifications } from './verifications.ts'

/** By what a token may name this device. An empty value matches nothing. */
export interface DeviceNames {
  readonly serial: string | undefined
  readonly hostname: string | undefined
  readonly groups: readonly string[]
}

/** The part of a verified token that is compared with its issuer and with the device at each use. */
export interface Issued {
  /** As it was when the token was verified. */
  readonly issuer: Issuer
  readonly iat: number
  readonly exp: number
  /** Undefined if it has none. */
  readonly aud: readonly string[] | undefined
}

export interface IssuedClaims extends Claims {
  readonly issued: Issued
}

export interface IssuedTokensOptions {
  /** The issuer of a name that is in force; undefined if there is none. */
  readonly issuer: (name: string) => Issuer | undefined
  readonly device: () => DeviceNames
}

const COMPACT = new RegExp(`^(${ANY_BYTES})\\.(${ANY_BYTES})\\.(${BYTES_64})$`)
/** Characters of a signature of 64 bytes. */
const SIGNATURE_LENGTH = 86
/** ES256 signs with SHA-256; with EdDSA the hash is a part of the algorithm. */
const DIGEST = { EdDSA: null, ES256: 'sha256' } as const
const WRITING: readonly Grant[] = ['admin:w', 'moderator:w']

export class IssuedTokens {
  readonly #options: IssuedTokensOptions
  readonly #verifications = new Verifications()
  /** Tokens that are being verified: a client that sends a new one in many requests at once has it verified once. */
  readonly #inFlight = new Map<string, Promise<IssuedClaims | Refusal>>()

  constructor(options: IssuedTokensOptions) {
    this.#options = options
  }

  /**
   * Checks form and signature, then the claims. Of the header, which selects the key, nothing is believed before that; and
   * no key is ever taken from it.
   * @param token Of bounded length.
   * @param network What the client is counted by.
   * @throws {Problem} 503 if too many signatures are waiting.
   */
  verify(token: string, network: string): Promise<IssuedClaims | Refusal> | Refusal {
    const inFlight = this.#inFlight.get(token)
    if (inFlight) return inFlight
    const [, header, payload, signature] = COMPACT.exec(token) ?? []
    if (!header || !payload || !signature) return 'malformed'
    const issuer = this.#issuerFor(parseObject(header))
    if (typeof issuer === 'string') return issuer

    const input = Buffer.from(`${header}.${payload}`)
    const verifying = this.#verifications
      .run(network, () => verifySignature(issuer, input, Buffer.from(signature, 'base64url')))
      .then(isGood => (isGood ? claimsOf(parseObject(payload), issuer) : 'bad signature'))
      .finally(() => this.#inFlight.delete(token))
    this.#inFlight.set(token, verifying)
    return verifying
  }

  /** Why a token that was verified does not hold at `now` (milliseconds since 1970); undefined while it does. */
  refusalNow(issued: Issued, claims: Claims, now: number): Refusal | undefined {
    const { issuer, iat, exp, aud } = issued
    const present = this.#options.issuer(issuer.name)
    if (!present) return 'issuer removed'
    if (present !== issuer && (present.keyId !== issuer.keyId || whyNot(present, claims, exp - iat) !== undefined))
      return 'issuer changed'
    if (iat > now / 1000 + MAX_CLOCK_AHEAD_S) return 'not yet valid'
    return validity(claims, now, 0) ?? (this.#isFor(aud, claims.grants) ? undefined : 'not for this device')
  }

  /** @returns why there is none, as text. */
  #issuerFor(header: JsonObject | undefined): Issuer | Refusal {
    if (!header || Object.hasOwn(header, 'crit')) return 'malformed'
    const { alg, kid } = header
    if (!ALGORITHMS.some(name => name === alg) || typeof kid !== 'string') return 'malformed'
    const issuer = this.#options.issuer(kid)
    if (!issuer) return 'unknown issuer'
    // The algorithm is the key's; the token may only agree.
    return issuer.algorithm === alg ? issuer : 'malformed'
  }

  /** A token that is shown to many devices must not be good for writing to the others, so it says which ones it is for. */
  #isFor(aud: readonly string[] | undefined, grants: ReadonlySet<Grant>): boolean {
    if (!aud) return !WRITING.some(grant => grants.has(grant))
    const { serial, hostname, groups } = this.#options.device()
    const names = new Set(['*', ...groups.filter(group => group !== '').map(group => `group:${group}`)])
    if (serial) names.add(`serial:${serial}`)
    if (hostname) names.add(`host:${hostname}`)
    return aud.some(entry => names.has(entry))
  }
}

/** Whether a text may be a token of an issuer, as opposed to one that is made from the API key: told by its end alone. */
export function hasLongSignature(text: string): boolean {
  const dot = text.lastIndexOf('.')
  return dot > 0 && text.length - dot - 1 === SIGNATURE_LENGTH
}

/** Verifies a signature in a thread of Node's pool. An ES256 signature is r and s, 32 bytes each (RFC 7518 §3.4). */
export function verifySignature(
  { key, algorithm }: Pick<Issuer, 'key' | 'algorithm'>,
  input: Uint8Array,
  signature: Uint8Array,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    verify(DIGEST[algorithm], input, { key, dsaEncoding: 'ieee-p1363' }, signature, (error, isGood) =>
      error ? reject(error) : resolve(isGood),
    )
  })
}

function claimsOf(object: JsonObject | undefined, issuer: Issuer): IssuedClaims | Refusal {
  const claims = readClaims(object)
  if (!object || !claims) return 'malformed'
  const { iat } = object
  const { exp } = claims
  const aud = audienceOf(object)
  if (typeof iat !== 'number' || !Number.isFinite(iat) || exp === undefined || exp <= iat || aud === 'malformed')
    return 'malformed'
  return whyNot(issuer, claims, exp - iat) ?? { ...claims, issued: { issuer, iat, exp, aud } }
}

/** Why an issuer may not make such a token; undefined if it may. */
function whyNot({ grants, maxAgeS }: Issuer, claims: Claims, ageS: number): Refusal | undefined {
  for (const grant of claims.grants) if (!grants.has(grant)) return 'roles exceed those of the issuer'
  return ageS > maxAgeS ? 'lifetime exceeds that of the issuer' : undefined
}

/** RFC 7519 §4.1.3: one string, or a list of them. */
function audienceOf({ aud }: JsonObject): readonly string[] | undefined | 'malformed' {
  if (aud === undefined) return undefined
  const entries = typeof aud === 'string' ? [aud] : aud
  return Array.isArray(entries) && entries.every(entry => typeof entry === 'string') ? entries : 'malformed'
}
