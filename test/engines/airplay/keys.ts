import { createHash, createPublicKey, type KeyObject } from 'node:crypto'

/** The prefix of a raw 32-byte key in SubjectPublicKeyInfo (RFC 8410 §4). */
const PREFIX = { x25519: '302a300506032b656e032100', ed25519: '302a300506032b6570032100' }

export function rawKey(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'spki' }).subarray(-32)
}

export function publicKey(algorithm: keyof typeof PREFIX, raw: Buffer): KeyObject {
  const key = Buffer.concat([Buffer.from(PREFIX[algorithm], 'hex'), raw])
  return createPublicKey({ key, format: 'der', type: 'spki' })
}

export function sha(algorithm: 'sha1' | 'sha512', ...parts: readonly (Buffer | string)[]): Buffer {
  const hash = createHash(algorithm)
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** AirPlay's key derivation, for AES-128 keys and initialization vectors: a truncated hash of a label and a secret. */
export function derive(label: string, secret: Buffer): Buffer {
  return sha('sha512', label, secret).subarray(0, 16)
}
