import t from 'tap'
import { Authenticator } from '../../src/auth/authenticator.ts'
import { mint } from '../../src/auth/jwt.ts'
import { generateKey } from '../../src/auth/key-file.ts'
import { TOKEN_CACHE_SIZE } from '../../src/limits.ts'
import { Problem } from '../../src/problem.ts'
import { ManualClock } from '../support/clock.ts'
import { credentialIn } from '../support/credential.ts'

function setUp(builtAt = 0) {
  const apiKey = generateKey()
  const clock = new ManualClock()
  const log: string[] = []
  const options = { clock, log: (_: string, message: string) => log.push(message), builtAt, leewayS: 0 }
  return { apiKey, clock, log, authenticator: new Authenticator(apiKey, options) }
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

t.test('a clock before the build time is not believed', async t => {
  const { apiKey, clock, log, authenticator } = setUp(Date.now())
  const lasting = mint(apiKey, { roles: ['admin:r'] })
  const dated = mint(apiKey, { roles: ['admin:r'], exp: inSeconds(clock, 3600) })
  const credential = credentialIn(authenticator, dated)
  clock.step(-1e12)
  t.match(refusalOf(authenticator, dated)?.headers, ['WWW-Authenticate', /error_description="clock not set"/])
  t.throws(() => credentialIn(authenticator, mint(apiKey, { roles: [], nbf: 0 })), { message: /clock/ })
  t.equal(authenticator.refusalNow(credential), 'clock not set')
  t.ok(credentialIn(authenticator, lasting))
  t.ok(credentialIn(authenticator, apiKey))
  t.equal(log.length, 1, 'the log says so once')
  clock.step(1e12)
  t.ok(credentialIn(authenticator, dated), 'and when it is set the token holds')
})
