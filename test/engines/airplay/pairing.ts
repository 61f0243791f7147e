/** AirPlay pairing: device and receiver authenticate and agree on a secret, with or without a PIN. */
import { createCipheriv, diffieHellman, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { derive, publicKey, rawKey, sha } from './keys.ts'
import { decodeDictionary, encodePlist } from './plist.ts'
import { OCTETS, type RtspConnection } from './rtsp.ts'
import { proveSrp } from './srp.ts'

/** The Ed25519 key by which a receiver recognizes a paired device. */
export interface Identity {
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

export interface Verified {
  /** From X25519, 32 bytes. Undefined if the receiver refused. */
  readonly secret: Buffer | undefined
  /** Whether the receiver signed with the key from pair-setup. Undefined without pair-setup. */
  readonly isSignatureGood: boolean | undefined
  readonly status: number
}

/** Exchanges public keys. Returns the receiver's. */
export async function pairSetup(rtsp: RtspConnection, identity: Identity): Promise<KeyObject> {
  const { body } = await rtsp.request('POST', '/pair-setup', rawKey(identity.publicKey), OCTETS)
  return publicKey('ed25519', body)
}

/** Proves knowledge of the PIN with SRP, then sends the public key under AES-GCM. Returns the last answer's status. */
export async function pairSetupPin(
  rtsp: RtspConnection,
  identity: Identity,
  user: string,
  read: string | (() => Promise<string>),
) {
  const post = (body: Buffer) => rtsp.request('POST', '/pair-setup-pin', body)
  await rtsp.request('POST', '/pair-pin-start')
  const pin = typeof read === 'string' ? read : await read()
  const begun = await post(encodePlist({ method: 'pin', user }))
  if (begun.status !== 200) return begun.status
  const { salt, pk } = decodeDictionary(begun.body)
  if (!Buffer.isBuffer(salt) || !Buffer.isBuffer(pk)) throw new Error('/pair-setup-pin gave no salt or key')
  const { publicKey: own, proof, sessionKey } = proveSrp(user, pin, salt, pk)
  const proven = await post(encodePlist({ pk: own, proof }))
  if (proven.status !== 200) return proven.status

  const iv = sha('sha512', 'Pair-Setup-AES-IV', sessionKey).subarray(0, 16)
  // AirPlay increments the derived value once before use.
  iv.writeUInt8((iv.readUInt8(15) + 1) & 0xff, 15)
  const cipher = createCipheriv('aes-128-gcm', derive('Pair-Setup-AES-Key', sessionKey), iv)
  const epk = Buffer.concat([cipher.update(rawKey(identity.publicKey)), cipher.final()])
  return (await post(encodePlist({ epk, authTag: cipher.getAuthTag() }))).status
}

/** Agrees on a secret. Each side signs both public keys, under AES-CTR. */
export async function pairVerify(rtsp: RtspConnection, identity: Identity, receiverKey?: KeyObject): Promise<Verified> {
  const own = generateKeyPairSync('x25519')
  const ownRaw = rawKey(own.publicKey)
  const hello = Buffer.concat([Buffer.from([1, 0, 0, 0]), ownRaw, rawKey(identity.publicKey)])
  const { status, body } = await rtsp.request('POST', '/pair-verify', hello, OCTETS)
  // The receiver's key and a 64-byte signature.
  if (body.length !== 96) return { secret: undefined, isSignatureGood: undefined, status }
  const theirRaw = body.subarray(0, 32)
  const secret = diffieHellman({ privateKey: own.privateKey, publicKey: publicKey('x25519', theirRaw) })
  const key = derive('Pair-Verify-AES-Key', secret)
  const cipher = createCipheriv('aes-128-ctr', key, derive('Pair-Verify-AES-IV', secret))
  const signature = cipher.update(body.subarray(32))
  const isSignatureGood = receiverKey && verify(null, Buffer.concat([theirRaw, ownRaw]), receiverKey, signature)
  const signed = cipher.update(sign(null, Buffer.concat([ownRaw, theirRaw]), identity.privateKey))
  const done = await rtsp.request('POST', '/pair-verify', Buffer.concat([Buffer.alloc(4), signed]), OCTETS)
  return { secret, isSignatureGood, status: done.status }
}
