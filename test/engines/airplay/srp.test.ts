/** Against the other side of SRP-6a, written down as RFC 5054 §2.5 and §2.6 have it. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { sha } from './keys.ts'
import { GROUP, proveSrp } from './srp.ts'

const { N, g } = GROUP
const USER = 'AA:BB:CC:00:00:01'

function serve(pin: string) {
  const salt = randomBytes(16)
  const x = toNumber(sha('sha1', salt, sha('sha1', `${USER}:${pin}`)))
  const v = power(g, x)
  const b = toNumber(randomBytes(32))
  const k = toNumber(sha('sha1', toBytes(N), toBytes(g)))
  const B = toBytes((k * v + power(g, b)) % N)
  /** As the receiver computes it. */
  const agree = (A: Buffer) => {
    const u = toNumber(sha('sha1', Buffer.concat([Buffer.alloc(256 - A.length), A]), B))
    const secret = trim(toBytes(power(toNumber(A) * power(v, u), b)))
    const key = Buffer.concat([0, 1].map(part => sha('sha1', secret, Buffer.from([0, 0, 0, part]))))
    const mixed = sha('sha1', toBytes(N)).map((byte, at) => byte ^ (sha('sha1', Buffer.from([2]))[at] ?? 0))
    return { key, proof: sha('sha1', Buffer.from(mixed), sha('sha1', USER), salt, A, B, key) }
  }
  return { salt, B, agree }
}

t.test('with the right PIN both sides have the same key, and the proof holds', async t => {
  const { salt, B, agree } = serve('1234')
  const { publicKey, proof, sessionKey } = proveSrp(USER, '1234', salt, B)
  const expected = agree(publicKey)
  t.equal(sessionKey.length, 40)
  t.same(sessionKey, expected.key)
  t.same(proof, expected.proof)
})

t.test('with another it does not', async t => {
  const { salt, B, agree } = serve('1234')
  const { publicKey, proof } = proveSrp(USER, '4321', salt, B)
  t.notSame(proof, agree(publicKey).proof)
})

function power(base: bigint, exponent: bigint): bigint {
  if (exponent === 0n) return 1n
  const half = power(base, exponent >> 1n)
  return ((exponent & 1n ? base : 1n) * half * half) % N
}

function toNumber(bytes: Buffer): bigint {
  return BigInt(`0x${bytes.toString('hex')}`)
}

/** 256 bytes, as the RFC's PAD(). */
function toBytes(number: bigint): Buffer {
  return Buffer.from(number.toString(16).padStart(512, '0'), 'hex')
}

function trim(bytes: Buffer): Buffer {
  return bytes.subarray(bytes.findIndex(byte => byte !== 0))
}
