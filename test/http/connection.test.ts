import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Authenticator } from '../../src/auth/authenticator.ts'
import { systemClock } from '../../src/clock.ts'
import { json } from '../../src/http/reply.ts'
import type { Route } from '../../src/http/route.ts'
import { Router } from '../../src/http/router.ts'
import { HttpServer } from '../../src/http/server.ts'
import {
  FIRST_REQUEST_MS,
  LAST_ANSWERS_MS,
  MAX_DEFERRED,
  MAX_UNSENT_ANSWERS,
  MAX_UNSENT_BYTES,
  SHUTDOWN_MS,
} from '../../src/limits.ts'
import { NO_ISSUERS } from '../support/credential.ts'
import { eventually } from '../support/eventually.ts'

const KEY = 'A'.repeat(43)
const BODY = Buffer.alloc(64 * 1024, 'x')
/** More than the kernel takes for a client that does not read. */
const HUGE = Buffer.alloc(16 * 1024 * 1024, 'x')
const docs = { operationId: '', summary: '', answers: {} }

/** A server with a large answer, a small one, and one that comes when it is told to. */
async function startServer(t: Test, connections = 100) {
  const counts = { large: 0, small: 0 }
  let release: () => void = () => undefined
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  const route = (path: string, handle: Route['handle']): Route => ({
    method: 'GET',
    path,
    needs: 'admin:r',
    handle,
    docs,
  })
  const large = json(BODY)
  const small = json(Buffer.from('{}'))
  const log: string[] = []
  const options = { clock: systemClock, log: (_: string, line: string) => log.push(line), builtAt: 0, leewayS: 0 }
  const server = new HttpServer({
    ...options,
    router: new Router([
      route('/large', () => {
        counts.large++
        return large
      }),
      route('/small', () => {
        counts.small++
        return small
      }),
      route('/huge', () => json(HUGE)),
      route('/late', () => released.then(() => json(HUGE))),
      route('/slow', () => released.then(() => small)),
    ]),
    authenticator: new Authenticator(KEY, { ...options, ...NO_ISSUERS }),
    origins: '*',
    connections,
    connectionsPerAddress: 100,
    timeoutCheckMs: 1_000,
  })
  const port = Number(new URL(await server.listen({ host: '127.0.0.1', port: 0 })).port)
  t.teardown(() => server.close(() => undefined))
  return { port, server, counts, release, log }
}

const get = (path: string) => `GET /api/v1${path}?apiKey=${KEY} HTTP/1.1\r\nHost:\r\n\r\n`

/** A client that sends, and does not read before it is told to. */
async function send(t: Test, port: number, requests: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').pause()
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write(requests)
  return socket
}

/** Resolves when a figure stays the same for a while: through turns of the event loop, not only a time without any. */
async function settled(figure: () => number): Promise<number> {
  for (let before = -1; ; ) {
    const now = figure()
    if (now === before) return now
    before = now
    for (let turn = 0; turn < 10; turn++) await sleep(10)
  }
}

t.test('answers wait for a client that does not read, and all of them come when it does', async t => {
  const { port, counts } = await startServer(t)
  const asked = 1_000
  const socket = await send(t, port, get('/large').repeat(asked))
  const begun = await settled(() => counts.large)
  // The kernel takes some MB on the loopback; 64 MB were asked for.
  t.ok(begun < asked / 3, `${begun} answers were made`)
  let received = 0
  let statuses = 0
  socket.on('data', chunk => {
    received += chunk.length
    statuses += chunk.toString('latin1').split('HTTP/1.1 200 OK').length - 1
  })
  socket.resume()
  await eventually(() => received > asked * BODY.length && counts.large === asked)
  t.ok(statuses > asked * 0.95, `${statuses} answers arrived`)
  t.equal(socket.destroyed, false, 'and the connection goes on')
})

t.test('requests behind one that takes its time are not begun', async t => {
  const { port, counts, release } = await startServer(t)
  const socket = await send(t, port, get('/slow') + get('/small').repeat(200))
  t.equal(await settled(() => counts.small), 0)
  release()
  socket.resume()
  await eventually(() => counts.small === 200)
})

t.test('at most so many requests wait, on all connections together', async t => {
  const { port, counts, release } = await startServer(t)
  const tiny = 'GET / HTTP/1.1\r\nHost:\r\n\r\n'
  const chunk = 64 * 1024
  const clients: Socket[] = []
  for (let n = 0; n < 4; n++) {
    const flood = get('/slow') + tiny.repeat(chunk / tiny.length)
    clients.push(await send(t, port, flood.slice(0, chunk)))
    await sleep(100)
  }
  const closed = () => clients.filter(socket => socket.destroyed).length
  for (const socket of clients) socket.resume()
  await eventually(() => closed() >= 3)
  t.equal(await settled(closed), 3, `one has ${Math.floor(chunk / tiny.length)} waiting, ${MAX_DEFERRED} may`)
  const socket = await send(t, port, get('/small').repeat(MAX_UNSENT_ANSWERS))
  socket.resume()
  await eventually(() => counts.small === MAX_UNSENT_ANSWERS)
  release()
  await eventually(async () => {
    const probe = await send(t, port, get('/slow') + get('/small').repeat(500))
    probe.resume()
    return settled(() => counts.small).then(count => count > 500)
  })
})

t.test('a connection that ends gives back the places of the requests that wait on it', async t => {
  const { port, counts, release } = await startServer(t)
  for (let n = 0; n < 6; n++) {
    const socket = await send(t, port, get('/slow') + get('/small').repeat(600))
    await sleep(50)
    socket.resetAndDestroy()
  }
  release()
  const before = await settled(() => counts.small)
  const socket = await send(t, port, get('/slow') + get('/small').repeat(600))
  socket.resume()
  await eventually(() => counts.small === before + 600)
  t.equal(socket.destroyed, false)
})

t.test('unsent answers are bounded by bytes and by number', async t => {
  t.ok(MAX_UNSENT_BYTES < BODY.length, 'one large answer is enough')
  const { port, counts } = await startServer(t)
  await send(t, port, get('/small').repeat(20_000))
  const begun = await settled(() => counts.small)
  t.ok(begun < 20_000, `${begun} answers were made`)
})

for (const [what, last] of [
  ['HTTP/1.0', get('/small').replace('HTTP/1.1', 'HTTP/1.0')],
  ['Connection: close', get('/small').replace('Host:', 'Host:\r\nConnection: close')],
  ['a request that cannot be parsed', 'GARBAGE\r\n\r\n'],
] as const)
  t.test(`a client that sends on after ${what} gets the answers to all that came before`, async t => {
    const { port, server, counts } = await startServer(t)
    const socket = await send(t, port, get('/small') + get('/small') + last + get('/small'))
    const closed = once(socket, 'close')
    await eventually(() => counts.small >= 2)
    // All within the second for which the server lingers.
    for (const more of [get('/small'), 'GARBAGE', get('/small')]) {
      await sleep(20)
      socket.write(more)
    }
    await sleep(20)
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    socket.resume()
    await closed
    t.same(
      Array.from(text.matchAll(/HTTP\/1.1 (\d+)/g), match => match[1]),
      ['200', '200', last.startsWith('GARBAGE') ? '400' : '200'],
    )
    await eventually(() => server.connections === 0)
  })

t.test('a client that never closes its side does not keep its place for long', async t => {
  const { port, server } = await startServer(t)
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).resume()
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  socket.write(get('/small').replace('HTTP/1.1', 'HTTP/1.0'))
  await once(socket, 'end')
  t.equal(server.connections, 1)
  await eventually(() => server.connections === 0)
})

t.test(
  'a stop does not wait for connections on which nothing was asked, but for those that wait for an answer',
  async t => {
    const { port, server, release } = await startServer(t)
    const unused = await send(t, port, '')
    const asking = await send(t, port, get('/slow'))
    await sleep(200)
    let isClosed = false
    const closed = server
      .close(() => undefined)
      .then(() => {
        isClosed = true
      })
    unused.resume()
    await once(unused, 'close')
    t.equal(isClosed, false, 'one is to be answered')
    release()
    const [answer] = await once(asking.resume(), 'data')
    t.match(String(answer), /^HTTP\/1.1 200 /)
    await closed
  },
)

t.test('a stop answers the first request of a connection, if it is on its way', async t => {
  const { port, server } = await startServer(t)
  const socket = await send(t, port, '')
  await sleep(100)
  const closed = server.close(() => undefined)
  socket.write(get('/small'))
  const [answer] = await once(socket.resume(), 'data')
  t.match(String(answer), /^HTTP\/1.1 200 /)
  await closed
})

t.test('so it does if it was busy for longer than it waits', async t => {
  const { port, server } = await startServer(t)
  const socket = await send(t, port, '')
  await sleep(100)
  const closed = server.close(() => undefined)
  setImmediate(() => {
    socket.write(get('/small'))
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FIRST_REQUEST_MS + 100)
  })
  const [answer] = await once(socket.resume(), 'data')
  t.match(String(answer), /^HTTP\/1.1 200 /)
  await closed
})

t.test('a stop lets clients read the answers that are being sent, and ends the other connections', async t => {
  const { port, server, release } = await startServer(t)
  const close = get('/huge').replace('Host:', 'Host:\r\nConnection: close')
  const readers = await Promise.all(
    [get('/huge'), get('/small') + get('/huge'), close, get('/late')].map(requests => send(t, port, requests)),
  )
  const idle = await send(t, port, get('/small'))
  await once(idle.resume(), 'data')
  await sleep(200)
  const closed = server.close(() => undefined)
  release()
  await sleep(200)
  await Promise.all(readers.map(reader => once(reader.resume(), 'close')))
  for (const reader of readers) t.ok(reader.bytesRead > HUGE.length, `${reader.bytesRead} bytes`)
  if (!idle.closed) await once(idle, 'close')
  await closed
})

t.test('a stop does not wait for ever for a client that does not read', async t => {
  const { port, server } = await startServer(t)
  const reader = await send(t, port, get('/huge'))
  await sleep(200)
  let isClosed = false
  server
    .close(() => undefined)
    .then(() => {
      isClosed = true
    })
  await eventually(() => isClosed, 15_000)
  t.ok(LAST_ANSWERS_MS < SHUTDOWN_MS, 'the process ends only after that')
  await once(reader.resume(), 'close')
})

t.test('the limit of connections is for all sockets that the server listens on, and a stop closes each', async t => {
  const { port, server, log, release } = await startServer(t, 2)
  const other = Number(new URL(await server.listen({ host: '127.0.0.1', port: 0 })).port)
  const sockets = [await send(t, port, get('/slow')), await send(t, other, get('/slow'))]
  await eventually(() => server.connections === 2)
  for (const full of [port, other]) {
    const refused = await send(t, full, get('/small'))
    await once(refused.resume(), 'close')
    t.equal(refused.bytesRead, 0)
  }
  t.match(log, [/^127\.0\.0\.1: refused a connection: all 2 connections are taken/])
  const stopped = server.close(() => undefined)
  release()
  for (const socket of sockets) socket.resume()
  await stopped
  for (const closed of [port, other]) await t.rejects(send(t, closed, ''), { code: 'ECONNREFUSED' })
})
