import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import type { Credential } from '../../src/auth/authenticator.ts'
import { EventLog } from '../../src/events/event-log.ts'
import { Resync } from '../../src/events/resync.ts'
import { StreamReader } from '../../src/events/stream.ts'
import { eventually } from '../support/eventually.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const credential: Credential = {
  isApiKey: true,
  generation: 0,
  grants: new Set(),
  exp: undefined,
  nbf: undefined,
  sub: undefined,
}
const KIB = 'x'.repeat(1_000)

/** Readers of one log over real connections, as a server would have them. */
async function setUp(t: Test) {
  const log = new EventLog({ maxEvents: 1_024, maxBytes: 1 << 20, newId: randomUUID })
  const resync = new Resync(log, () => '{"whole":true}')
  const readers: StreamReader[] = []
  const server: Server = createServer(socket => {
    socket.on('error', () => undefined)
    readers.push(
      new StreamReader({ socket, log, resync, credential, cursor: log.head, stallMs: 1_000, leave: () => undefined }),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const join = async (): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    const before = readers.length
    await once(socket, 'connect')
    await eventually(() => readers.length > before)
    return socket
  }
  const publish = (n: number) => {
    log.append('system.changed', JSON.stringify({ n, filler: KIB }))
    for (const reader of readers) reader.wake()
  }
  return { log, readers, join, publish }
}

t.test('a client that does not read costs a cursor, and no more with every event', async t => {
  const { join, publish } = await setUp(t)
  for (let n = 0; n < 40; n++) (await join()).pause()
  // Until every socket's buffers in the kernel are full, which is megabytes on loopback.
  const fill = async (from: number, to: number) => {
    for (let n = from; n < to; n++) {
      publish(n)
      if (n % 64 === 0) await new Promise(resolve => setImmediate(resolve))
    }
  }
  await fill(0, 12_000)
  collectGarbage()
  const before = process.memoryUsage()
  await fill(12_000, 32_000)
  collectGarbage()
  const after = process.memoryUsage()
  const grown = after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed
  t.ok(grown < 4 * 1024 * 1024, `grown by ${grown} bytes over 20,000 events`)
})

t.test('a client that was away resyncs in its place, and misses nothing after it', async t => {
  const { join, publish, log } = await setUp(t)
  const slow = await join()
  slow.pause()
  for (let n = 0; n < 12_000; n++) {
    publish(n)
    if (n % 64 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  let text = ''
  slow.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  slow.resume()
  await eventually(() => text.includes(`id: ${log.latestId}\n`) && text.endsWith('\n\n'))
  const [replayed = '', rest = ''] = text.split('event: events.resync\ndata: {"reason":"unknown"}\n\n')
  const numbers = Array.from(replayed.matchAll(/"n":(\d+)/g), match => Number(match[1]))
  t.ok(numbers.length > 0 && numbers.length < 12_000)
  t.ok(
    numbers.every((n, at) => n === at),
    'in order, without a gap or a duplicate, up to the resync',
  )
  t.match(rest, /^id: .*\nevent: system.changed\ndata: {"whole":true}\n\n/)
  publish(12_000)
  await eventually(() => text.includes('"n":12000'))
})

t.test('a backlog larger than any buffer arrives whole', async t => {
  const { join, publish, log } = await setUp(t)
  const reader = await join()
  let text = ''
  reader.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  for (let n = 0; n < 900; n++) publish(n)
  await eventually(() => text.includes(`id: ${log.latestId}\n`) && text.endsWith('\n\n'))
  const numbers = Array.from(text.matchAll(/"n":(\d+)/g), match => Number(match[1]))
  t.strictSame(
    numbers,
    Array.from({ length: 900 }, (_, n) => n),
  )
})

t.test('a client that goes on not reading is let go', async t => {
  const { join, publish, readers } = await setUp(t)
  const slow = await join()
  slow.pause()
  for (let n = 0; n < 12_000; n++) {
    publish(n)
    if (n % 64 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  for (const now of [0, 500, 999]) for (const reader of readers) reader.tick(now)
  await new Promise(resolve => setTimeout(resolve, 50))
  t.equal(slow.destroyed, false)
  for (const reader of readers) reader.tick(1_000)
  slow.resume()
  await eventually(() => slow.destroyed)
})
