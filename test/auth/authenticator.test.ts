import t from 'tap'
import {
  Authenticator,
  type AuthenticatorOptions,
  type Credential,
  holderOf,
  JUDGE,
} from '../../src/auth/authenticator.ts'
import { issuerIn } from '../../src/auth/issuer.ts'
import { mint } from '../../src/auth/jwt.ts'
import { generateKey } from '../../src/auth/key-file.ts'
import { MAX_TOKEN_LENGTH, TOKEN_CACHE_SIZE } from '../../src/limits.ts'
import { Problem } from '../../src/problem.ts'
import { ManualClock } from '../support/clock.ts'
import { credentialIn, NO_ISSUERS } from '../support/credential.ts'
import { TestIssuer } from '../support/issuer.ts'

function setUp(more: Partial<AuthenticatorOptions> = {}) {
  const apiKey = generateKey()
  const clock = new ManualClock()
  const log: string[] = []
  const authenticator = new Authenticator(apiKey, {
    ...{ clock, builtAt: 0, leewayS: 0, ...NO_ISSUERS, ...more },
    log: (level, message) => log.push(`${level}: ${message}`),
  })
  return { apiKey, clock, log, authenticator }
}

const inSeconds = (clock: ManualClock, seconds: number) => Math.floor(clock.now() / 1000) + seconds

function refusalOf(authenticator: Authenticator, text: string): Problem | undefined {
  try {
    credentialIn(authenticator, text)
    return undefined
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
}

t.test('a remembered token expires like any other', async t => {
  const { apiKey, clock, authenticator } = setUp()
  const token = mint(apiKey, { roles: ['admin:r'], exp: inSeconds(clock, 60) })
  const credential = credentialIn(authenticator, token)
  t.equal(credentialIn(authenticator, token), credential, 'it is remembered')
  clock.step(61_000)
  t.throws(() => credentialIn(authenticator, token), { message: /expired/ })
  t.equal(authenticator.refusalNow(credential), 'expired')
  clock.step(-61_000)
  t.equal(credentialIn(authenticator, token), credential, 'the clock is what counts')
})

t.test('a new key revokes every credential of the old one', async t => {
  const { apiKey, authenticator } = setUp()
  const token = mint(apiKey, { roles: ['admin:rw'] })
  const held = [credentialIn(authenticator, apiKey), credentialIn(authenticator, token)]
  const next = generateKey()
  authenticator.replaceKey(next)
  for (const credential of held) t.equal(authenticator.refusalNow(credential), 'key replaced')
  t.throws(() => credentialIn(authenticator, apiKey), { message: /not the API key in force/ })
  t.throws(() => credentialIn(authenticator, token), { message: /not made from the API key/ })
  t.equal(authenticator.refusalNow(credentialIn(authenticator, next)), undefined)
})

t.test('a bounded number of tokens is remembered, and none that was refused', async t => {
  const { apiKey, authenticator } = setUp()
  const first = mint(apiKey, { roles: [], jti: 'first' })
  const credential = credentialIn(authenticator, first)
  let refused = 0
  for (let n = 0; n < 10_000; n++) if (refusalOf(authenticator, `${first}${n}`)) refused++
  t.equal(refused, 10_000)
  t.equal(credentialIn(authenticator, first), credential, 'a flood of bad ones drops no good one')
  for (let n = 0; n < TOKEN_CACHE_SIZE; n++) credentialIn(authenticator, mint(apiKey, { roles: [], jti: n }))
  t.not(credentialIn(authenticator, first), credential, 'the oldest has gone, and is verified again')
})

t.test('tokens are remembered in turn, and expired ones take no place', async t => {
  const { apiKey, authenticator } = setUp()
  const tokenOf = (n: number) => mint(apiKey, { roles: [], jti: n })
  const half = TOKEN_CACHE_SIZE / 2
  const credentials = Array.from({ length: half + 1 }, (_, n) => credentialIn(authenticator, tokenOf(n)))
  for (let n = 0; n < TOKEN_CACHE_SIZE; n++)
    t.ok(refusalOf(authenticator, mint(apiKey, { roles: [], exp: 1, jti: n })), 'expired')
  for (const [n, credential] of credentials.entries())
    t.equal(credentialIn(authenticator, tokenOf(n)), credential, `token ${n}`)
})

t.test('a token of the greatest length is accepted', async t => {
  const { apiKey, authenticator } = setUp()
  const shorter = mint(apiKey, { roles: ['admin:r'], jti: '' }).length
  const token = mint(apiKey, {
    roles: ['admin:r'],
    jti: 'x'.repeat(Math.floor(((MAX_TOKEN_LENGTH - shorter) * 3) / 4)),
  })
  t.equal(token.length, MAX_TOKEN_LENGTH)
  t.match(credentialIn(authenticator, token), { isApiKey: false })
})

t.test('a wrong key of the length of a long signature is no token', async t => {
  const { authenticator } = setUp()
  authenticator.replaceKey('a'.repeat(86))
  t.throws(() => credentialIn(authenticator, 'b'.repeat(86)), { message: /not the API key in force/ })
})

t.test('the first use of the API key, or of a token made from it, is told once', async t => {
  const fleet = new TestIssuer('fleet')
  const issuers = new Map([['fleet', issuerIn('fleet', Buffer.from(fleet.file()))]])
  for (const isToken of [false, true]) {
    let uses = 0
    const { apiKey, authenticator } = setUp({ issuers, onFirstUse: () => uses++ })
    const texts = [apiKey, mint(apiKey, { roles: [] })]
    if (isToken) texts.reverse()
    t.ok(refusalOf(authenticator, generateKey()))
    t.ok(await authenticator.authenticate([fleet.token()], 'a'))
    t.ok(await authenticator.authenticate([fleet.token()], 'a'), 'remembered')
    credentialIn(authenticator, mint(apiKey, { roles: ['admin:r'], sub: JUDGE }))
    t.equal(uses, 0, 'neither a wrong key nor a token of an issuer, nor the judge of an update counts')
    for (const text of [...texts, ...texts]) {
      credentialIn(authenticator, text)
      t.equal(uses, 1)
    }
  }
})

t.test('the holder of a credential, as the log has it', async t => {
  const fleet = new TestIssuer('fleet')
  const issuers = new Map([['fleet', issuerIn('fleet', Buffer.from(fleet.file()))]])
  const { apiKey, authenticator } = setUp({ issuers })
  for (const [text, holder] of [
    [apiKey, 'the API key'],
    [mint(apiKey, { roles: [] }), 'a token'],
    [mint(apiKey, { roles: [], sub: 'panel-4' }), 'a token of panel-4'],
    [fleet.token(), 'a token, by the issuer fleet'],
    [fleet.token({ sub: 'ops' }), 'a token of ops, by the issuer fleet'],
    [fleet.token({ sub: 'x'.repeat(1100) }), `a token of ${'x'.repeat(64)}, by the issuer fleet`],
    [fleet.token({ sub: 'panel) did (it' }), 'a token of "panel) did (it", by the issuer fleet'],
    [fleet.token({ sub: 'ann, by the issuer ops' }), 'a token of "ann, by the issuer ops", by the issuer fleet'],
  ] as const)
    t.equal(holderOf(await authenticator.authenticate([text], 'a')), holder)
})

t.test(
  'a credential is valid until its expiry, and the leeway if this device made it; a timer that is set to it is not early',
  async t => {
    const { authenticator } = setUp({ clock: { now: () => 1_000_000.4 }, leewayS: 5 })
    const validMs = (exp: number | undefined, isIssued = false) =>
      authenticator.validMs({ exp, ...(isIssued ? { issued: {} } : {}) } as Credential)
    t.equal(validMs(undefined), Number.POSITIVE_INFINITY)
    t.equal(validMs(1_100), 105_001)
    t.equal(validMs(1_100.0006), 105_002, 'part of a millisecond counts as one')
    t.equal(validMs(1_100, true), 100_001)
    t.equal(validMs(900), 0)
  },
)

t.test('a clock before the build time is not believed', async t => {
  const builtAt = Date.now()
  const { apiKey, clock, log, authenticator } = setUp({ builtAt })
  const lasting = mint(apiKey, { roles: ['admin:r'] })
  const dated = mint(apiKey, { roles: ['admin:r'], exp: inSeconds(clock, 3600) })
  const credential = credentialIn(authenticator, dated)
  clock.step(-1e12)
  t.match(refusalOf(authenticator, dated)?.headers, ['WWW-Authenticate', /error_description="clock not set"/])
  t.throws(() => credentialIn(authenticator, mint(apiKey, { roles: [], nbf: 0 })), { message: /clock/ })
  t.equal(authenticator.refusalNow(credential), 'clock not set')
  t.ok(credentialIn(authenticator, lasting))
  t.ok(credentialIn(authenticator, apiKey))
  t.strictSame(log, ['warning: clock not set: refusing tokens with exp or nbf until it is'], 'once')
  clock.step(1e12)
  t.ok(credentialIn(authenticator, dated), 'and when it is set the token holds')
  t.equal(authenticator.refusalNow(credential, builtAt - 1), 'clock not set')
  t.equal(authenticator.refusalNow(credential, builtAt), undefined, 'at the moment of the build it may be right')
})
