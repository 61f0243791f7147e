import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ManualClock } from '../support/clock.ts'
import { startTestService } from '../support/service.ts'
import type { Block } from '../support/stream.ts'

/** The last block of a stream that the service ends: without an id, so that a client resumes from the event before it. */
function closed(reason: string): Partial<Block> {
  return { raw: `event: events.closed\ndata: {"reason":"${reason}"}\n\n`, id: undefined }
}

t.test('a stream opens at once, with what a client needs to come back', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const stream = await service.stream()
  t.match(stream.head, /^HTTP\/1\.1 200 OK\r\n/)
  for (const header of [
    'Content-Type: text/event-stream',
    'Cache-Control: no-store, no-transform',
    'X-Accel-Buffering: no',
    'X-Content-Type-Options: nosniff',
    'Access-Control-Allow-Origin: *',
  ])
    t.ok(stream.head.split('\r\n').includes(header), header)
  t.equal((await stream.block())?.raw, `retry: 1000\n: receiverd\nid: ${id}\n\n`)
})

t.test('a burst of changes is one write, in order, and what is replayed is what was live', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const live = await service.stream()
  const patches = Array.from({ length: 20 }, (_, n) => service.patch({ deviceName: `Room ${n}` }))
  await Promise.all(patches)
  const seen = []
  for (let n = 0; n < 20; n++) seen.push(await live.event())
  const replay = await service.stream(`/events?initialEventId=${id}`)
  for (const [n, block] of seen.entries()) {
    t.equal((await replay.event())?.raw, block?.raw, `event ${n}`)
    const resumed = await service.stream('/events', { 'Last-Event-ID': block?.id ?? '' })
    t.equal((await resumed.block())?.id, block?.id, 'any id that was sent can be resumed from')
    const next = seen[n + 1]
    if (next) t.equal((await resumed.event())?.raw, next.raw)
    resumed.close()
  }
})

t.test('the header of a reconnecting client wins over the query of its first connection', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  await service.patch({ deviceName: 'One' })
  const second = (await service.system()).id
  await service.patch({ deviceName: 'Two' })
  const stream = await service.stream(`/events?initialEventId=${id}`, { 'Last-Event-ID': second })
  t.strictSame((await stream.event())?.data, { deviceName: 'Two' })
})

t.test('an unknown cursor is resynced: said without an id, then the whole configuration', async t => {
  const service = await startTestService(t)
  const stream = await service.stream(`/events?initialEventId=${randomUUID()}`)
  t.equal((await stream.block())?.id, undefined, 'no id before the resync')
  const resync = await stream.event()
  t.strictSame([resync?.id, resync?.event, resync?.data], [undefined, 'events.resync', { reason: 'unknown' }])
  const whole = await stream.event()
  const { id, value } = await service.system()
  t.strictSame([whole?.id, whole?.event, whole?.data], [id, 'system.changed', value])
  const again = await service.stream('/events', { 'Last-Event-ID': id.toUpperCase() })
  t.equal((await again.block())?.id, id, 'the id of a resync can be resumed from')
})

t.test('a cursor that fell out of the ring is resynced, also one of an earlier run', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_EVENTS: '2' } })
  const { id } = await service.system()
  for (const name of ['One', 'Two', 'Three']) await service.patch({ deviceName: name })
  const stream = await service.stream(`/events?initialEventId=${id}`)
  t.equal((await stream.event())?.event, 'events.resync')
  await service.close()
  const next = await startTestService(t, { root: service.root })
  const resumed = await next.stream(`/events?initialEventId=${id}`)
  t.equal((await resumed.event())?.event, 'events.resync')
})

t.test('a cursor that is no UUID is refused', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const cases: readonly (readonly [path: string, headers: Record<string, string>, status: number])[] = [
    ['/events?initialEventId=', {}, 400],
    ['/events?initialEventId=latest', {}, 400],
    [`/events?initialEventId=%22${id}%22`, {}, 400],
    [`/events?initialEventId=${id}&initialEventId=${id}`, {}, 400],
    ['/events', { 'Last-Event-ID': 'latest' }, 400],
    ['/events', { 'Last-Event-ID': '' }, 200],
    [`/events?initialEventId=${id}`, { 'Last-Event-ID': '' }, 200],
  ]
  for (const [path, headers, status] of cases) {
    const stream = await service.stream(path, headers)
    t.equal(stream.status, status, `${path} ${JSON.stringify(headers)}`)
    stream.close()
  }
})

t.test('heartbeats come, and at the one after exp the stream says that it ends', async t => {
  const clock = new ManualClock()
  const service = await startTestService(t, { clock, env: { RECEIVERD_HEARTBEAT_S: '1' } })
  const exp = Math.floor(clock.now() / 1000) + 3600
  const stream = await service.stream(`/events?apiKey=${service.token(['admin:r'], { exp })}`, { Authorization: '' })
  await stream.block()
  t.equal((await stream.block())?.raw, ':\n\n')
  clock.step(3_601_000)
  await service.patch({ deviceName: 'After the end' })
  t.match(await stream.block(), closed('expired'), 'no event after exp')
  await stream.ended
})

t.test('a rotation ends every stream at once, and says why', async t => {
  const service = await startTestService(t)
  const streams = [
    await service.stream(),
    await service.stream(`/events?apiKey=${service.token(['admin:r'])}`, { Authorization: '' }),
  ]
  const answer = await service.fetch('/api-key', { method: 'POST' })
  t.equal(answer.status, 200)
  for (const stream of streams) {
    await stream.block()
    t.match(await stream.block(), closed('key replaced'))
    await stream.ended
  }
})

t.test('a service that stops ends its streams cleanly', async t => {
  const service = await startTestService(t)
  const stream = await service.stream()
  await stream.block()
  await service.close()
  t.match(await stream.block(), closed('shutting down'))
  await stream.ended
})

t.test('a service that stops takes no more of them', async t => {
  const service = await startTestService(t)
  const head = `GET /api/v1/events HTTP/1.1\r\nHost: device\r\nAuthorization: Bearer ${service.key}\r\nAccept: text/event-stream\r\n`
  const socket = connect(service.port, '127.0.0.1')
  socket.write(head)
  // The service must have read it: a connection without a request is closed at once.
  await sleep(500)
  const closed = service.close()
  socket.write('\r\n')
  const [answer] = await once(socket, 'data')
  t.match(String(answer), /^HTTP\/1\.1 503 .*\r\nConnection: close\r\n/s)
  await closed
})

t.test('HEAD answers with the head of a stream, and takes no place', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_STREAMS: '1' } })
  for (let n = 0; n < 3; n++) {
    const answer = await service.fetch('/events', { method: 'HEAD', headers: { Accept: 'text/event-stream' } })
    t.equal(answer.status, 200)
    t.equal(answer.headers.get('content-type'), 'text/event-stream')
  }
})
