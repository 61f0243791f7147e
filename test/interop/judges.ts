/** Two libraries of JSON Web Tokens, as judges of ours: whether each accepts a token at a time, in seconds since 1970. */
import type { KeyObject } from 'node:crypto'
import * as jose from 'jose'
import jsonwebtoken from 'jsonwebtoken'

type Algorithm = 'HS256' | 'EdDSA' | 'ES256'
type Key = KeyObject | Uint8Array

export function byJose(token: string, key: Key, algorithm: Algorithm, nowS: number): Promise<boolean> {
  const options = { algorithms: [algorithm], currentDate: new Date(nowS * 1000) }
  return accepted(() => jose.jwtVerify(token, key, options))
}

/** Undefined for EdDSA, which it does not know. */
export async function byJsonwebtoken(
  token: string,
  key: Key,
  algorithm: Algorithm,
  nowS: number,
): Promise<boolean | undefined> {
  if (algorithm === 'EdDSA') return undefined
  const secret = key instanceof Uint8Array ? Buffer.from(key) : key.export({ format: 'pem', type: 'spki' })
  return accepted(() => jsonwebtoken.verify(token, secret, { algorithms: [algorithm], clockTimestamp: nowS }))
}

async function accepted(verify: () => unknown): Promise<boolean> {
  try {
    await verify()
    return true
  } catch {
    return false
  }
}
