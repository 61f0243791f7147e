/** Self-signed server certificates (RFC 5280), and requests for others (RFC 2986), in DER (ITU-T X.690) and PEM (RFC 7468). */
import { createHash, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { parseAddress } from './ip.ts'

export interface CertificateRequest {
  /** The private key, on the curve P-256. */
  readonly key: KeyObject
  readonly organization: string
  /** At most 64 characters (RFC 5280 §A.1, ub-common-name). */
  readonly commonName: string
  /** Host names and IP addresses. */
  readonly names: readonly string[]
  /** Milliseconds since 1970. */
  readonly from: number
  readonly to: number
  /** Random, and different in each certificate: browsers refuse two certificates of one issuer with the same serial. */
  readonly serial: Uint8Array
}

/** A certificate signing request. */
export interface SigningRequest {
  /** The private key: on an elliptic curve, or RSA. */
  readonly key: KeyObject
  /** Host names and IP addresses. The first is also the common name, if it is a host name that is short enough. */
  readonly names: readonly string[]
}

const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  bytes: 0x04,
  null: 0x05,
  oid: 0x06,
  utf8: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
  version: 0xa0,
  attributes: 0xa0,
  extensions: 0xa3,
  dnsName: 0x82,
  ipAddress: 0x87,
} as const
/** Object identifiers, encoded. */
const OID = {
  /** RFC 5758 §3.2 */
  ecdsaWithSha256: '2a8648ce3d040302',
  /** RFC 4055 §5 */
  rsaWithSha256: '2a864886f70d01010b',
  /** RFC 2985 §5.4.2 */
  extensionRequest: '2a864886f70d01090e',
  commonName: '550403',
  organization: '55040a',
  subjectAltName: '551d11',
  basicConstraints: '551d13',
  extKeyUsage: '551d25',
  serverAuth: '2b06010505070301',
} as const
const V3 = Uint8Array.of(2)
/** The only version of a request (RFC 2986 §4.1). */
const V1 = Uint8Array.of(0)
/** RFC 5280 §A.1, ub-common-name. */
const MAX_COMMON_NAME = 64
const TRUE = Uint8Array.of(0xff)
/** The first year that UTCTime cannot express (RFC 5280 §4.1.2.5). */
const GENERALIZED_TIME_FROM = 2050
const PEM_LINE = /.{1,64}/g

/** The certificate as PEM. It is valid only for a server, and cannot sign others. */
export function selfSigned({ key, organization, commonName, names, from, to, serial }: CertificateRequest): string {
  const algorithm = sequence(oid('ecdsaWithSha256'))
  const name = sequence(attribute('organization', organization), attribute('commonName', commonName))
  const body = sequence(
    der('version', der('integer', V3)),
    // A positive number without leading zeros (RFC 5280 §4.1.2.2).
    der('integer', Uint8Array.of(0x40), serial),
    algorithm,
    name,
    sequence(time(from), time(to)),
    name,
    createPublicKey(key).export({ type: 'spki', format: 'der' }),
    der('extensions', sequence(...extensions(names))),
  )
  const signature = sign('sha256', body, key)
  const lines = signed(body, algorithm, signature).toString('base64').match(PEM_LINE)
  return `-----BEGIN CERTIFICATE-----\n${lines?.join('\n')}\n-----END CERTIFICATE-----\n`
}

/** A certificate signing request in DER, for these names and only for a server. @throws {TypeError} for another kind of key. */
export function signingRequest({ key, names }: SigningRequest): Buffer {
  const [first = ''] = names
  const isCommonName = first.length <= MAX_COMMON_NAME && parseAddress(first) === undefined
  const extensions = sequence(extKeyUsage(), subjectAltName(names))
  const body = sequence(
    der('integer', V1),
    sequence(...(isCommonName ? [attribute('commonName', first)] : [])),
    createPublicKey(key).export({ type: 'spki', format: 'der' }),
    der('attributes', sequence(oid('extensionRequest'), der('set', extensions))),
  )
  return signed(body, sequence(...algorithmOf(key)), sign('sha256', body, key))
}

/** Each certificate in a text of PEM (RFC 7468). */
export const CERTIFICATE_BLOCK = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/** The pin of a public key: base64 of the SHA-256 of its SPKI (RFC 7469 §2.4). */
export function pinOf(publicKey: KeyObject): string {
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64')
}

function algorithmOf({ asymmetricKeyType }: KeyObject): readonly Buffer[] {
  if (asymmetricKeyType === 'ec') return [oid('ecdsaWithSha256')]
  if (asymmetricKeyType === 'rsa') return [oid('rsaWithSha256'), der('null')]
  throw new TypeError(`no request is made for a key of the type ${asymmetricKeyType}`)
}

function signed(body: Buffer, algorithm: Buffer, signature: Buffer): Buffer {
  return sequence(body, algorithm, der('bits', Uint8Array.of(0), signature))
}

function extensions(names: readonly string[]): readonly Buffer[] {
  return [
    // Not a CA: a client that trusts it trusts only this device. An empty sequence, because FALSE is the default.
    sequence(oid('basicConstraints'), der('boolean', TRUE), der('bytes', sequence())),
    extKeyUsage(),
    subjectAltName(names),
  ]
}

function extKeyUsage(): Buffer {
  return sequence(oid('extKeyUsage'), der('bytes', sequence(oid('serverAuth'))))
}

function subjectAltName(names: readonly string[]): Buffer {
  return sequence(oid('subjectAltName'), der('bytes', sequence(...names.map(generalName))))
}

function generalName(name: string): Buffer {
  const address = parseAddress(name)
  if (!address) return der('dnsName', Buffer.from(name, 'ascii'))
  const digits = address.family === 4 ? 8 : 32
  return der('ipAddress', Buffer.from(address.bits.toString(16).padStart(digits, '0'), 'hex'))
}

function attribute(type: keyof typeof OID, value: string): Buffer {
  return der('set', sequence(oid(type), der('utf8', Buffer.from(value))))
}

function time(ms: number): Buffer {
  const date = new Date(ms)
  const text = date.toISOString().replace(/[-:T]|\.\d+/g, '')
  if (date.getUTCFullYear() >= GENERALIZED_TIME_FROM) return der('generalizedTime', Buffer.from(text))
  return der('utcTime', Buffer.from(text.slice(2)))
}

function oid(name: keyof typeof OID): Buffer {
  return der('oid', Buffer.from(OID[name], 'hex'))
}

function sequence(...content: readonly Uint8Array[]): Buffer {
  return der('sequence', ...content)
}

function der(tag: keyof typeof TAG, ...content: readonly Uint8Array[]): Buffer {
  const bytes = Buffer.concat(content)
  return Buffer.concat([Uint8Array.of(TAG[tag], ...lengthOf(bytes)), bytes])
}

/** X.690 §8.1.3: one byte, or the number of bytes that follow. No certificate takes more than two. */
function lengthOf({ length }: Uint8Array): readonly number[] {
  if (length < 0x80) return [length]
  return length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
}
