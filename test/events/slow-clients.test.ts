import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { Credential } from '../../src/auth/authenticator.ts'
import { StreamReader } from '../../src/events/stream.ts'
import { Topic } from '../../src/events/topic.ts'
import { eventually } from '../support/eventually.ts'
import { collectGarbage } from '../support/garbage.ts'

const credential: Credential = {
  isApiKey: true,
  generation: 0,
  grants: new Set(),
  exp: undefined,
  nbf: undefined,
  sub: undefined,
}
const KIB = 'x'.repeat(1_000)

/**
 * Readers of one log over real connections, as a server would have them.
 * @param stallMs Milliseconds after which a client that does not read is let go.
 */
async function setUp(t: Test, stallMs = 600_000) {
  const topic = new Topic({
    name: 'system',
    grant: 'admin:r',
    snapshot: () => '{"whole":true}',
    maxEvents: 1_024,
    maxBytes: 1 << 20,
    newId: randomUUID,
  })
  const { log } = topic
  const readers: StreamReader[] = []
  const sockets: Socket[] = []
  const server: Server = createServer(socket => {
    socket.on('error', () => undefined)
    sockets.push(socket)
    const options = { topic, stallMs, leave: () => undefined }
    const reader = new StreamReader(options, socket, credential, 'local', log.head)
    socket.on('close', () => reader.cancel())
    readers.push(reader)
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
  let published = 0
  /** Publishes events that are numbered from 0, and leaves the sockets time now and then. */
  const publish = async (count: number) => {
    for (const end = published + count; published < end; published++) {
      log.append('system.changed', JSON.stringify({ n: published, filler: KIB }))
      for (const reader of readers) reader.wake()
      if (published % 64 === 0) await new Promise(resolve => setImmediate(resolve))
    }
  }
  /** Until the buffers of the kernel, which are megabytes on loopback, take no more for anyone. */
  const fill = async () => {
    while (sockets.some(socket => socket.writableLength === 0)) await publish(64)
  }
  return { log, sockets, join, publish, fill }
}

t.test('a client that does not read costs a cursor, and no more with every event', async t => {
  const { join, publish, fill, sockets } = await setUp(t)
  for (let n = 0; n < 40; n++) (await join()).pause()
  await fill()
  await collectGarbage()
  const before = process.memoryUsage()
  await publish(20_000)
  await collectGarbage()
  const after = process.memoryUsage()
  t.ok(sockets.length === 40 && sockets.every(socket => !socket.destroyed), 'all are still there')
  const grown = after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed
  t.ok(grown < 4 * 1024 * 1024, `grown by ${grown} bytes over 20,000 events`)
})

t.test('a client that was away resyncs in its place, and misses nothing after it', async t => {
  const { join, publish, fill, log } = await setUp(t)
  const slow = await join()
  slow.pause()
  await fill()
  await publish(2_000)
  let text = ''
  slow.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  slow.resume()
  await eventually(() => text.includes(`id: ${log.latestId}\n`) && text.endsWith('\n\n'))
  const [replayed = '', rest = ''] = text.split('event: events.resync\ndata: {"reason":"unknown"}\n\n')
  const numbers = Array.from(replayed.matchAll(/"n":(\d+)/g), match => Number(match[1]))
  t.ok(numbers.length > 0 && numbers.length < log.head - 1_000)
  t.ok(
    numbers.every((n, at) => n === at),
    'in order, without a gap or a duplicate, up to the resync',
  )
  t.match(rest, /^id: .*\nevent: system.changed\ndata: {"whole":true}\n\n/)
  await publish(1)
  await eventually(() => text.includes(`"n":${log.head - 1},`))
})

t.test('a backlog larger than any buffer arrives whole', async t => {
  const { join, publish, log } = await setUp(t)
  const reader = await join()
  let text = ''
  reader.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  await publish(900)
  await eventually(() => text.includes(`id: ${log.latestId}\n`) && text.endsWith('\n\n'))
  const numbers = Array.from(text.matchAll(/"n":(\d+)/g), match => Number(match[1]))
  t.strictSame(
    numbers,
    Array.from({ length: 900 }, (_, n) => n),
  )
})

t.test('a client that goes on not reading is let go', async t => {
  const { join, fill, sockets } = await setUp(t, 1_000)
  const slow = await join()
  slow.pause()
  await fill()
  t.equal(sockets[0]?.destroyed, false)
  await eventually(() => sockets[0]?.destroyed === true)
})
