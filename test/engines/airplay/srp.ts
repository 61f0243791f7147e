/**
 * SRP-6a (RFC 5054 §2) as AirPlay uses it for PINs: 2,048 bits, SHA-1, and a session key of 40 bytes, two hashes of the
 * shared secret.
 */
import { randomBytes } from 'node:crypto'
import { sha } from './keys.ts'

/** The 2,048-bit group (RFC 5054, appendix A). */
const N = BigInt(
  `0x${[
    'AC6BDB41324A9A9BF166DE5E1389582FAF72B6651987EE07FC3192943DB56050A37329CBB4A099ED8193E0757767A13DD52312AB4B03310D',
    'CD7F48A9DA04FD50E8083969EDB767B0CF6095179A163AB3661A05FBD5FAAAE82918A9962F0B93B855F97993EC975EEAA80D740ADBF4FF74',
    '7359D041D5C33EA71D281E446B14773BCA97B43A23FB801676BD207A436C6481F1D2B9078717461A5B9D32E688F87748544523B524B0D57D',
    '5EA77A2775D2ECFA032CFBDBF52FB3786160279004E57AE6AF874E7303CE53299CCC041C7BC308D82A5698F3A8D0C38271AE35F8E9DBFBB6',
    '94B5C803D89F7AE435DE236D525F54759B65E372FCD68EF20FA7111F9E4AFF73',
  ].join('')}`,
)
const G = 2n
const N_BYTES = 256
export const GROUP = { N, g: G }

export interface SrpProof {
  /** A. */
  readonly publicKey: Buffer
  /** M1. */
  readonly proof: Buffer
  readonly sessionKey: Buffer
}

/** @param serverKey B. @param secret a, random. */
export function proveSrp(
  user: string,
  pin: string,
  salt: Buffer,
  serverKey: Buffer,
  secret = randomBytes(32),
): SrpProof {
  const a = toNumber(secret)
  const A = power(G, a)
  const B = toNumber(serverKey)
  const u = toNumber(sha('sha1', pad(A), pad(B)))
  const k = toNumber(sha('sha1', pad(N), pad(G)))
  // UxPlay hashes the salt as a number: one in 256 begins with a zero byte, which it leaves out.
  const hashed = toBytes(toNumber(salt))
  const x = toNumber(sha('sha1', hashed, sha('sha1', `${user}:${pin}`)))
  const base = (((B - k * power(G, x)) % N) + N) % N
  const shared = toBytes(power(base, a + u * x))
  const sessionKey = Buffer.concat([0, 1].map(part => sha('sha1', shared, Buffer.from([0, 0, 0, part]))))
  const hashes = [toBytes(N), toBytes(G)].map(part => toNumber(sha('sha1', part)))
  const mixed = toBytes((hashes[0] ?? 0n) ^ (hashes[1] ?? 0n), 20)
  const proof = sha('sha1', mixed, sha('sha1', user), hashed, toBytes(A), serverKey, sessionKey)
  return { publicKey: toBytes(A), proof, sessionKey }
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let square = base % N, rest = exponent; rest > 0n; rest >>= 1n, square = (square * square) % N)
    if (rest & 1n) result = (result * square) % N
  return result
}

function toNumber(bytes: Buffer): bigint {
  return BigInt(`0x${bytes.toString('hex')}`)
}

function toBytes(number: bigint, atLeast = 1): Buffer {
  const digits = number.toString(16)
  return Buffer.from(digits.padStart(Math.max(atLeast * 2, digits.length + (digits.length & 1)), '0'), 'hex')
}

function pad(number: bigint): Buffer {
  return toBytes(number, N_BYTES)
}
