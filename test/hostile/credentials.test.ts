import t from 'tap'
import { mint } from '../../src/auth/jwt.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** Reads the configuration with these header lines; resolves with the status and the error_description. */
async function ask(service: TestService, headers: readonly string[], query = ''): Promise<readonly [number, string]> {
  const lines = [...headers, 'Connection: close'].map(line => `${line}\r\n`).join('')
  const answer = await service.raw(
    Buffer.from(`GET /api/v1/system${query} HTTP/1.1\r\nHost: device\r\n${lines}\r\n`, 'latin1'),
  )
  const description = /error_description="([^"]+)"/.exec(answer)?.[1] ?? ''
  return [Number(answer.split(' ', 2)[1]), description]
}

const basic = (text: string) => `Authorization: Basic ${Buffer.from(text).toString('base64')}`

t.test('a repeated Authorization header is refused, whatever the values', async t => {
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

t.test('a refused credential is answered with the reason, in every form', async t => {
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

t.test('of concurrent rotations one succeeds: the others have a key that is replaced by then', async t => {
  const service = await startTestService(t)
  const { key } = service
  const ask = () =>
    fetch(`${service.url}/api/v1/api-key`, { method: 'POST', headers: { Authorization: `Bearer ${key}` } })
  const answers = await Promise.all(Array.from({ length: 8 }, ask))
  t.strictSame(answers.map(answer => answer.status).sort(), [200, 401, 401, 401, 401, 401, 401, 401])
  const made = await answers.find(answer => answer.ok)?.json()
  t.strictSame(made, { apiKey: service.key, issuers: [] })
})

t.test('a credential in the wrong form is refused with advice', async t => {
  const service = await startTestService(t)
  const { key } = service
  for (const [name, header, advice] of [
    ['another scheme', `Authorization: Token ${key}`, 'a scheme that is not supported. Send Authorization: Bearer'],
    ['another scheme, with parameters', 'Authorization: Digest username="x"', 'a scheme that is not supported'],
    ['no scheme', `Authorization: ${key}`, 'no scheme in front of the credential. Send Authorization: Bearer'],
    ['a scheme alone', 'Authorization: Bearer', 'The credential is empty'],
    ['Basic alone', 'Authorization: Basic', 'The credential is empty'],
    ['the key as the user name', basic(`${key}:`), 'is the password and not the user name: curl -u :CREDENTIAL'],
    [
      'the key without a colon',
      basic(key),
      'neither an API key (43 characters, unless the device was given its key) nor a token (three parts',
    ],
    [
      'a word',
      'Authorization: Bearer secret',
      'neither an API key (43 characters, unless the device was given its key) nor a token (three parts',
    ],
  ] as const) {
    const answer = await service.raw(
      `GET /api/v1/system HTTP/1.1\r\nHost: device\r\nConnection: close\r\n${header}\r\n\r\n`,
    )
    t.match(answer, /^HTTP\/1\.1 401 .*error="invalid_token", error_description="malformed"/s, name)
    const { detail } = JSON.parse(answer.slice(answer.indexOf('{')))
    t.match(detail, advice, name)
    t.match(detail, /[^.…]\.$/, name)
    t.notMatch(answer, key, name)
  }
  const answer = await (await fetch(`${service.url}/api/v1/system`)).json()
  t.match(answer, {
    detail: 'Send the API key or a token, as Authorization: Bearer CREDENTIAL or as ?apiKey=CREDENTIAL.',
  })
})

t.test('only the whitespace of HTTP may surround a credential', async t => {
  const service = await startTestService(t)
  for (const token of [service.key, service.token(['admin:r'])]) {
    const base64 = Buffer.from(`:${token}`).toString('base64')
    for (const space of [' ', '\t', '  \t'])
      t.strictSame(await ask(service, [`Authorization: Bearer ${space}${token}${space}`]), [200, ''])
    for (const other of ['\u00a0', '\u0085', '\x0b', '\x0c', '\u00ad'])
      for (const [name, header] of [
        ['before', `Bearer ${other}${token}`],
        ['behind', `Bearer ${token}${other}`],
        ['behind Basic', `Basic ${token}${other}`],
        ['behind base64', `Basic ${base64}${other}`],
        ['inside base64', `Basic ${base64.slice(0, 8)}${other}${base64.slice(8)}`],
      ] as const) {
        const [status] = await ask(service, [`Authorization: ${header}`])
        t.match(status, /^40[01]$/, `${JSON.stringify(other)} ${name}`)
      }
    t.strictSame(await ask(service, [], `?apiKey=${token}%C2%A0`), [401, 'malformed'])
  }
})

t.test('refused credentials are logged with the address, and never the credential', async t => {
  const service = await startTestService(t)
  for (let n = 0; n < 5; n++) await ask(service, ['Authorization: Bearer nobody'])
  await ask(service, [])
  t.strictSame(service.said, ['warning: 127.0.0.1: refused a credential: malformed'])
})

t.test('a replaced key is logged with the address', async t => {
  const service = await startTestService(t)
  await service.fetch('/api-key', { method: 'POST' })
  t.ok(service.said.includes('notice: 127.0.0.1 replaced the API key'))
})
