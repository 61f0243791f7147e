import t from 'tap'
import { mint } from '../../src/auth/jwt.ts'
import { startTestService } from '../support/service.ts'

t.test('no answer and no line of the log ever has a credential or a path of ours', async t => {
  const service = await startTestService(t)
  const { key } = service
  const token = service.token(['moderator:rw'], { sub: 'panel' })
  const expired = service.token(['admin:rw'], { exp: 1 })
  const stranger = mint('B'.repeat(43), { roles: ['admin:rw'] })
  const secrets = [key, token, expired, stranger, token.split('.')[2] ?? '', Buffer.from(`:${key}`).toString('base64')]
  const answers: string[] = []
  const ask = async (request: string) => answers.push(await service.raw(Buffer.from(request, 'latin1')))
  const close = 'Connection: close\r\n'
  for (const secret of [key, token, expired, stranger, `${key}x`, `${key}\x00`, `${key}\xff`])
    for (const [path, header] of [
      ['/api/v1/system', `Authorization: Bearer ${secret}\r\n`],
      ['/api/v1/system', `Authorization: Basic ${secret}\r\n`],
      ['/api/v1/system', `Authorization: Digest ${secret}\r\n`],
      ['/api/v1/system', `Authorization: ${secret}\r\n`],
      ['/api/v1/system', `Authorization: Bearer ${secret}\r\nAuthorization: Bearer x\r\n`],
      ['/api/v1/system', `Authorization Bearer ${secret}\r\n`],
      [`/api/v1/system?apiKey=${secret}&apiKey=${secret}`, ''],
      [`/api/v1/system?apiKey=${secret}%zz`, ''],
      [`/api/v1/system?apiKey=${secret}`, 'Authorization: Bearer x\r\n'],
      [`/api/v1/${secret}?apiKey=${secret}`, ''],
      [`/api/v1/events?initialEventId=${secret}`, `Authorization: Bearer ${key}\r\n`],
      ['/api/v1/events', `Authorization: Bearer ${key}\r\nIf-None-Match: "${secret}"\r\n`],
      ['/api/v1/events', `Authorization: Bearer ${key}\r\nAccept: text/event-stream\r\nLast-Event-ID: ${secret}\r\n`],
      ['/api/v1/health', `Expect: ${secret}\r\n`],
      ['/api/v1/health', `Content-Length: ${secret}\r\n`],
    ] as const)
      for (const method of ['GET', 'DELETE', 'POST', 'PATCH'])
        await ask(`${method} ${path} HTTP/1.1\r\nHost: device\r\n${header}${close}\r\n`)
  await ask(`GET ${key} HTTP/1.1\r\nHost: device\r\n\r\n`)
  await ask(`${key} / HTTP/1.1\r\nHost: device\r\n\r\n`)
  await ask(`GET /?apiKey=${key}${'x'.repeat(9_000)} HTTP/1.1\r\nHost: device\r\n\r\n`)
  const json = 'Content-Type: application/json\r\n'
  for (const body of [`"${key}"`, `{"deviceName":"${key}`, `{"hostname":"${key}!"}`, `{"ntp":{"servers":["${key}/"]}}`])
    await ask(
      `PATCH /api/v1/system HTTP/1.1\r\nHost: device\r\nAuthorization: Bearer ${key}\r\n${json}${close}Content-Length: ${body.length}\r\n\r\n${body}`,
    )
  t.ok(answers.length > 400)
  for (const answer of answers) {
    t.notMatch(answer, / 500 /)
    t.notOk(
      secrets.some(secret => answer.includes(secret)),
      answer.slice(0, 60),
    )
    t.notMatch(answer, /\.ts|node:|\/tmp\/|var\/lib/, 'no path, no stack')
  }
  t.equal(service.said.length, 1, 'refused clients write a line a minute into the log')
  t.match(service.said, [/^warning: 127\.0\.0\.1: refused a credential: [a-z ]+$/])
  t.notOk(secrets.some(secret => service.log.join().includes(secret)))
})

t.test('a flood of refused credentials takes no memory', async t => {
  const service = await startTestService(t)
  const requests = (n: number) =>
    Array.from({ length: 20 }, (_, m) => {
      const name = `${n}-${m}`.padEnd(2_000, 'x')
      const credential = m % 2 ? mint(name, { roles: ['admin:r'] }) : name
      return `GET /api/v1/system?apiKey=${credential} HTTP/1.1\r\nHost: device\r\n${m === 19 ? 'Connection: close\r\n' : ''}\r\n`
    }).join('')
  const flood = async (rounds: number) => {
    for (let n = 0; n < rounds; n++) t.match(await service.raw(requests(n)), /^(HTTP\/1\.1 401 .*?\}){20}$/s)
  }
  await flood(100)
  const before = process.memoryUsage().rss
  await flood(300)
  const grown = (process.memoryUsage().rss - before) / 1e6
  // If they were remembered, their text alone would be 12 MB.
  t.ok(grown < 40, `${grown} MB more`)
  t.strictSame(service.said, ['warning: 127.0.0.1: refused a credential: malformed'], 'nor by the log')
})
