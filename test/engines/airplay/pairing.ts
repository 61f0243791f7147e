/** How a device and a receiver agree on a secret, with a PIN that is shown on the screen or without one. */
import { createCipheriv, diffieHellman, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { derive, publicKey, rawKey, sha } from './keys.ts'
import { decodeDictionary, encodePlist } from './plist.ts'
import { OCTETS, type RtspConnection } from './rtsp.ts'
import { proveSrp } from './srp.ts'

/** What a device is known by to a receiver that it was paired with: an Ed25519 key. */
export interface Identity {
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

export interface Verified {
  /** Of X25519, 32 bytes; undefined where the receiver did not go along. */
  readonly secret: Buffer | undefined
  /** Whether the receiver signed with the key that it showed before; undefined where it showed none. */
  readonly isSignatureGood: boolean | undefined
  readonly status: number
}

/** Shows the device's key, and returns the receiver's. */
export async function pairSetup(rtsp: RtspConnection, identity: Identity): Promise<KeyObject> {
  const { body } = await rtsp.request('POST', '/pair-setup', rawKey(identity.publicKey), OCTETS)
  return publicKey('ed25519', body)
}

/** The same, proving that the PIN is known: SRP, then the device's key under AES-GCM. Returns the last answer's status. */
export async function pairSetupPin(rtsp: RtspConnection, identity: Identity, user: string, pin: string) {
  const post = (body: Buffer) => rtsp.request('POST', '/pair-setup-pin', body)
  await rtsp.request('POST', '/pair-pin-start')
  const begun = await post(encodePlist({ method: 'pin', user }))
  if (begun.status !== 200) return begun.status
  const { salt, pk } = decodeDictionary(begun.body)
  if (!Buffer.isBuffer(salt) || !Buffer.isBuffer(pk)) throw new Error('/pair-setup-pin gave no salt or key')
  const { publicKey: own, proof, sessionKey } = proveSrp(user, pin, salt, pk)
  const proven = await post(encodePlist({ pk: own, proof }))
  if (proven.status !== 200) return proven.status

  const iv = sha('sha512', 'Pair-Setup-AES-IV', sessionKey).subarray(0, 16)
  // One more than was derived, as a counter that has been used once.
  iv.writeUInt8((iv.readUInt8(15) + 1) & 0xff, 15)
  const cipher = createCipheriv('aes-128-gcm', derive('Pair-Setup-AES-Key', sessionKey), iv)
  const epk = Buffer.concat([cipher.update(rawKey(identity.publicKey)), cipher.final()])
  return (await post(encodePlist({ epk, authTag: cipher.getAuthTag() }))).status
}

/** Agrees on a secret; each side signs both keys, under AES-CTR. */
export async function pairVerify(rtsp: RtspConnection, identity: Identity, receiverKey?: KeyObject): Promise<Verified> {
  const own = generateKeyPairSync('x25519')
  const ownRaw = rawKey(own.publicKey)
  const hello = Buffer.concat([Buffer.from([1, 0, 0, 0]), ownRaw, rawKey(identity.publicKey)])
  const { status, body } = await rtsp.request('POST', '/pair-verify', hello, OCTETS)
  // The receiver's key, and a signature of 64 bytes.
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
