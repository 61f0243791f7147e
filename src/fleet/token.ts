import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import { grantsOf } from '../auth/grants.ts'
import { algorithmOf } from '../auth/issuer.ts'
import type { TokenRequest } from '../auth/token.ts'
import { UsageError } from '../usage-error.ts'

export interface IssuedTokenRequest extends TokenRequest {
  readonly expiresInMs: number
  /** The name under which the devices know the issuer: `NAME.json` in their `/etc/receiverd/issuers`. */
  readonly issuer: string
  /** For which devices: `serial:S`, `host:H`, `group:G` or `*`. */
  readonly audience: readonly string[]
}

export const AUDIENCE = /^(?:\*|(?:serial|host|group):\S+)$/

/**
 * Makes a token that many devices accept: a JWT with EdDSA (RFC 8037) or ES256 (RFC 7518 section 3.4).
 * @param pem The issuer's private key: Ed25519, or P-256.
 * @param now Milliseconds since 1970.
 * @throws {UsageError} for another kind of key, or for a token that may write but names no audience.
 */
export function issueFleetToken(pem: string, request: IssuedTokenRequest, now: number): string {
  const { issuer, audience, roles, subject, expiresInMs } = request
  const writes = roles.some(role => [...(grantsOf(role) ?? [])].some(grant => grant.endsWith(':w')))
  if (writes && audience.length === 0)
    throw new UsageError('--audience: a token that may write needs one, such as group:lobby; * is every device')
  const key = privateKey(pem)
  const alg = algorithmOf(key)
  if (!alg)
    throw new UsageError(
      '--issuer-key: the key is neither Ed25519 nor P-256; make one: openssl genpkey -algorithm ed25519',
    )
  const iat = Math.floor(now / 1000)
  const claims = {
    iat,
    exp: iat + Math.floor(expiresInMs / 1000),
    roles,
    ...(audience.length > 0 && { aud: audience }),
    ...(subject !== undefined && { sub: subject }),
  }
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const input = `${encode({ alg, typ: 'JWT', kid: issuer })}.${encode(claims)}`
  const signature =
    alg === 'EdDSA'
      ? sign(null, Buffer.from(input), key)
      : sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' })
  return `${input}.${signature.toString('base64url')}`
}

function privateKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch {
    throw new UsageError('--issuer-key: the file has no private key in PEM without a passphrase')
  }
}
