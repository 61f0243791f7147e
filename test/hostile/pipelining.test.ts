import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { startTestService, type TestService } from '../support/service.ts'

const get = (path: string, ...headers: readonly string[]) =>
  `GET /api/v1${path} HTTP/1.1\r\nHost: device\r\n${headers.map(line => `${line}\r\n`).join('')}\r\n`
const last = get('/health', 'Connection: close')
const credential = (service: TestService) => `Authorization: Bearer ${service.key}`
const statuses = (answer: string) => Array.from(answer.matchAll(/HTTP\/1\.1 (\d{3})/g), match => Number(match[1]))

t.test('requests that are sent ahead are answered in order', async t => {
  const service = await startTestService(t)
  const requests = Array.from({ length: 10 }, (_, n) => get(n % 2 ? '/health' : '/nowhere'))
  t.strictSame(
    statuses(await service.raw(requests.join('') + last)),
    [404, 200, 404, 200, 404, 200, 404, 200, 404, 200, 200],
  )
})

t.test('a client that reads gets all its answers, however many requests it sends ahead', async t => {
  const service = await startTestService(t)
  const answer = await service.raw((get('/openapi.json') + get('/nowhere')).repeat(750) + last)
  t.strictSame(statuses(answer), [...Array.from({ length: 1_500 }, (_, n) => (n % 2 ? 404 : 200)), 200])
})

t.test('requests behind a held poll end its wait, and are all answered', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_STREAMS: '1' } })
  const held = get('/events', credential(service), 'If-None-Match: *')
  const [poll, ...flood] = statuses(await service.raw(held + get('/health').repeat(500) + last))
  t.equal(poll, 304, 'the poll is answered before what is behind it')
  t.strictSame(flood, Array(501).fill(200))
  const again = await service.fetch('/events', { headers: { 'If-None-Match': '*', Prefer: 'wait=1' } })
  t.equal(again.status, 304, 'its place is free')
})

t.test('requests behind a change are answered after it, and see it (RFC 9112 §9.3.2)', async t => {
  const service = await startTestService(t)
  const patch = (deviceName: string) => {
    const body = JSON.stringify({ deviceName })
    const headers = ['Content-Type: application/json', `Content-Length: ${body.length}`, credential(service)]
    return get('/system', ...headers).replace('GET', 'PATCH') + body
  }
  const read = get('/system', credential(service))
  const answer = await service.raw(patch('One') + read + patch('Two') + read.repeat(40) + last)
  const names = Array.from(answer.matchAll(/"deviceName":"(\w+)"/g), match => match[1])
  t.strictSame(names, ['One', 'One', ...Array(41).fill('Two')])
})

t.test('a request on the connection of a held poll is answered after the poll', async t => {
  const service = await startTestService(t)
  const held = get('/events', credential(service), 'If-None-Match: *')
  t.strictSame(statuses(await service.raw(held + held + get('/nowhere') + last)), [304, 304, 404, 200])
})

t.test('anything that is sent on an open stream ends it', async t => {
  const service = await startTestService(t)
  for (const request of [
    last,
    get('/health', 'Expect: something'),
    get('/health', 'Expect: 100-continue'),
    'GARBAGE',
  ]) {
    const stream = await service.stream()
    stream.socket.write(request)
    await stream.ended
  }
  t.equal((await service.fetch('/health')).status, 200)
})

t.test('garbage behind a request does not get an answer of its own', async t => {
  const service = await startTestService(t)
  const body = JSON.stringify({ deviceName: 'Whole' })
  const patch =
    'PATCH /api/v1/system HTTP/1.1\r\nHost: device\r\nContent-Type: application/json\r\n' +
    `Content-Length: ${body.length}\r\n${credential(service)}\r\n\r\n${body}`
  for (const next of ['GARBAGE\r\n\r\n', `GET / HTTP/1.1\r\nHost: device\r\nX: ${'x'.repeat(9_000)}\r\n\r\n`]) {
    const answer = await service.raw(patch + next)
    t.strictSame(statuses(answer), [200], 'the change is answered')
    t.match(answer, '\r\nConnection: close\r\n', 'and nothing else is')
  }
})

t.test('nothing follows an answer that ends the connection', async t => {
  const service = await startTestService(t)
  const old = 'GET /api/v1/health HTTP/1.0\r\n\r\n'
  t.strictSame(statuses(await service.raw(old + get('/health'))), [200])
  const withBody = `${get('/health', 'Content-Length: 3')}abc`
  const held = get('/events', credential(service), 'If-None-Match: *')
  const answer = await service.raw(held + withBody + get('/health') + last)
  t.strictSame(statuses(answer), [304, 422], 'nor one to a request that waited, and was read by then')
  t.notMatch(answer.slice(answer.indexOf(' 422 ')), /keep-alive/i)
})

t.test('an Upgrade is ignored, and ends the connection', async t => {
  const service = await startTestService(t)
  const answer = await service.raw(get('/health', 'Connection: Upgrade', 'Upgrade: h2c') + get('/health'))
  t.strictSame(statuses(answer), [200])
  t.match(answer, '\r\nConnection: close\r\n')
})

t.test('a stream begins after the answer before it, whoever writes that', async t => {
  const service = await startTestService(t)
  const stream = get('/events', credential(service), 'Accept: text/event-stream')
  const withBody = (request: string) => request.replace('\r\n\r\n', '\r\nContent-Length: 1\r\n\r\nx')
  for (const [before, status] of [
    [get('/health').replace('GET', 'HEAD'), 200],
    [get('/health').replace('GET', 'HEAD').repeat(3), 200],
    [stream.replace('GET', 'HEAD'), undefined],
    [withBody(get('/nowhere').replace('GET', 'POST')), 404],
    [withBody(get('/system').replace('GET', 'PATCH')), 401],
    [withBody(get('/health')), undefined],
  ] as const) {
    const socket = connect(service.port, '127.0.0.1').setEncoding('utf8')
    let answer = ''
    socket.on('data', chunk => {
      answer += chunk
    })
    socket.write(before + stream)
    const isStreaming = () => answer.endsWith('\n\n') && answer.includes('\r\nContent-Type: text/event-stream')
    // An answer that ends the connection is the last one.
    if (status === undefined) await once(socket, 'close')
    else await eventually(isStreaming)
    const all = statuses(answer)
    if (status === undefined) t.equal(all.length, 1, before)
    else t.match([all[0], all.at(-1)], [status, 200], before)
    socket.destroy()
    t.equal((await service.fetch('/health')).status, 200, 'it goes on')
  }
})

t.test('a stream behind answers that were read late frees its place when its client leaves', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_STREAMS: '1' } })
  const stream = get('/events', credential(service), 'Accept: text/event-stream')
  // The kernel takes some 4 MB of answers; the next ones wait.
  const socket = connect(service.port, '127.0.0.1').pause()
  for (let n = 0; n < 130; n++) {
    socket.write(get('/openapi.json'))
    await sleep(2)
  }
  socket.write(get('/openapi.json').repeat(28) + stream)
  await sleep(100)
  let answer = ''
  socket.setEncoding('latin1').on('data', data => {
    answer = (answer + data).slice(-1_000)
  })
  socket.resume()
  while (!answer.endsWith('\n\n') || !answer.includes('text/event-stream')) await once(socket, 'data')
  socket.destroy()
  const poll = { headers: { 'If-None-Match': '*', Prefer: 'wait=1' } }
  const isFree = async () => (await service.fetch('/events', poll)).status === 304
  await t.resolves(eventually(isFree, 10_000), 'its place is free')
})

t.test('the unit bounds what the kernel buffers for a client that does not read', async t => {
  const unit = readFileSync(new URL('../../build/package/receiverd.socket', import.meta.url), 'utf8')
  t.match(unit, /^SendBuffer=64K$/m)
})
