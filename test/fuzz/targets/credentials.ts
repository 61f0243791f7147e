/**
 * Credentials: tokens of the API key and of issuers, in every form, against two libraries. Ours must refuse all that both
 * refuse; and each refusal of a token which a library accepts must have one of the reasons that the README gives.
 */
import { createHmac, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { Authenticator, type Credential } from '../../../src/auth/authenticator.ts'
import { presentedCredential } from '../../../src/auth/credentials.ts'
import { type Issuer, issuerOf, publicKeyIn } from '../../../src/auth/issuer.ts'
import { signingKey } from '../../../src/auth/jwt.ts'
import { Problem } from '../../../src/problem.ts'
import { byJose, byJsonwebtoken } from '../../interop/judges.ts'
import { TestIssuer } from '../../support/issuer.ts'
import type { Input } from '../input.ts'
import { must, type Target } from '../target.ts'

const KEY = 'Yb2nq0V7mS1xkP4tLw8cRj5fHd9aZe3uGi6oTvNQKMs'
/** A whole second, by which all judge. */
const NOW_S = 1_800_000_000
const MAX_AGE_S = 3_600
const MAX_AHEAD_S = 60
const MAX_TOKEN = 4_096
const DEVICE = { serial: 'S1', hostname: 'lobby', groups: ['floor-4'] }
const ALGORITHMS = ['HS256', 'EdDSA', 'ES256'] as const
type Algorithm = (typeof ALGORITHMS)[number]

const ED = 'MC4CAQAwBQYDK2VwBCIEIJ8Do3NGaglbMwanLdYGi91qTvdOlbQrGWb+BKdeiSck'
const EC =
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgFzZGn3SuxAdncsUgyn9HK6mvogZpn/SXk6uHd9gNHimhRANCAATCHhS1arfTnVUEAC3GS3iilsXsZ39PKTDkLPD/qpKFhziYhcw++3atLRab0vBWIeBx/FhjnGO3z8u7FJ457pXE'
/** The same in each run, so that an input means the same. */
const privateKeyOf = (d: string) => createPrivateKey({ key: Buffer.from(d, 'base64'), format: 'der', type: 'pkcs8' })
const signers = {
  EdDSA: new TestIssuer('fleet', 'EdDSA', privateKeyOf(ED)),
  ES256: new TestIssuer('ops', 'ES256', privateKeyOf(EC)),
}
const issuers = new Map<string, Issuer>(
  Object.values(signers).map(({ name, publicKey }) => [
    name,
    issuerOf(name, { publicKey, roles: ['admin:rw', 'moderator:r'], maxAgeS: MAX_AGE_S }, 'api'),
  ]),
)
const keys: Readonly<Record<Algorithm, KeyObject | Uint8Array>> = {
  HS256: signingKey(KEY),
  EdDSA: createPublicKey(signers.EdDSA.publicKey),
  ES256: createPublicKey(signers.ES256.publicKey),
}

function newAuthenticator(): Authenticator {
  return new Authenticator(KEY, {
    clock: { now: () => NOW_S * 1000 } as never,
    log: () => undefined,
    builtAt: 0,
    leewayS: 0,
    issuers,
    device: () => DEVICE,
  })
}

function sign(algorithm: Algorithm, header: Buffer, payload: Buffer): string {
  if (algorithm !== 'HS256') return signers[algorithm].sign(header.toString('latin1'), payload)
  const input = `${header.toString('base64url')}.${payload.toString('base64url')}`
  return `${input}.${createHmac('sha256', signingKey(KEY)).update(input).digest('base64url')}`
}

async function byOurs(authenticator: Authenticator, token: string): Promise<Credential | string> {
  try {
    return await authenticator.authenticate([token], 'local')
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return error.message
    throw error
  }
}

type Json = Readonly<Record<string, unknown>>

/** An object in a part of a token; undefined if there is none for a strict reader. */
function objectIn(part: string): Json | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(part, 'base64url'))
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
  } catch {
    return undefined
  }
}

/** Whether a name stands twice in an object: then JSON.parse has fewer members than there are names in the text. */
function isAmbiguous(part: string): boolean {
  const text = Buffer.from(part, 'base64url').toString()
  const names = text.match(/"(?:[^"\\]|\\.)*"\s*:?/gs)?.filter(string => string.endsWith(':')) ?? []
  return membersIn(JSON.parse(text)) !== names.length
}

function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const own = Array.isArray(value) ? 0 : Object.keys(value).length
  return Object.values(value).reduce((sum, member) => sum + membersIn(member), own)
}

const ROLE = /^(admin|moderator):(r|w|rw|wr)$/
const isDate = (value: unknown) => value === undefined || (typeof value === 'number' && Number.isFinite(value))

function depth(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depth))
}

/** Why a token that is well signed is refused, by the README; undefined if nothing in it says so. */
function whyRefused(token: string, algorithm: Algorithm): string | undefined {
  if (token.length > MAX_TOKEN) return 'too long'
  const parts = token.split('.')
  if (parts.length !== 3 || parts.some(part => part === '')) return 'it has not three parts'
  // A text decodes to the bytes of another: two spellings of one token.
  if (parts.some(part => Buffer.from(part, 'base64url').toString('base64url') !== part)) return 'it is not canonical'
  const [head = '', body = ''] = parts
  const [header, claims] = [objectIn(head), objectIn(body)]
  if (!header || !claims) return 'it is not JSON in UTF-8'
  if (isAmbiguous(head) || isAmbiguous(body)) return 'a name stands twice'
  if (depth(header) > 32 || depth(claims) > 32 || body.length > 2_048) return 'it is deep or large'
  if (header.alg !== algorithm || Object.hasOwn(header, 'crit')) return 'its header'
  const { roles, exp, nbf, iat, aud } = claims
  if (!Array.isArray(roles) || !roles.every(role => typeof role === 'string' && ROLE.test(role))) return 'its roles'
  if (!isDate(exp) || !isDate(nbf)) return 'its dates'
  if (typeof exp === 'number' && NOW_S >= exp) return 'expired'
  if (typeof nbf === 'number' && NOW_S < nbf) return 'not yet valid'
  if (algorithm === 'HS256') return undefined
  if (header.kid !== signers[algorithm].name) return 'its kid'
  if (roles.some(role => /^moderator:.*w/.test(role))) return 'more than its issuer may grant'
  if (typeof iat !== 'number' || !Number.isFinite(iat) || typeof exp !== 'number' || exp <= iat) return 'its life'
  if (exp - iat > MAX_AGE_S || iat > NOW_S + MAX_AHEAD_S) return 'its life'
  const names = aud === undefined ? undefined : typeof aud === 'string' ? [aud] : aud
  if (names === undefined)
    return roles.some(role => /w/.test(role.slice(role.indexOf(':')))) ? 'for writing, without aud' : undefined
  if (!Array.isArray(names) || !names.every(name => typeof name === 'string')) return 'its aud'
  return names.some(name => ['*', 'serial:S1', 'host:lobby', 'group:floor-4'].includes(name))
    ? undefined
    : 'for another device'
}

/** Whether there is a reason for ours to accept what a library refuses. */
function isOurChoice(token: string, algorithm: Algorithm, judge: string): boolean {
  const { iat } = objectIn(token.split('.')[1] ?? '') ?? {}
  // Of a token that is made from the API key, iat is not read.
  return judge === 'jose' && algorithm === 'HS256' && iat !== undefined && typeof iat !== 'number'
}

function grantsOf(token: string): readonly string[] {
  const { roles = [] } = objectIn(token.split('.')[1] ?? '') as { roles?: readonly string[] }
  const all = roles.flatMap(role =>
    [...role.slice(role.indexOf(':') + 1)].map(letter => `${role.split(':')[0]}:${letter}`),
  )
  return [...new Set(all)].sort()
}

async function judgeToken(token: string, algorithm: Algorithm): Promise<void> {
  const ours = await byOurs(newAuthenticator(), token)
  const isAccepted = typeof ours !== 'string'
  const facts = (judge?: unknown) => () => ({
    algorithm,
    token,
    parts: token
      .split('.')
      .slice(0, 2)
      .map(part => Buffer.from(part, 'base64url').toString()),
    ours: isAccepted ? 'accepted' : ours,
    judge,
  })
  const judges = {
    jose: await byJose(token, keys[algorithm], algorithm, NOW_S),
    jsonwebtoken: await byJsonwebtoken(token, keys[algorithm], algorithm, NOW_S),
  }
  for (const [name, verdict] of Object.entries(judges)) {
    if (verdict === undefined) continue
    if (isAccepted && !verdict)
      must(isOurChoice(token, algorithm, name), 'ours accepts what another refuses', facts(name))
    if (!isAccepted && verdict)
      must(whyRefused(token, algorithm) !== undefined, 'ours refuses what another accepts', facts(name))
  }
  if (!isAccepted) return
  must(
    whyRefused(token, algorithm) === undefined,
    'ours accepts what the README refuses',
    facts(whyRefused(token, algorithm)),
  )
  must(
    JSON.stringify([...ours.grants].sort()) === JSON.stringify(grantsOf(token)),
    'it grants something else',
    facts(grantsOf(token)),
  )
}

/** A header of a request, and how it may be read. */
async function judgeHeader(header: string, query: readonly string[], token: string): Promise<void> {
  let texts: readonly string[]
  try {
    texts = presentedCredential(header, query)
  } catch (error) {
    if (error instanceof Problem && (error.status === 400 || error.status === 401)) return
    throw error
  }
  if (!(await isLetIn(texts))) return
  const [, decoded = ''] = /^basic +([\w+/-]+={0,2})$/i.exec(header.replaceAll('\t', ' ')) ?? []
  const password = Buffer.from(decoded, 'base64')
    .toString()
    .replace(/^[^:]*:/s, '')
  const [, bare] = /^(?:bearer|basic)[ \t]*[ ][ \t]*(.*)$/is.exec(header) ?? []
  const good = [token, KEY]
  must(
    [bare, password, ...query].some(text => text !== undefined && good.includes(text)),
    'a header is let in without a credential',
    () => ({ header, query, token }),
  )
}

async function isLetIn(texts: readonly string[]): Promise<boolean> {
  try {
    await newAuthenticator().authenticate(texts, 'local')
    return true
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return false
    throw error
  }
}

/** OpenSSL wants its lines; without them, the key in it is read. */
function opensslKey(pem: string): KeyObject {
  try {
    return createPublicKey(pem)
  } catch {
    const [, text = ''] = /-----BEGIN PUBLIC KEY-----(.*?)-----END/s.exec(pem) ?? []
    return createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' })
  }
}

function judgeKey(pem: string): void {
  const found = publicKeyIn(pem)
  if (!found) return
  const key = opensslKey(pem)
  const kind =
    key.asymmetricKeyType === 'ed25519'
      ? 'EdDSA'
      : key.asymmetricKeyDetails?.namedCurve === 'prime256v1'
        ? 'ES256'
        : undefined
  must(kind === found.algorithm && key.equals(found.key), 'OpenSSL reads another key', () => ({ pem }))
}

async function tokens(input: Input): Promise<void> {
  const algorithm = input.pick(ALGORITHMS)
  const forge = FORGERIES[input.below(2 * FORGERIES.length)]
  const [at, by] = [input.byte() * 256 + input.byte(), input.byte()]
  const token = sign(algorithm, input.chunk(), input.chunk())
  await judgeToken(forge ? forge(token, algorithm, at, by) : token, algorithm)
}

type Forge = (token: string, algorithm: Algorithm, at: number, by: number) => string

const signedPart = (token: string) => token.slice(0, token.lastIndexOf('.'))
const FORGERIES: readonly Forge[] = [
  // One character of the text is another one, or one more.
  (token, _, at, by) => {
    const place = at % (token.length + 1)
    return token.slice(0, place) + String.fromCharCode(by) + token.slice(place + (by & 1))
  },
  // One bit of the signature.
  (token, _, at, by) => {
    const signature = Buffer.from(token.slice(token.lastIndexOf('.') + 1), 'base64url')
    signature[at % signature.length] = (signature[at % signature.length] as number) ^ (1 << (by & 7))
    return `${signedPart(token)}.${signature.toString('base64url')}`
  },
  // The signature of another token.
  (token, algorithm) => {
    const other = sign(algorithm, Buffer.from(`{"alg":"${algorithm}"}`), Buffer.from('{"roles":[]}'))
    return signedPart(token) + other.slice(other.lastIndexOf('.'))
  },
  // A public key, as a secret.
  (token, algorithm) => {
    const secret = algorithm === 'HS256' ? signers.EdDSA.publicKey : signers[algorithm].publicKey
    const input = signedPart(token)
    return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
  },
  // None.
  token => `${signedPart(token)}.`,
]

async function forms(input: Input): Promise<void> {
  const token = sign('HS256', Buffer.from('{"alg":"HS256"}'), Buffer.from('{"roles":["admin:r"]}'))
  const fill = (text: string) => text.replaceAll('KEY', KEY).replaceAll('TOKEN', token)
  const query = Array.from({ length: input.below(3) }, () => fill(input.chunk().toString('latin1')))
  const isEncoded = input.flag()
  const scheme = input.chunk().toString('latin1')
  const text = fill(input.chunk().toString('latin1'))
  await judgeHeader(scheme + (isEncoded ? Buffer.from(text, 'latin1').toString('base64') : text), query, token)
}

const fleet = '{"alg":"EdDSA","kid":"fleet"}'
const ops = '{"alg":"ES256","kid":"ops","typ":"JWT"}'

export const credentials: Target = {
  name: 'credentials',
  maxLength: 1_536,
  executions: 600,
  seeds: [
    '\0\0\x05\0\0\0{"alg":"HS256"}\xff{"roles":["admin:rw"],"exp":1900000000}',
    '\0\0\x05\0\0\0{"alg":"HS256","typ":"JWT"}\xff{"roles":[],"nbf":1.5,"iat":1,"sub":"x"}',
    `\0\x01\x05\0\0\0${fleet}\xff{"roles":["admin:r"],"iat":1799999000,"exp":1800001000}`,
    `\0\x01\x05\0\0\0${fleet}\xff{"roles":["admin:w"],"iat":1799999000,"exp":1800001000,"aud":["group:floor-4"]}`,
    `\0\x02\x05\0\0\0${ops}\xff{"roles":["moderator:r"],"iat":1799999000,"exp":1800001000,"aud":"*"}`,
    ...['\0', '\x01', '\x02', '\x03', '\x04'].map(
      forge => `\0\0${forge}\0\x20\x41{"alg":"HS256"}\xff{"roles":["admin:rw"]}`,
    ),
    ...['\x01', '\x02', '\x03', '\x04'].map(
      forge => `\0\x01${forge}\0\x20\x41${fleet}\xff{"roles":["admin:r"],"iat":1799999000,"exp":1800001000}`,
    ),
    '\x01\0\x01Basic \xffuser:TOKEN',
    '\x01\0\0Bearer \xffKEY',
    '\x01\x01KEY\xff\0Bearer \xffKEY',
    `\x02${signers.EdDSA.publicKey}`,
    `\x02${signers.ES256.publicKey}`,
  ].map(seed => Buffer.from(seed, 'latin1')),
  words: [
    ...[
      '"alg":"HS256"',
      '"alg":"none"',
      '"alg":"EdDSA"',
      '"alg":"ES256"',
      '"kid":"fleet"',
      '"kid":"ops"',
      '"crit":["b64"]',
      '"b64":false',
      '"typ":"JWT"',
      '"zip":"DEF"',
      '"jwk":{}',
      '"__proto__":{}',
    ],
    ...[
      '"roles":',
      '"admin:r"',
      '"admin:rw"',
      '"moderator:w"',
      '"moderator:r"',
      '"exp":',
      '"nbf":',
      '"iat":',
      '"aud":',
      '"sub":',
      '"*"',
      '"host:lobby"',
      '"serial:S1"',
      '"group:"',
      '1800000000',
      '1800000001',
      '1799999999',
      '1e999',
      '1e9',
      '-0',
      '1.8e9',
      '"\\u0072oles"',
      'null',
      'true',
      '[]',
      '{}',
      '[',
      ']',
      '{',
      '}',
      ',',
      ':',
      '"',
      '\\',
      ' ',
      '\n',
      '\ufeff',
    ],
    ...['Basic ', 'Bearer ', 'bearer\t', 'KEY', 'TOKEN', ':', '=', '==', '\xa0'],
    ...['-----BEGIN PUBLIC KEY-----', '-----END PUBLIC KEY-----'],
  ],
  async run(input) {
    const kind = input.below(3)
    if (kind === 0) await tokens(input)
    else if (kind === 1) await forms(input)
    else judgeKey(input.rest().toString('latin1'))
  },
}
