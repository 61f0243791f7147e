/**
 * Tokens that issuers sign: RFC 7515 compact form with EdDSA (RFC 8037) or ES256 (RFC 7518 §3.4), both with signatures of
 * 64 bytes. HS256 signatures have 32 bytes. The length alone decides, so no token is ever tried as both, and the public key
 * of an issuer is never used as an HMAC key.
 */
import { verify } from 'node:crypto'
import type { JsonObject } from '../json.ts'
import { MAX_CLOCK_AHEAD_S } from '../limits.ts'
import { BYTES_64, SOME_BYTES } from './base64url.ts'
import type { Refusal } from './challenge.ts'
import type { Grant } from './grants.ts'
import { ALGORITHMS, type Issuer } from './issuer.ts'
import { type Claims, isDateOrAbsent, parseObject, readClaims, validity } from './jwt.ts'
import { Verifications } from './verifications.ts'

/** The names by which a token can refer to this device. An empty value matches nothing. */
export interface DeviceNames {
  readonly serial: string | undefined
  readonly hostname: string | undefined
  readonly groups: readonly string[]
}

/** The part of a verified token that is compared with its issuer and with the device on each use. */
export interface Issued {
  /** The issuer at the time of verification. */
  readonly issuer: Issuer
  readonly iat: number
  readonly exp: number
  /** Undefined if the token has no `aud`. */
  readonly aud: readonly string[] | undefined
}

export interface IssuedClaims extends Claims {
  readonly issued: Issued
}

export interface IssuedTokensOptions {
  /** Returns the issuer in force with a name; undefined if there is none. */
  readonly issuer: (name: string) => Issuer | undefined
  readonly device: () => DeviceNames
}

const COMPACT = new RegExp(`^${SOME_BYTES}\\.${SOME_BYTES}\\.${BYTES_64}$`)
/** Length of a 64-byte signature in base64url. */
const SIGNATURE_LENGTH = 86
/** ES256 signs with SHA-256; for EdDSA, the hash is part of the algorithm. */
const DIGEST = { EdDSA: null, ES256: 'sha256' } as const
const WRITING: readonly Grant[] = ['admin:w', 'moderator:w']

export class IssuedTokens {
  readonly #options: IssuedTokensOptions
  readonly #verifications = new Verifications()
  /** Verifications in progress: a new token that arrives in many concurrent requests is verified only once. */
  readonly #inFlight = new Map<string, Promise<IssuedClaims | Refusal>>()

  constructor(options: IssuedTokensOptions) {
    this.#options = options
  }

  /**
   * Checks the form and the signature, then the claims. The header only selects the key; nothing else in it is trusted before
   * the signature is verified, and no key is ever taken from it.
   * @param token A text of bounded length.
   * @param network The network under which the client is counted.
   * @throws {Problem} 503 if too many signatures wait to be verified.
   */
  verify(token: string, network: string): Promise<IssuedClaims | Refusal> | Refusal {
    const inFlight = this.#inFlight.get(token)
    if (inFlight) return inFlight
    if (!COMPACT.test(token)) return 'malformed'
    const [header, payload, signature] = token.split('.') as [string, string, string]
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

  /** Returns why a verified token is not valid at `now` (milliseconds since 1970); undefined while it is. */
  refusalNow(issued: Issued, claims: Claims, now: number): Refusal | undefined {
    const { issuer, iat, exp, aud } = issued
    const present = this.#options.issuer(issuer.name)
    if (!present) return 'issuer removed'
    if (present.keyId !== issuer.keyId || whyNot(present, claims, exp - iat) !== undefined) return 'issuer changed'
    if (iat > now / 1000 + MAX_CLOCK_AHEAD_S) return 'not yet valid'
    return validity(claims, now, 0) ?? (this.#isFor(aud, claims.grants) ? undefined : 'not for this device')
  }

  /** @returns the issuer that signed the token, or the reason for refusing it. */
  #issuerFor(header: JsonObject): Issuer | Refusal {
    if (Object.hasOwn(header, 'crit')) return 'malformed'
    const { alg, kid } = header
    if (!ALGORITHMS.some(name => name === alg) || typeof kid !== 'string') return 'malformed'
    const issuer = this.#options.issuer(kid)
    if (!issuer) return 'unknown issuer'
    // The key determines the algorithm; the token may only agree.
    return issuer.algorithm === alg ? issuer : 'malformed'
  }

  /** Reports whether the token is for this device. A device could replay it to others, so one that can write must name them. */
  #isFor(aud: readonly string[] | undefined, grants: ReadonlySet<Grant>): boolean {
    if (!aud) return !WRITING.some(grant => grants.has(grant))
    const { serial, hostname, groups } = this.#options.device()
    const names = new Set(['*', ...groups.filter(group => group !== '').map(group => `group:${group}`)])
    if (serial) names.add(`serial:${serial}`)
    if (hostname) names.add(`host:${hostname}`)
    return aud.some(entry => names.has(entry))
  }
}

/** Reports whether a text may be a token of an issuer, rather than one made from the API key, by the length of its signature. */
export function hasLongSignature(text: string): boolean {
  return text.length > SIGNATURE_LENGTH && text.lastIndexOf('.') === text.length - SIGNATURE_LENGTH - 1
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

function claimsOf(object: JsonObject, issuer: Issuer): IssuedClaims | Refusal {
  const claims = readClaims(object)
  if (!claims) return 'malformed'
  const { iat } = object
  const { exp } = claims
  const aud = audienceOf(object)
  if (iat === undefined || !isDateOrAbsent(iat) || exp === undefined || exp <= iat || aud === 'malformed')
    return 'malformed'
  return whyNot(issuer, claims, exp - iat) ?? { ...claims, issued: { issuer, iat, exp, aud } }
}

/** Returns why an issuer may not make such a token; undefined if it may. */
function whyNot({ grants, maxAgeS }: Issuer, claims: Claims, ageS: number): Refusal | undefined {
  for (const grant of claims.grants) if (!grants.has(grant)) return 'roles exceed those of the issuer'
  return ageS > maxAgeS ? 'lifetime exceeds that of the issuer' : undefined
}

/** Parses `aud`: one string, or a list of them (RFC 7519 §4.1.3). */
function audienceOf({ aud }: JsonObject): readonly string[] | undefined | 'malformed' {
  if (aud === undefined) return undefined
  const entries = typeof aud === 'string' ? [aud] : aud
  return Array.isArray(entries) && entries.every(entry => typeof entry === 'string') ? entries : 'malformed'
}
