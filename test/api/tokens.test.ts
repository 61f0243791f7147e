import t from 'tap'
import { JwtVerifier } from '../../src/auth/jwt.ts'
import { ManualClock } from '../support/clock.ts'
import { startTestService, type TestService } from '../support/service.ts'

const make = (service: TestService, body: unknown, token = service.key) =>
  service.fetchAs(token, '/tokens', {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'Content-Type': 'application/json' },
  })

t.test('a token has the roles, the subject and the expiry that were asked for', async t => {
  const service = await startTestService(t)
  const before = Math.floor(Date.now() / 1000)
  const answer = await make(service, { roles: ['moderator:rw', 'moderator:rw'], expiresIn: '8h', subject: 'panel-4' })
  t.equal(answer.status, 201)
  const { token, expiresAt, ...rest } = (await answer.json()) as { token: string; expiresAt: string }
  t.same(rest, {})
  t.match(expiresAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  const exp = Date.parse(expiresAt) / 1000
  t.ok(exp >= before + 8 * 3600 && exp <= Date.now() / 1000 + 8 * 3600)
  t.match(new JwtVerifier(service.key).verify(token), { exp, sub: 'panel-4' })
  t.equal((await service.fetchAs(token, '/sessions')).status, 200)
  t.equal((await service.fetchAs(token, '/system')).status, 403)
  t.same(service.said, [`notice: 127.0.0.1 made a token for panel-4 with moderator:rw, valid until ${expiresAt}`])
})

t.test('without an expiry it is valid until the key is replaced', async t => {
  const service = await startTestService(t)
  const { token, ...rest } = (await (await make(service, { roles: ['admin:r'] })).json()) as { token: string }
  t.same(rest, {})
  t.equal((await service.fetchAs(token)).status, 200)
  await service.fetch('/api-key', { method: 'POST' })
  t.equal((await service.fetchAs(token)).status, 401)
})

t.test('no token can make a token', async t => {
  const service = await startTestService(t)
  const answer = await make(service, { roles: ['moderator:r'] }, service.token(['admin:rw', 'moderator:rw']))
  t.equal(answer.status, 403)
  t.match(answer.headers.get('www-authenticate'), /error="insufficient_scope"$/, 'no scope would help')
})

t.test('a refusal names the member and the reason', async t => {
  const service = await startTestService(t)
  const roles = ['admin:r']
  const cases: readonly (readonly [body: unknown, pointer: string, detail: string | RegExp])[] = [
    [[], '', 'must be of type object'],
    [{}, '', 'missing required property roles'],
    [{ roles: [] }, '/roles', 'invalid value; expected: One or more roles'],
    [{ roles: 'admin:r' }, '/roles', 'must be of type array'],
    [{ roles: ['admin'] }, '/roles/0', /^must be one of admin:r, admin:w, admin:rw, admin:wr, moderator:r, /],
    [{ roles: ['admin:r', 'root:r'] }, '/roles/1', /^must be one of /],
    ...['', '8', '1.5h', '-1h', '0s', '00d', '1w', '1234567890s', ' 8h', '8h\n', 8].map(
      expiresIn => [{ roles, expiresIn }, '/expiresIn', /./] as const,
    ),
    [{ roles, expiresIn: '0s' }, '/expiresIn', /^invalid value; expected: A duration such as 90s, .* at least 1s/],
    [{ roles, expiresIn: '999999999d' }, '/expiresIn', 'must end before the year 10000'],
    ...['', 'x'.repeat(65), 'a\nb', 'a\u0085b', null].map(subject => [{ roles, subject }, '/subject', /./] as const),
    [{ roles, nbf: 1 }, '/nbf', 'unknown property'],
    [{ roles, expires: '8h' }, '/expires', 'unknown property; did you mean expiresIn?'],
  ]
  for (const [body, pointer, detail] of cases) {
    const answer = await make(service, body)
    t.equal(answer.status, 422, JSON.stringify(body))
    t.match(await answer.json(), { errors: [{ pointer, detail }] }, JSON.stringify(body))
  }
  t.same(service.said, [])
})

t.test('an expiry needs a clock', async t => {
  const clock = new ManualClock()
  const service = await startTestService(t, { clock, builtAt: Date.now() + 1_000_000 })
  const answer = await make(service, { roles: ['admin:r'], expiresIn: '8h' })
  t.equal(answer.status, 409)
  t.match(await answer.json(), { detail: 'The clock of this device is not set: set it, or leave out expiresIn.' })
  t.equal((await make(service, { roles: ['admin:r'] })).status, 201)
  clock.step(1_000_000)
  t.equal((await make(service, { roles: ['admin:r'], expiresIn: '8h' })).status, 201)
})

t.test('each subject that is accepted gives a token that is accepted', async t => {
  const service = await startTestService(t)
  for (const subject of ['🎥'.repeat(64), '"\\'.repeat(32), '\u202e<img onerror>']) {
    const { token } = (await (await make(service, { roles: ['admin:r'], subject })).json()) as { token: string }
    t.equal((await service.fetchAs(token)).status, 200, subject)
  }
  t.notMatch(service.said.join(), /eyJ/, 'no token is in the log')
})
