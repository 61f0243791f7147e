/** An issuer: a third party whose tokens the device accepts, verified with a public key. */
import { createPublicKey, type KeyObject } from 'node:crypto'
import * as Type from 'typebox/type'
import { HalError } from '../../hal/errors.ts'
import { parseJson } from '../json.ts'
import { DEFAULT_TOKEN_AGE_S, MAX_TOKEN_AGE_S, MIN_TOKEN_AGE_S } from '../limits.ts'
import { schemaErrors } from '../validate.ts'
import { type Grant, grantsOf, ROLES } from './grants.ts'

/** Matches the name of an issuer: its file name without `.json`, and the `kid` of its tokens. */
export const ISSUER_NAME = /^[a-z0-9-]{1,32}$/

/** Where an issuer comes from: the image, its card, or a client of the API. */
export const SOURCES = ['image', 'card', 'api'] as const
export type Source = (typeof SOURCES)[number]

/** The algorithms of tokens: EdDSA with Ed25519 (RFC 8037 §3.1), ES256 with P-256 (RFC 7518 §3.4). */
export const ALGORITHMS = ['EdDSA', 'ES256'] as const
export type Algorithm = (typeof ALGORITHMS)[number]

const members = {
  publicKey: Type.String({
    description: 'An Ed25519 or P-256 public key in PEM (SPKI), which begins with -----BEGIN PUBLIC KEY-----.',
    maxLength: 1_024,
  }),
  roles: Type.Array(Type.Enum(ROLES), {
    minItems: 1,
    maxItems: ROLES.length,
    description: 'The most that its tokens can grant: one or more roles.',
  }),
  maxAgeS: Type.Optional(
    Type.Integer({
      description: 'The longest lifetime of its tokens, in seconds from `iat` to `exp`.',
      minimum: MIN_TOKEN_AGE_S,
      maximum: MAX_TOKEN_AGE_S,
      default: DEFAULT_TOKEN_AGE_S,
    }),
  ),
}

/** An issuer as sent by a client. */
export const IssuerRequest = Type.Object(members, { $id: 'IssuerRequest', additionalProperties: false })
export type GivenIssuer = Type.Static<typeof IssuerRequest>

/** The content of an issuer's file, which may have a source. Without one, it belongs to the image. */
const IssuerFile = Type.Object(
  { ...members, source: Type.Optional(Type.Enum([...SOURCES])) },
  {
    additionalProperties: false,
  },
)

export interface Issuer {
  readonly name: string
  readonly key: KeyObject
  /** Base64 of the SPKI, which is the same for the same key. */
  readonly keyId: string
  readonly algorithm: Algorithm
  readonly roles: readonly string[]
  /** The most that its tokens can grant. */
  readonly grants: ReadonlySet<Grant>
  readonly maxAgeS: number
  readonly source: Source
}

/** Parses the file of an issuer. @throws {HalError} saying why it cannot be used. */
export function issuerIn(name: string, bytes: Uint8Array): Issuer {
  const { source = 'image', ...given } = issuerFileIn(bytes)
  return issuerOf(name, given, source)
}

/** Parses the file of an issuer, without checking that its key can be used. @throws {HalError} */
export function issuerFileIn(bytes: Uint8Array): Type.Static<typeof IssuerFile> {
  let value: ReturnType<typeof parseJson>
  try {
    value = parseJson(bytes)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new HalError('UNREADABLE', `the file is not valid: ${error.message}`)
  }
  const [mistake] = schemaErrors(IssuerFile, value, '')
  if (mistake) throw new HalError('UNREADABLE', `${mistake.pointer || 'the file'}: ${mistake.detail}`)
  return value as Type.Static<typeof IssuerFile>
}

/** @throws {HalError} if the key cannot be used. */
export function issuerOf(name: string, { publicKey, roles, maxAgeS }: GivenIssuer, source: Source): Issuer {
  const found = publicKeyIn(publicKey)
  if (!found) throw new HalError('UNREADABLE', `/publicKey: ${WRONG_KEY}`)
  const grants = new Set(roles.flatMap(role => [...(grantsOf(role) ?? [])]))
  return { name, ...found, roles: [...new Set(roles)], grants, maxAgeS: maxAgeS ?? DEFAULT_TOKEN_AGE_S, source }
}

/** Returns the content of an issuer's file. */
export function issuerFile({ publicKey, roles, maxAgeS = DEFAULT_TOKEN_AGE_S }: GivenIssuer, source: Source): string {
  return `${JSON.stringify({ publicKey, roles, maxAgeS, source }, undefined, 2)}\n`
}

export const WRONG_KEY = 'must be an Ed25519 or P-256 public key in PEM, which begins with -----BEGIN PUBLIC KEY-----'
const PEM = /^\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*$/

/** Parses a PEM with one Ed25519 or P-256 public key; undefined for anything else, such as a private key or a certificate. */
export function publicKeyIn(pem: string): Pick<Issuer, 'key' | 'keyId' | 'algorithm'> | undefined {
  const base64 = PEM.exec(pem)?.[1]
  if (base64 === undefined) return undefined
  const der = Buffer.from(base64, 'base64')
  try {
    const key = createPublicKey({ key: der, format: 'der', type: 'spki' })
    const algorithm = algorithmOf(key)
    // OpenSSL ignores any data after a key.
    if (algorithm && key.export({ format: 'der', type: 'spki' }).equals(der))
      return { key, keyId: der.toString('base64'), algorithm }
  } catch {
    // OpenSSL does not take it for a key.
  }
  return undefined
}

/** Returns the algorithm of the signatures that a key makes or verifies; undefined for unsupported keys. */
export function algorithmOf({
  asymmetricKeyType: type,
  asymmetricKeyDetails: { namedCurve } = {},
}: KeyObject): Algorithm | undefined {
  if (type === 'ed25519') return 'EdDSA'
  return namedCurve === 'prime256v1' ? 'ES256' : undefined
}
