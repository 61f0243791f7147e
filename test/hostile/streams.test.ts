import { readdirSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { eventRoute, eventSchema } from '../../src/api/events.ts'
import { Authenticator } from '../../src/auth/authenticator.ts'
import { systemClock } from '../../src/clock.ts'
import { Readers } from '../../src/events/readers.ts'
import { Topic } from '../../src/events/topic.ts'
import type { HeldReply } from '../../src/http/reply.ts'
import { Request } from '../../src/http/request.ts'
import { ManualClock } from '../support/clock.ts'
import { credentialIn, NO_ISSUERS } from '../support/credential.ts'
import { eventually } from '../support/eventually.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** Opens a half-open connection and sends bytes on it. */
function send(service: TestService, bytes: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: service.port, host: '127.0.0.1', allowHalfOpen: true }, () =>
      socket.write(bytes, () => resolve(socket)),
    ).on('error', reject)
  })
}

const held = (service: TestService, more = '') =>
  `GET /api/v1/events HTTP/1.1\r\nHost: device\r\nAuthorization: Bearer ${service.key}\r\nIf-None-Match: *\r\nPrefer: wait=100\r\n${more}\r\n`

/** The status that one more stream would get: by HEAD, which takes no place itself. */
const nextStatus = async (service: TestService): Promise<number> =>
  (await service.fetch('/events', { method: 'HEAD', headers: { Accept: 'text/event-stream' } })).status
const hasRoom = async (service: TestService) => (await nextStatus(service)) === 200

t.test('streams over a limit are refused before any 200; if both limits apply, with 503', async t => {
  for (const [env, status] of [
    [{ RECEIVERD_STREAMS: '2' }, 503],
    [{ RECEIVERD_STREAMS_PER_ADDRESS: '2' }, 429],
    [{ RECEIVERD_STREAMS: '2', RECEIVERD_STREAMS_PER_ADDRESS: '2' }, 503],
  ] as const) {
    const service = await startTestService(t, { env })
    const stream = await service.stream()
    const waiting = await send(service, held(service))
    await eventually(async () => (await nextStatus(service)) === status)
    for (const headers of [{ Accept: 'text/event-stream' }, { 'If-None-Match': '*' }])
      for (const method of ['GET', 'HEAD']) {
        if (method === 'HEAD' && 'If-None-Match' in headers) continue
        const refused = await service.fetch('/events', { method, headers })
        t.equal(refused.status, status, `${method} ${Object.keys(headers)}`)
        t.match(refused.headers.get('retry-after'), /^[1-9]\d*$/)
      }
    t.equal((await service.fetch('/events')).status, 200, 'a request that does not wait needs no place')
    t.match(service.said, [new RegExp(`^warning: 127\\.0\\.0\\.1: answered with ${status}: `)])
    t.equal(service.said.length, 1, 'one line for all of them')
    stream.close()
    waiting.destroy()
    await eventually(() => hasRoom(service))
  }
})

t.test('a client that leaves frees its place at once, in whatever way it leaves', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_STREAMS: '1', RECEIVERD_HEARTBEAT_S: '3600' } })
  for (const [name, request] of [
    ['poll', held(service)],
    ['polls ahead of their answers', held(service) + held(service)],
    ['stream', held(service, 'Accept: text/event-stream\r\n')],
  ] as const)
    for (const leave of ['end', 'destroy', 'resetAndDestroy'] as const) {
      const socket = await send(service, request)
      await eventually(async () => !(await hasRoom(service)))
      socket[leave]()
      // A client that has closed its side counts as gone, although it could still listen: HTTP has no half-open clients.
      await eventually(() => hasRoom(service), 30_000)
      t.pass(`${name}, ${leave}`)
      socket.destroy()
    }
})

t.test('a client cannot keep the connection of an ended stream by not closing it', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_CONNECTIONS: '3' } })
  const streams = [await send(service, held(service, 'Accept: text/event-stream\r\n'))]
  streams.push(await send(service, held(service, 'Accept: text/event-stream\r\n')))
  const asks = `Authorization: Bearer ${service.key}\r\nConnection: close\r\n\r\n`
  t.match(await service.raw(`POST /api/v1/api-key HTTP/1.1\r\nHost: device\r\n${asks}`), /^HTTP\/1\.1 200 /)
  await eventually(async () => {
    const request = `GET /api/v1/events HTTP/1.1\r\nHost: device\r\nIf-None-Match: *\r\nPrefer: wait=1\r\nConnection: close\r\nAuthorization: Bearer ${service.key}\r\n\r\n`
    const answers = await Promise.all([1, 2, 3].map(() => service.raw(request).catch(() => '')))
    return answers.every(answer => answer.startsWith('HTTP/1.1 304 '))
  })
  for (const socket of streams) socket.destroy()
})

t.test('many polls on one connection raise no warning of Node', async t => {
  const service = await startTestService(t)
  const warnings: Error[] = []
  const warn = (warning: Error) => warnings.push(warning)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  const socket = await send(service, held(service).repeat(20))
  let answers = ''
  socket.setEncoding('utf8').on('data', chunk => {
    answers += chunk
  })
  // Each poll is answered when the next one arrives, and the last one by a change.
  await eventually(async () => {
    await service.patch({ deviceName: `Room ${Math.random()}` })
    return answers.split('HTTP/1.1 304 ').length === 20 && answers.split('HTTP/1.1 200 ').length === 2
  })
  socket.destroy()
  t.strictSame(warnings, [])
})

t.test('a poll that arrives in the same turn as an event is held for the next one', async t => {
  const topic = new Topic({
    name: 'system',
    grant: 'admin:r',
    snapshot: () => '{}',
    maxEvents: 8,
    maxBytes: 1 << 20,
    newId: () => crypto.randomUUID(),
  })
  const authenticator = new Authenticator('A'.repeat(43), {
    clock: systemClock,
    log: () => undefined,
    builtAt: 0,
    leewayS: 0,
    ...NO_ISSUERS,
  })
  const refusalNow = () => undefined
  const limits = { streams: 8, streamsPerAddress: 8, heartbeatS: 60, holdS: 30, stallS: 60 }
  const readers = new Readers({ limits, refusalNow, clock: systemClock })
  t.teardown(() => readers.close())
  const route = eventRoute('/events', topic, eventSchema({}), { readers, authenticator, random: () => 0, limits })
  const credential = credentialIn(authenticator, 'A'.repeat(43))
  const message = { method: 'GET', headers: { 'if-none-match': '*' } }

  topic.changed('{"n":1}')
  const request = new Request(message as unknown as IncomingMessage, undefined, 'local', 'local')
  const held = (await route.handle(request, credential)) as HeldReply
  const reply = new Promise(answer => held.hold({ answer }))
  await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
  t.equal(readers.size, 1, 'held')
  topic.changed('{"n":2}')
  const { status, body } = (await reply) as { status: number; body?: Buffer }
  t.equal(status, 200)
  t.match(String(body), /^\[\{[^[]*"data":\{"n":2\}\}\]$/)
})

t.test('2,000 streams and polls, opened and dropped, leak no file descriptor and no memory', async t => {
  const service = await startTestService(t)
  const open = () => readdirSync('/proc/self/fd').length
  const round = async () => {
    const sockets = await Promise.all(
      Array.from({ length: 50 }, (_, n) => send(service, held(service, n % 2 ? 'Accept: text/event-stream\r\n' : ''))),
    )
    for (const [n, socket] of sockets.entries()) n % 3 ? socket.destroy() : socket.resetAndDestroy()
  }
  for (let n = 0; n < 8; n++) await round()
  const before = { fds: open(), rss: process.memoryUsage().rss }
  for (let n = 0; n < 32; n++) await round()
  await eventually(() => open() <= before.fds + 4)
  await eventually(() => hasRoom(service))
  const grown = (process.memoryUsage().rss - before.rss) / 1e6
  t.ok(grown < 60, `${grown} MB more than after 400`)
})

t.test('a clock that steps ends the streams that have expired, and no others', async t => {
  const clock = new ManualClock()
  const builtAt = Date.now() - 86_400_000
  const service = await startTestService(t, { clock, builtAt, env: { RECEIVERD_HEARTBEAT_S: '1' } })
  const token = service.token(['admin:r'], { exp: Math.floor(Date.now() / 1000) + 3_600 })
  const authorization = { Authorization: `Bearer ${token}` }
  const ask = async (): Promise<number> => (await service.fetch('/system', { headers: authorization })).status
  const timeless = await service.stream()
  const dated = await service.stream('/events', authorization)
  const dated2 = await service.stream('/events', authorization)

  clock.step(-3_600_000)
  t.equal(await ask(), 200, 'an hour back')
  const waiting = service.fetch('/events', { headers: { ...authorization, 'If-None-Match': '*', Prefer: 'wait=100' } })
  await service.patch({ deviceName: 'An hour ago' })
  for (const stream of [timeless, dated]) t.strictSame((await stream.event())?.data, { deviceName: 'An hour ago' })
  t.equal((await waiting).status, 200)

  const lateWaiting = service.fetch('/events', {
    headers: { ...authorization, 'If-None-Match': '*', Prefer: 'wait=100' },
  })
  clock.step(-200 * 86_400_000)
  t.equal(await ask(), 401, 'before the build the time is not known')
  t.equal((await service.fetch('/system')).status, 200, 'the API key knows no time')
  const blocks = []
  for (let block = await dated.block(); block; block = await dated.block()) blocks.push(block)
  t.match(blocks.at(-1), { event: 'events.closed', data: { reason: 'clock not set' } })
  await dated2.ended
  t.equal((await lateWaiting).status, 401)
  t.equal(service.log.filter(line => line.includes('clock not set: refusing tokens')).length, 1, 'the log says it once')

  clock.step(201 * 86_400_000 + 7_200_000)
  t.equal(await ask(), 401, 'expired')
  clock.step(-86_400_000 - 7_200_000)
  t.equal(await ask(), 200, 'the clock is right again')
  await service.patch({ deviceName: 'Now' })
  t.strictSame((await timeless.event())?.data, { deviceName: 'Now' }, 'the stream of the API key outlived all of it')
})

t.test('a PATCH whose body comes after its key was replaced changes nothing', async t => {
  const service = await startTestService(t)
  const before = await service.system()
  const body = '{"deviceName":"Stolen"}'
  const token = service.token(['admin:rw'])
  const sockets = []
  for (const credential of [service.key, token])
    sockets.push(
      await send(
        service,
        `PATCH /api/v1/system HTTP/1.1\r\nHost: device\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nAuthorization: Bearer ${credential}\r\n\r\n${body.slice(0, 5)}`,
      ),
    )
  // Once a request on a later connection is answered, the heads above have been read.
  await service.system()
  await service.fetch('/api-key', { method: 'POST' })
  for (const socket of sockets) {
    const answer = new Promise(resolve => socket.setEncoding('utf8').once('data', resolve))
    socket.write(body.slice(5))
    t.match(await answer, /^HTTP\/1\.1 401 .*error_description="key replaced"/s)
    socket.destroy()
  }
  t.strictSame(await service.system(), before)
})
