import { createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { Algorithm } from '../../src/auth/issuer.ts'

/** Somebody who has a private key, and signs tokens with it. */
export class TestIssuer {
  readonly name: string
  readonly algorithm: Algorithm
  readonly privateKey: KeyObject
  /** The public key in PEM. */
  readonly publicKey: string

  constructor(name: string, algorithm: Algorithm = 'EdDSA', privateKey: KeyObject = newKey(algorithm)) {
    this.name = name
    this.algorithm = algorithm
    this.privateKey = privateKey
    this.publicKey = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }).toString()
  }

  /** The issuer's file, or the body of the request that puts it. */
  file(more: object = {}): string {
    return JSON.stringify({ publicKey: this.publicKey, roles: ['admin:rw', 'moderator:rw'], ...more })
  }

  /** A token that is valid for an hour from now on, for any device, unless `claims` and `header` say otherwise. */
  token(claims: object = {}, header: object = {}, now = Date.now()): string {
    const iat = Math.floor(now / 1000)
    return this.sign(
      JSON.stringify({ alg: this.algorithm, kid: this.name, ...header }),
      JSON.stringify({ roles: ['admin:rw'], iat, exp: iat + 3600, aud: '*', ...claims }),
    )
  }

  /** Any header and payload, validly signed. */
  sign(header: string, payload: string | Buffer): string {
    const input = `${Buffer.from(header).toString('base64url')}.${Buffer.from(payload).toString('base64url')}`
    const digest = this.algorithm === 'EdDSA' ? null : 'sha256'
    const signature = sign(digest, Buffer.from(input), { key: this.privateKey, dsaEncoding: 'ieee-p1363' })
    return `${input}.${signature.toString('base64url')}`
  }
}

function newKey(algorithm: Algorithm): KeyObject {
  const pair =
    algorithm === 'EdDSA' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return pair.privateKey
}
