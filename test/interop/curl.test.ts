/** The service, used with curl. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import t from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { eventually } from '../support/eventually.ts'
import { run } from '../support/run.ts'
import { type Receiver, receiverd, startReceiver } from './support.ts'

const MAX_BODY_BYTES = 64 * 1024

interface Answer {
  /** Of the final response; those of interim ones are in `interim`. */
  readonly status: number
  readonly interim: readonly number[]
  readonly headers: Headers
  readonly body: string
}

/** Runs curl against a path of the service. Output of `-w` follows the body. */
async function curl(receiver: Receiver, path: string, ...args: string[]): Promise<Answer> {
  const { status, stdout, stderr } = await run('curl', ['-sS', '-i', '--max-time', '30', ...args, receiver.url + path])
  if (status !== 0) throw new Error(`curl ${args.join(' ')} exited with ${status}: ${stderr}`)
  const interim: number[] = []
  for (let rest = stdout; ; ) {
    const end = rest.indexOf('\r\n\r\n')
    const [line = '', ...fields] = rest.slice(0, end).split('\r\n')
    const code = Number(line.split(' ')[1])
    rest = rest.slice(end + 4)
    if (code >= 200) {
      const headers = fields.map(field => field.split(/: ?(.*)/s).slice(0, 2) as [string, string])
      return { status: code, interim, headers: new Headers(headers), body: rest }
    }
    interim.push(code)
  }
}

const bearer = (token: string) => ['-H', `Authorization: Bearer ${token}`]

async function token(receiver: Receiver, ...args: string[]): Promise<string> {
  const { stdout } = await receiverd(['token', '--root', receiver.root, ...args])
  return stdout.trim()
}

t.test('accepts a credential in each of the four ways', async t => {
  const receiver = await startReceiver(t)
  const credentials = { 'API key': receiver.key, JWT: await token(receiver, '--role', 'admin:r', '--expires-in', '1h') }
  for (const [kind, text] of Object.entries(credentials)) {
    const ways: Record<string, [path: string, ...args: string[]]> = {
      Bearer: ['/api/v1/system', ...bearer(text)],
      'bearer in lower case': ['/api/v1/system', '-H', `Authorization: bearer ${text}`],
      '--oauth2-bearer': ['/api/v1/system', '--oauth2-bearer', text],
      Basic: ['/api/v1/system', '-H', `Authorization: Basic ${text}`],
      '-u :T': ['/api/v1/system', '-u', `:${text}`],
      '-u user:T': ['/api/v1/system', '-u', `panel-4:${text}`],
      '?apiKey=T': [`/api/v1/system?apiKey=${text}`],
      'both, the same': [`/api/v1/system?apiKey=${text}`, ...bearer(text)],
    }
    for (const [way, [path, ...args]] of Object.entries(ways)) {
      const { status, body } = await curl(receiver, path, ...args)
      t.match({ status, body }, { status: 200, body: '"deviceName":"Meeting Room 4"' }, `${kind}, ${way}`)
    }
  }
})

t.test('answers HEAD as GET, without a body and without holding', async t => {
  const receiver = await startReceiver(t)
  const key = bearer(receiver.key)
  const get = await curl(receiver, '/api/v1/system', ...key)
  const head = await curl(receiver, '/api/v1/system', '-I', ...key)
  t.match(head, { status: 200, body: '' })
  for (const name of ['etag', 'content-type', 'content-length', 'cache-control'])
    t.equal(head.headers.get(name), get.headers.get(name), name)

  const etag = get.headers.get('etag') ?? ''
  const poll = await curl(receiver, '/api/v1/events', '-I', '-H', `If-None-Match: ${etag}`, ...key)
  t.match(poll, { status: 304, body: '' }, 'a poll that would be held')
  const stream = await curl(receiver, '/api/v1/events', '-I', '-H', 'Accept: text/event-stream', ...key)
  t.match(stream, { status: 200, body: '' }, 'a stream')
  t.equal(stream.headers.get('content-type'), 'text/event-stream')
  t.match(await curl(receiver, '/api/v1/health', '-I'), { status: 200, body: '' }, 'without a credential')
})

t.test('a poll is held until a change or its time, and its ETag is the cursor of the next', async t => {
  const receiver = await startReceiver(t)
  const poll = (etag: string, wait: number, ...args: string[]) =>
    curl(
      receiver,
      '/api/v1/events',
      ...bearer(receiver.key),
      ...['-H', `If-None-Match: ${etag}`, '-H', `Prefer: wait=${wait}`, ...args],
    )
  const begin = await curl(receiver, '/api/v1/events', ...bearer(receiver.key))
  t.match(begin, { status: 200, body: '[]' }, 'no cursor: the one to begin from')
  const first = begin.headers.get('etag') ?? ''
  t.equal(first, (await receiver.system()).etag)

  const unchanged = await poll(first, 1, '-w', '%{time_total}')
  t.equal(unchanged.status, 304)
  t.equal(unchanged.headers.get('etag'), first)
  t.equal(unchanged.headers.get('preference-applied'), 'wait=1')
  t.ok(Number(unchanged.body) >= 0.95, `held for its second: ${unchanged.body} s`)

  const held = poll(first, 30)
  const patched = await receiver.patch({ deviceName: 'Studio' })
  const changed = await held
  const second = patched.headers.get('etag') ?? ''
  t.equal(changed.status, 200)
  t.equal(changed.headers.get('etag'), second, 'the ETag of the PATCH and of the poll are one')
  t.not(second, first)
  const id = second.slice(1, -1)
  t.same(JSON.parse(changed.body), [
    { id, contentType: 'application/json', event: 'system.changed', data: { deviceName: 'Studio' } },
  ])

  await receiver.patch({ timezone: 'Asia/Tokyo' })
  await receiver.patch({ locale: 'de_DE.UTF-8' })
  const both = await poll(second, 30)
  t.same(
    JSON.parse(both.body).map((event: { data: object }) => event.data),
    [{ timezone: 'Asia/Tokyo' }, { locale: 'de_DE.UTF-8' }],
    'the chain goes on where it was, oldest first',
  )
  const third = both.headers.get('etag') ?? ''
  t.equal(third, (await receiver.system()).etag)
  t.equal((await poll(third, 0)).status, 304)

  const byQuery = await curl(
    receiver,
    `/api/v1/events?initialEventId=${first.replaceAll('"', '')}`,
    ...bearer(receiver.key),
  )
  t.equal(JSON.parse(byQuery.body).length, 3, 'initialEventId is the same cursor')
})

t.test('a stream with -N', async t => {
  const receiver = await startReceiver(t)
  const { id } = await receiver.system()
  await receiver.patch({ deviceName: 'Before' })
  const child = spawn('curl', [
    ...['-sSN', '-i', '-H', 'Accept: text/event-stream', ...bearer(receiver.key)],
    `${receiver.url}/api/v1/events?initialEventId=${id}`,
  ])
  t.teardown(() => child.kill())
  let text = ''
  child.stdout.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  await eventually(() => text.includes('data: {"deviceName":"Before"}\n\n'))
  await receiver.patch({ deviceName: 'Salle d’été 🎥' })
  await eventually(() => text.includes('data: {"deviceName":"Salle d’été 🎥"}\n\n'))

  const [head = '', ...rest] = text.split('\r\n\r\n')
  t.match(head, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(head, /^Content-Type: text\/event-stream\r?$/im)
  t.match(head, /^Cache-Control: no-store, no-transform\r?$/im)
  t.match(head, /^X-Accel-Buffering: no\r?$/im)
  const body = rest.join('\r\n\r\n')
  t.match(body, /^retry: [123]\d{3}\n:/, 'opens with the time to wait and a comment')
  const events = body.matchAll(/^id: (\S+)\nevent: (\S+)\ndata: (.*)\n\n/gm)
  t.same(
    Array.from(events, ([, id, event, data]) => ({ id, event, data: JSON.parse(data ?? '') })).map(
      ({ event, data }) => [event, data],
    ),
    [
      ['system.changed', { deviceName: 'Before' }],
      ['system.changed', { deviceName: 'Salle d’été 🎥' }],
    ],
  )
  const exited = once(child, 'exit')
  t.equal(await receiver.stop(), 0)
  t.equal((await exited)[0], 0, 'curl finds that the stream ended cleanly')
})

t.test('answers every refusal with a problem', async t => {
  const receiver = await startReceiver(t)
  const key = bearer(receiver.key)
  const patch = ['-X', 'PATCH', '-H', 'Content-Type: application/json', ...key]
  const moderator = bearer(await token(receiver, '--role', 'moderator:rw'))
  const reader = bearer(await token(receiver, '--role', 'admin:r'))
  const cases: [status: number, slug: string, path: string, ...args: string[]][] = [
    [401, 'unauthorized', '/api/v1/system'],
    [401, 'unauthorized', '/api/v1/events', ...bearer('nobody')],
    [403, 'forbidden', '/api/v1/events', ...moderator],
    [403, 'forbidden', '/api/v1/system', '-X', 'PATCH', '-d', '{}', ...reader],
    [403, 'forbidden', '/api/v1/api-key', '-X', 'POST', ...reader],
    [404, 'not-found', '/api/v1/sytem'],
    [404, 'not-found', '/index.html'],
    [405, 'method-not-allowed', '/api/v1/system', '-X', 'DELETE'],
    [405, 'method-not-allowed', '/api/v1/api-key'],
    [400, 'bad-request', '/api/v1/system', ...patch, '-d', '{"deviceName":'],
    [400, 'bad-request', '/api/v1/system?apiKey=other', ...key],
    [400, 'bad-request', '/api/v1/events?initialEventId=1', ...key],
    [412, 'precondition-failed', '/api/v1/system', ...patch, '-H', 'If-Match: "stale"', '-d', '{}'],
    [413, 'body-too-large', '/api/v1/system', ...patch, '-d', ' '.repeat(MAX_BODY_BYTES + 1)],
    [415, 'unsupported-media-type', '/api/v1/system', '-X', 'PATCH', '-d', '{}', ...key],
    [417, 'expectation-failed', '/api/v1/system', '-H', 'Expect: a miracle', ...key],
    [422, 'invalid-configuration', '/api/v1/system', ...patch, '-d', '{"deviceName":""}'],
    [431, 'head-too-large', '/api/v1/system', '-H', `X: ${'x'.repeat(9000)}`, ...key],
  ]
  const named: Record<number, readonly [header: string, value: RegExp]> = {
    401: ['www-authenticate', /^Bearer realm="receiverd"/],
    403: ['www-authenticate', /^Bearer realm="receiverd", error="insufficient_scope"/],
    405: ['allow', /^(GET, HEAD, PATCH|POST)$/],
    412: ['etag', /^"[0-9a-f-]{36}"$/],
    415: ['accept-patch', /^application\/merge-patch\+json, application\/json$/],
  }
  for (const [status, slug, path, ...args] of cases) {
    const shown = `${path} ${args.map(arg => (arg.length > 40 ? `${arg.slice(0, 40)}…` : arg)).join(' ')}`
    const answer = await curl(receiver, path, ...args)
    t.equal(answer.status, status, shown)
    t.equal(answer.headers.get('content-type'), 'application/problem+json', `${status}: its type`)
    const problem = JSON.parse(answer.body) as JsonObject
    t.match(problem, { status, type: `urn:receiverd:problem:${slug}`, title: String, detail: String })
    const [header, value] = named[status] ?? []
    if (header && value) t.match(answer.headers.get(header), value, header)
  }
  t.same(
    (await receiver.system()).value.deviceName,
    'Meeting Room 4',
    'and after all of it the configuration is what it was',
  )
})

t.test('sends 100 Continue only for a body that it will read', async t => {
  const receiver = await startReceiver(t)
  const file = receiver.path('body.json')
  const send = (bytes: number, ...args: string[]) => {
    const json = '{"deviceName":"Hall"}'
    writeFileSync(file, json + ' '.repeat(bytes - json.length))
    return curl(
      receiver,
      '/api/v1/system',
      ...['-X', 'PATCH', '-H', 'Content-Type: application/json', ...bearer(receiver.key)],
      ...['--data-binary', `@${file}`, ...args],
    )
  }
  const expect = ['-H', 'Expect: 100-continue', '--expect100-timeout', '10']
  t.match(await send(MAX_BODY_BYTES, ...expect), { status: 200, interim: [100] }, 'as large as a body may be')
  const refused = await send(MAX_BODY_BYTES + 1, ...expect, '-w', '\n%{size_upload}')
  t.match(refused, { status: 413, interim: [] }, 'a byte more')
  t.equal(refused.body.split('\n').at(-1), '0', 'none of it was sent')

  const unauthorized = await curl(
    receiver,
    '/api/v1/system',
    ...['-X', 'PATCH', '-H', 'Content-Type: application/json', '--data-binary', `@${file}`, ...expect],
  )
  t.match(unauthorized, { status: 401, interim: [] }, 'without a credential')

  t.match(await send(MAX_BODY_BYTES), { status: 200 }, 'without asking first')
  t.match(await send(3 * 1024 * 1024, '-H', 'Expect:'), { status: 413 }, 'megabytes, sent without asking')
  t.match(
    await send(3 * 1024 * 1024, '-H', 'Expect:', '-H', 'Transfer-Encoding: chunked'),
    { status: 413 },
    'megabytes in chunks, of no declared length',
  )
})

t.test('answers a preflight without a credential', async t => {
  const preflight = (receiver: Receiver, origin: string) =>
    curl(
      receiver,
      '/api/v1/system',
      ...['-X', 'OPTIONS', '-H', `Origin: ${origin}`, '-H', 'Access-Control-Request-Method: PATCH'],
      ...['-H', 'Access-Control-Request-Headers: authorization,content-type,if-match'],
    )
  const list = (value: string | null) => (value ?? '').toLowerCase().split(/,\s*/)

  await t.test('from any origin', async t => {
    const receiver = await startReceiver(t)
    const { status, headers, body } = await preflight(receiver, 'https://panel.example')
    t.match({ status, body }, { status: 204, body: '' })
    t.equal(headers.get('access-control-allow-origin'), '*')
    t.notOk(headers.has('access-control-allow-credentials'))
    for (const method of ['get', 'patch']) t.ok(list(headers.get('access-control-allow-methods')).includes(method))
    for (const name of ['authorization', 'content-type', 'if-match', 'if-none-match', 'last-event-id', 'prefer'])
      t.ok(list(headers.get('access-control-allow-headers')).includes(name), name)

    const answer = await curl(
      receiver,
      '/api/v1/system',
      '-H',
      'Origin: https://panel.example',
      ...bearer(receiver.key),
    )
    t.equal(answer.headers.get('access-control-allow-origin'), '*')
    t.ok(list(answer.headers.get('access-control-expose-headers')).includes('etag'))
  })

  await t.test('from those that RECEIVERD_ORIGINS names', async t => {
    const receiver = await startReceiver(t, { env: { RECEIVERD_ORIGINS: 'https://panel.example' } })
    const named = await preflight(receiver, 'https://panel.example')
    t.equal(named.headers.get('access-control-allow-origin'), 'https://panel.example')
    t.match(list(named.headers.get('vary')), ['origin'])
    const other = await preflight(receiver, 'https://evil.example')
    t.notOk(other.headers.has('access-control-allow-origin'))
  })
})
