import t from 'tap'
import { mint } from '../../src/auth/jwt.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** A request to read the configuration with these header lines; the status, and what the answer says about it. */
async function ask(service: TestService, headers: readonly string[], query = ''): Promise<readonly [number, string]> {
  const lines = [...headers, 'Connection: close'].map(line => `${line}\r\n`).join('')
  const answer = await service.raw(
    Buffer.from(`GET /api/v1/system${query} HTTP/1.1\r\nHost: device\r\n${lines}\r\n`, 'latin1'),
  )
  const description = /error_description="([^"]+)"/.exec(answer)?.[1] ?? ''
  return [Number(answer.split(' ', 2)[1]), description]
}

const basic = (text: string) => `Authorization: Basic ${Buffer.from(text).toString('base64')}`

t.test('two Authorization headers are refused, whatever is in them', async t => {
  const service = await startTestService(t)
  const good = `Authorization: Bearer ${service.key}`
  for (const [first, second] of [
    [good, good],
    [good, 'Authorization: Bearer x'],
    ['Authorization: Bearer x', good],
    ['Authorization:', good],
    [good, 'authorization:'],
  ] as const)
    t.strictSame(await ask(service, [first, second]), [400, ''], `${first.slice(0, 16)}, ${second.slice(0, 16)}`)
  t.strictSame(
    await ask(service, ['Authorization:', good], `?apiKey=${service.key}`),
    [400, ''],
    'the query heals nothing',
  )
  t.strictSame(await ask(service, ['Authorization:'], `?apiKey=${service.key}`), [200, ''], 'an empty one is none')
})

t.test('a refused credential says why, in every way to send it', async t => {
  const service = await startTestService(t)
  for (const [name, token, why] of [
    ['expired', service.token(['admin:r'], { exp: 1 }), 'expired'],
    ['expired and long', service.token(['admin:r'], { exp: 1, pad: 'x'.repeat(2_800) }), 'expired'],
    ['not yet valid', service.token(['admin:r'], { nbf: 4e9 }), 'not yet valid'],
    ['of another key', mint('A'.repeat(43), { roles: ['admin:r'] }), 'bad signature'],
    ['another key', 'A'.repeat(43), 'unknown key'],
    ['nothing', '', 'malformed'],
    ['no token', 'a.b.c', 'malformed'],
    ['over the limit', 'a'.repeat(4_097), 'too long'],
  ] as const) {
    t.strictSame(await ask(service, [`Authorization: Bearer ${token}`]), [401, why], `${name}, Bearer`)
    t.strictSame(await ask(service, [`Authorization: Basic ${token}`]), [401, why], `${name}, Basic`)
    t.strictSame(await ask(service, [basic(`user:${token}`)]), [401, why], `${name}, user and password`)
    t.strictSame(await ask(service, [], `?apiKey=${token}`), [401, why], `${name}, query`)
  }
})

t.test('of rotations asked for at once one is done: the others ask with a key that is replaced', async t => {
  const service = await startTestService(t)
  const { key } = service
  const ask = () =>
    fetch(`${service.url}/api/v1/api-key`, { method: 'POST', headers: { Authorization: `Bearer ${key}` } })
  const answers = await Promise.all(Array.from({ length: 8 }, ask))
  t.strictSame(answers.map(answer => answer.status).sort(), [200, 401, 401, 401, 401, 401, 401, 401])
  const made = await answers.find(answer => answer.ok)?.json()
  t.strictSame(made, { apiKey: service.key })
})
