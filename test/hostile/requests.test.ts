import t from 'tap'
import { startTestService } from '../support/service.ts'

t.test('anything but an HTTP request is answered with one problem', async t => {
  const service = await startTestService(t)
  const line = 'GET /api/v1/health HTTP/1.1\r\nHost: device\r\n'
  for (const [name, bytes, status] of [
    ['a head over 8 KiB', `${line}X: ${'x'.repeat(8_192)}\r\n\r\n`, 431],
    ['a target over 8 KiB', `GET /${'x'.repeat(8_192)} HTTP/1.1\r\nHost: device\r\n\r\n`, 431],
    ['many headers over 8 KiB', `${line}${'X-Filler: abcdefgh\r\n'.repeat(600)}\r\n`, 431],
    ['NUL bytes', '\0\0\0\0\0\0\0\0', 400],
    ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['an unknown method', 'BREW / HTTP/1.1\r\nHost: device\r\n\r\n', 400],
    ['a method in lower case', line.toLowerCase(), 400],
    ['a space in the target', 'GET /a b HTTP/1.1\r\nHost: device\r\n\r\n', 400],
    ['a NUL in the target', 'GET /a\0b HTTP/1.1\r\nHost: device\r\n\r\n', 400],
    ['a NUL in a header', `${line}X: a\0b\r\n\r\n`, 400],
    ['LF alone', line.replace('\r\n', '\n\n'), 400],
    ['LF alone after a header', `${line}X: a\nY: b\r\n\r\n`, 400],
    ['CR alone', `${line}X: a\rY: b\r\n\r\n`, 400],
    ['a header with no name', `${line}: a\r\n\r\n`, 400],
    ['a header with no colon', `${line}X\r\n\r\n`, 400],
    ['a header with a space in its name', `${line}X Y: a\r\n\r\n`, 400],
    ['a folded header', `${line}X: a\r\n b\r\n\r\n`, 400],
    ['garbage behind a request', `${line}\r\n\x7f\x7f\x7f`, 400],
  ] as const) {
    const answer = await service.raw(Buffer.from(bytes, 'latin1'))
    const problem = answer.slice(answer.search(/HTTP\/1\.1 [45]\d\d /))
    t.match(problem, new RegExp(`^HTTP/1\\.1 ${status} .*\r\nContent-Type: application/problem\\+json\r\n`, 's'), name)
    t.match(problem, /\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n/, name)
    t.match(problem, /\r\nConnection: close\r\n/, name)
    const [head = '', body = ''] = problem.split('\r\n\r\n')
    t.equal(Number(/Content-Length: (\d+)/.exec(head)?.[1]), Buffer.byteLength(body), `${name}: as long as it says`)
    t.equal(JSON.parse(body).status, status, name)
  }
  t.equal(await service.raw('CONNECT a.example:443 HTTP/1.1\r\nHost: device\r\n\r\n'), '', 'no proxy')
  t.equal((await service.fetch('/health')).status, 200)
  t.strictSame(service.said, [])
})

t.test('an unusual request is answered correctly', async t => {
  const service = await startTestService(t)
  const key = `Authorization: Bearer ${service.key}\r\n`
  for (const [name, bytes, statuses] of [
    ['HTTP/1.0', 'GET /api/v1/health HTTP/1.0\r\n\r\n', [200]],
    [
      'a request for another protocol',
      'GET /api/v1/health HTTP/1.1\r\nHost: device\r\nUpgrade: h2c\r\nConnection: upgrade, close\r\n\r\n',
      [200],
    ],
    [
      'absolute form',
      'GET http://a.example/api/v1/health HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n',
      [200],
    ],
    [
      'an absolute form that ends with the host',
      'GET http://a.example HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n',
      [404],
    ],
    ['asterisk form', 'OPTIONS * HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n', [404]],
    ['two hosts', 'GET /api/v1/health HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n', [400]],
    ['dots in the path', 'GET /api/v1/x/../health HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n', [404]],
    ['an escaped path', 'GET /api/v1/%68ealth HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n', [404]],
    ['a path of a prototype', 'GET /__proto__ HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n', [404]],
    [
      'a GET with a body',
      `GET /api/v1/system HTTP/1.1\r\nHost: device\r\n${key}Content-Length: 14\r\n\r\nGET / HTTP/1.1GET /api/v1/health HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n`,
      [422],
    ],
    [
      'a POST with a body',
      `POST /api/v1/api-key HTTP/1.1\r\nHost: device\r\nAuthorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}GET /api/v1/health HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n`,
      [401, 200],
    ],
    [
      'another expectation',
      'GET /api/v1/health HTTP/1.1\r\nHost: device\r\nExpect: more\r\nConnection: close\r\n\r\n',
      [417],
    ],
    ['empty query', 'GET /api/v1/health? HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n', [200]],
    [
      'a cursor that is empty',
      `GET /api/v1/events?initialEventId= HTTP/1.1\r\nHost: device\r\n${key}Connection: close\r\n\r\n`,
      [400],
    ],
    [
      'a cursor twice',
      `GET /api/v1/events?initialEventId=a&initialEventId=a HTTP/1.1\r\nHost: device\r\n${key}Connection: close\r\n\r\n`,
      [400],
    ],
    [
      'a cursor with a broken escape',
      `GET /api/v1/events?initialEventId=%zz%E0%A4%A HTTP/1.1\r\nHost: device\r\n${key}Connection: close\r\n\r\n`,
      [400],
    ],
    ['a key that is empty', 'GET /api/v1/system?apiKey= HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n', [401]],
    [
      'a key twice',
      `GET /api/v1/system?apiKey=${service.key}&apiKey=${service.key} HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n`,
      [400],
    ],
    [
      'a key with a broken escape',
      'GET /api/v1/system?apiKey=%zz%E0%A4%A HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n',
      [401],
    ],
    [
      'a key in escapes',
      `GET /api/v1/system?%61piKey=${service.key} HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n`,
      [200],
    ],
    [
      'a stream behind a request that is not answered yet',
      `PATCH /api/v1/system HTTP/1.1\r\nHost: device\r\n${key}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}GET /api/v1/events HTTP/1.1\r\nHost: device\r\n${key}Accept: text/event-stream\r\n\r\nGET / HTTP/1.1\r\nHost: device\r\n\r\n`,
      [200, 200],
    ],
    [
      'a held poll with garbage behind',
      `GET /api/v1/events HTTP/1.1\r\nHost: device\r\n${key}If-None-Match: *\r\n\r\n\0\0`,
      [304, 400],
    ],
  ] as const) {
    const answer = await service.raw(bytes)
    t.strictSame(
      Array.from(answer.matchAll(/HTTP\/1\.1 (\d{3})/g), match => Number(match[1])),
      statuses,
      name,
    )
  }
  t.match(service.said, [/^warning: 127\.0\.0\.1: refused a credential: /])
  t.equal(service.said.length, 1)
})

t.test('connections over the limit are closed, and the others go on', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_CONNECTIONS: '2' } })
  const streams = [await service.stream(), await service.stream()]
  t.equal(await service.raw('GET /api/v1/health HTTP/1.1\r\nHost: device\r\n\r\n').catch(() => ''), '')
  t.strictSame(service.said, ['warning: 127.0.0.1: refused a connection: all 2 connections are taken'])
  streams[0]?.close()
  await streams[0]?.ended
  t.match(
    await service.raw('GET /api/v1/health HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n'),
    /^HTTP\/1\.1 200 /,
  )
  streams[1]?.close()
})
