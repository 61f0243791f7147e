import t from 'tap'
import { startTestService } from '../support/service.ts'

t.test('checks are made in the documented order', async t => {
  const service = await startTestService(t)
  const reader = `Bearer ${service.token(['admin:r'])}`
  const moderator = `Bearer ${service.token(['moderator:rw'])}`
  const cases: readonly (readonly [name: string, path: string, init: RequestInit, status: number])[] = [
    ['no such path, no credential', '/nothing', { headers: { Authorization: '' } }, 404],
    ['no such path, any method', '/nothing', { method: 'PATCH' }, 404],
    ['a slash too many', '/system/', {}, 404],
    ['no such method, no credential', '/system', { method: 'DELETE', headers: { Authorization: '' } }, 405],
    ['no credential', '/system', { headers: { Authorization: '' } }, 401],
    ['another scheme', '/system', { headers: { Authorization: 'Digest x' } }, 401],
    ['the wrong key', '/system', { headers: { Authorization: `Bearer ${'A'.repeat(43)}` } }, 401],
    ['no grant', '/system', { headers: { Authorization: moderator } }, 403],
    ['no grant, before the body', '/system', { method: 'PATCH', body: 'x', headers: { Authorization: reader } }, 403],
    [
      'a stale tag, before the media type',
      '/system',
      { method: 'PATCH', body: 'x', headers: { 'If-Match': '"x"' } },
      412,
    ],
    ['a tag without quotes', '/system', { method: 'PATCH', body: 'x', headers: { 'If-Match': 'x' } }, 400],
    ['a media type, before the body', '/system', { method: 'PATCH', body: 'x' }, 415],
    ['no JSON', '/system', { method: 'PATCH', body: 'x', headers: { 'Content-Type': 'application/json' } }, 400],
    [
      'a token for the key',
      '/api-key',
      { method: 'POST', headers: { Authorization: `Bearer ${service.token(['admin:rw'])}` } },
      403,
    ],
  ]
  for (const [name, path, init, status] of cases) {
    const answer = await service.fetch(path, init)
    t.equal(answer.status, status, name)
    t.equal(answer.headers.get('content-type'), 'application/problem+json', name)
    t.equal(answer.headers.get('cache-control'), 'no-store', name)
    t.equal(answer.headers.get('x-content-type-options'), 'nosniff', name)
    const problem = (await answer.json()) as Record<string, unknown>
    t.match(problem, { type: /^urn:receiverd:problem:[a-z-]+$/, title: String, status, detail: /[^.…?][.?]$/ }, name)
  }
})

t.test('WWW-Authenticate tells what would be sufficient', async t => {
  const service = await startTestService(t)
  const challenge = async (path: string, init: RequestInit) =>
    (await service.fetch(path, init)).headers.get('www-authenticate')
  const as = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } })
  t.equal(await challenge('/system', { headers: { Authorization: '' } }), 'Bearer realm="receiverd"')
  t.equal(
    await challenge('/system', as(service.token(['admin:w']))),
    'Bearer realm="receiverd", error="insufficient_scope", scope="admin:r"',
  )
  t.equal(
    await challenge('/api-key', { method: 'POST', ...as(service.token(['admin:rw'])) }),
    'Bearer realm="receiverd", error="insufficient_scope"',
  )
  const reasons = [
    [service.token(['admin:r'], { exp: 1 }), 'expired'],
    [`${service.token(['admin:r']).slice(0, -4)}AAAA`, 'bad signature'],
    ['nonsense', 'malformed'],
    ['', 'malformed'],
    ['A'.repeat(43), 'unknown key'],
    [`${'a'.repeat(4_097)}`, 'too long'],
    [service.token(['admin:r'], { nbf: 4_102_444_800 }), 'not yet valid'],
  ] as const
  for (const [token, reason] of reasons)
    t.equal(
      await challenge('/system', as(token)),
      `Bearer realm="receiverd", error="invalid_token", error_description="${reason}"`,
      reason,
    )
})

t.test('a credential is accepted in every form, and only once', async t => {
  const service = await startTestService(t)
  const token = service.token(['admin:r'])
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const status = async (query: string, header?: string) =>
    (await service.fetch(`/system${query}`, { headers: { Authorization: header ?? '' } })).status
  for (const credential of [service.key, token]) {
    t.equal(await status('', `Bearer ${credential}`), 200)
    t.equal(await status('', `bEaReR   ${credential}`), 200)
    t.equal(await status('', `Basic ${credential}`), 200)
    t.equal(await status('', `basic ${base64(`:${credential}`)}`), 200)
    t.equal(await status('', `Basic ${base64(`user:${credential}`)}`), 200)
    t.equal(await status('', `Basic ${base64(credential)}`), 401, 'RFC 7617 has a user')
    t.equal(await status(`?apiKey=${credential}`), 200)
    t.equal(await status(`?apiKey=${credential}`, `Bearer ${credential}`), 200, 'the same twice')
    t.equal(await status(`?apiKey=${credential}`, `Basic ${base64(`x:${credential}`)}`), 200)
    t.equal(await status(`?apiKey=${credential}&apiKey=${credential}`), 400)
    t.equal(await status(`?apiKey=${credential}`, 'Bearer other'), 400)
  }
  t.equal(await status(`?apiKey=${service.key}`, `Bearer ${token}`), 400)
  t.equal(await status('?apiKey='), 401)
  const head = `GET /api/v1/system HTTP/1.1\r\nHost: device\r\nConnection: close\r\n`
  const twice = await service.raw(`${head}Authorization: Bearer ${token}\r\nauthorization: Bearer ${token}\r\n\r\n`)
  t.match(twice, /^HTTP\/1\.1 400 /)
})

t.test('any origin may read answers, unless there is a list', async t => {
  const open = await startTestService(t)
  const answer = await open.fetch('/system', { headers: { Origin: 'https://panel.example' } })
  t.equal(answer.headers.get('access-control-allow-origin'), '*')
  t.match(answer.headers.get('access-control-expose-headers'), /\bETag\b/)

  const listed = await startTestService(t, {
    env: { RECEIVERD_ORIGINS: 'https://panel.example, https://other.example' },
  })
  const from = async (origin: string) =>
    (await listed.fetch('/health', { headers: { Origin: origin } })).headers.get('access-control-allow-origin')
  t.equal(await from('https://panel.example'), 'https://panel.example')
  t.equal(await from('https://evil.example'), null)
  t.equal((await listed.fetch('/health')).headers.get('vary'), 'Origin')

  const preflight = (path: string) =>
    fetch(`${open.url}${path}`, {
      method: 'OPTIONS',
      headers: { Origin: 'https://panel.example', 'Access-Control-Request-Method': 'PATCH' },
    })
  const allowed = await preflight('/api/v1/system')
  t.equal(allowed.status, 204)
  t.equal(allowed.headers.get('access-control-allow-methods'), 'GET, HEAD, PATCH')
  t.match(allowed.headers.get('access-control-allow-headers'), /Authorization.*If-Match.*Last-Event-ID/)
  t.equal((await preflight('/api/v1/nothing')).status, 404)
  t.equal((await fetch(`${open.url}/api/v1/system`, { method: 'OPTIONS' })).status, 405, 'no preflight')
})

t.test('405 has Allow; HEAD is answered as GET without a body', async t => {
  const service = await startTestService(t)
  t.equal((await service.fetch('/system', { method: 'PUT' })).headers.get('allow'), 'GET, HEAD, PATCH')
  t.equal((await service.fetch('/api-key')).headers.get('allow'), 'POST')
  const get = await service.fetch('/system')
  const head = await service.fetch('/system', { method: 'HEAD' })
  for (const name of ['etag', 'content-length', 'content-type'])
    t.equal(head.headers.get(name), get.headers.get(name), name)
  t.equal(await head.text(), '')
})

t.test('HTTP/1.1 requires one valid Host, and HTTP/1.0 none (RFC 9112 §3.2)', async t => {
  const service = await startTestService(t)
  const ask = (head: string) => service.raw(`${head}\r\nConnection: close\r\n\r\n`)
  const cases: readonly (readonly [version: string, hosts: readonly string[], status: number])[] = [
    ['1.0', [], 200],
    ['1.0', ['device'], 200],
    ['1.0', ['a', 'b'], 400],
    ['1.0', ['a/b'], 400],
    ['1.1', [], 400],
    ['1.1', ['a', 'b'], 400],
    ['1.1', ['a', 'a'], 400],
    ['1.1', ['a', ''], 400],
    ['1.1', [''], 200],
    ['1.1', ['device'], 200],
    ['1.1', ['Room_4.example.'], 200],
    ['1.1', ['192.0.2.7:8080'], 200],
    ['1.1', ['device:'], 200],
    ['1.1', ['%41'], 200],
    ['1.1', ['[2001:db8::7]:8080'], 200],
    ['1.1', ['[fe80::1%25eth0]'], 200],
    ['1.1', ['[2001:db8::7'], 400],
    ['1.1', ['[::ffff:192.0.2.7]'], 200],
    ['1.1', ['[nonsense]'], 400],
    ['1.1', ['[::1]x'], 400],
    ['1.1', ['2001:db8::7'], 400],
    ['1.1', ['a b'], 400],
    ['1.1', ['a,b'], 200],
    ['1.1', ['a/b'], 400],
    ['1.1', ['user@a'], 400],
    ['1.1', ['http://a'], 400],
    ['1.1', ['a:80:80'], 400],
    ['1.1', ['a:http'], 400],
    ['1.1', ['%zz'], 400],
    ['1.1', ['a\u00a0'], 400],
    ['1.1', ['é'], 400],
  ]
  for (const [version, hosts, status] of cases) {
    const lines = hosts.map(host => `\r\nHost: ${host}`).join('')
    const answer = await ask(`GET /api/v1/health HTTP/${version}${lines}`)
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), `HTTP/${version}, ${JSON.stringify(hosts)}`)
    if (status === 400) t.match(answer, /application\/problem\+json.*The Host header |must have a Host header/s)
  }
  t.match(await ask('GET /api/v1/nothing HTTP/1.1'), /^HTTP\/1\.1 400 /, 'before 404')
  t.match(await ask('GET /api/v1/system HTTP/1.1'), /^HTTP\/1\.1 400 /, 'before 401')
})

t.test('a target in absolute form names its host itself (RFC 9112 §3.2.2)', async t => {
  const service = await startTestService(t)
  for (const [target, status] of [
    ['http://device.example:80/api/v1/health', 200],
    ['HTTPS://[2001:db8::7]/api/v1/health?x', 200],
    ['http://a.example', 404],
    ['http:///api/v1/health', 400],
    ['http://:80/api/v1/health', 400],
    ['http://user@a.example/api/v1/health', 400],
    ['http://[nonsense]/api/v1/health', 400],
    ['ftp://a.example/api/v1/health', 404],
  ] as const)
    t.match(
      await service.raw(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`),
      new RegExp(`^HTTP/1\\.1 ${status} `),
      target,
    )
})

t.test('exactly the two open routes need no credential', async t => {
  const service = await startTestService(t)
  const { paths } = (await (await fetch(`${service.url}/api/v1/openapi.json`)).json()) as {
    paths: Record<string, object>
  }
  const open: string[] = []
  for (const [path, methods] of Object.entries(paths))
    for (const method of Object.keys(methods))
      if ((await fetch(service.url + path, { method: method.toUpperCase() })).status !== 401)
        open.push(`${method} ${path}`)
  t.strictSame(open, ['get /api/v1/health', 'get /api/v1/openapi.json'])
})

t.test('100 Continue is for HTTP/1.1', async t => {
  const service = await startTestService(t)
  const body = '{"deviceName":"Hall"}'
  const ask = (version: string) =>
    service.raw(
      `PATCH /api/v1/system HTTP/${version}\r\nHost: device\r\nAuthorization: Bearer ${service.key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n${body}`,
    )
  t.match(await ask('1.1'), /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /)
  t.match(await ask('1.0'), /^HTTP\/1\.1 200 /, 'RFC 9110 §15.2')
})

t.test('a precondition that names no ETag is refused rather than ignored', async t => {
  const service = await startTestService(t)
  const { etag } = await service.system()
  const cases: readonly (readonly [headers: readonly string[], status: number, detail?: RegExp])[] = [
    [[], 200],
    [[`If-Match: ${etag}`], 200],
    [[`If-Match: , "x",, ${etag} ,`], 200],
    [['If-Match: "x"', `If-Match: ${etag}`], 200],
    [['If-Match: *'], 200],
    [['If-Match:'], 400, /^If-Match must be \* or ETags in double quotes/],
    [['If-Match: '], 400],
    [['If-Match: ,'], 400],
    [['If-Match: ""'], 412],
    [[`If-Match: ${etag.replaceAll('"', '')}`], 400],
    [[`If-Match: W/${etag}`], 412],
    [['If-None-Match: *'], 412, /^If-None-Match names the current state/],
    [[`If-None-Match: ${etag}`], 412],
    [[`If-None-Match: W/${etag}`], 412],
    [['If-None-Match: "x"'], 200],
    [['If-None-Match:'], 400, /^If-None-Match must be \* or ETags in double quotes/],
    [['If-None-Match: x'], 400],
    [[`If-Match: ${etag}`, 'If-None-Match: *'], 412],
  ]
  for (const [headers, status, detail] of cases) {
    const lines = ['Host: device', `Authorization: Bearer ${service.key}`, 'Connection: close', ...headers]
    const patch = ['Content-Type: application/json', 'Content-Length: 2']
    const answer = await service.raw(`PATCH /api/v1/system HTTP/1.1\r\n${[...lines, ...patch].join('\r\n')}\r\n\r\n{}`)
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), headers.join(' + '))
    if (status === 412) t.match(answer, `\r\nETag: ${etag}\r\n`)
    if (detail) t.match(JSON.parse(answer.slice(answer.indexOf('{'))).detail, detail)
  }
})

t.test('a cursor in the wrong form is refused with the right advice', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const detail = async (headers: Record<string, string>, query = '') => {
    const answer = await service.fetch(`/events${query}`, { headers })
    t.equal(answer.status, 400)
    return ((await answer.json()) as { detail: string }).detail
  }
  t.match(await detail({ 'If-None-Match': id }), 'If-None-Match must be * or ETags in double quotes')
  t.match(await detail({ 'If-None-Match': '"x"' }), 'An ETag of If-None-Match must be the UUID of an event')
  t.match(await detail({}, '?initialEventId=%22x%22'), 'initialEventId must be the UUID of an event')
  t.match(
    await detail({ 'Last-Event-ID': 'x', Accept: 'text/event-stream' }),
    'Last-Event-ID must be the UUID of an event',
  )
})
