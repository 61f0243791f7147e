/** The bundle on every Node that it is meant for: a short life, and the needs of src/http/node-internals.ts. */
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { run } from '../support/run.ts'
import { type Receiver, startReceiver } from './support.ts'

/** Of the two packages of a version, the one for this machine is installed. */
const VERSIONS: Readonly<Record<string, readonly string[]>> = {
  22: ['node-22', 'node-22-arm64'],
  24: ['node-24', 'node-24-arm64'],
  26: ['node-26', 'node-26-arm64'],
}

function nodeOf(packages: readonly string[]): string | undefined {
  return packages
    .map(name => fileURLToPath(new URL(`node_modules/${name}/bin/node`, import.meta.url)))
    .find(path => existsSync(path))
}

async function live(t: Test, node: string): Promise<void> {
  const receiver = await startReceiver(t, { node })
  const before = await receiver.system()
  t.equal(before.value.deviceName, 'Meeting Room 4')

  const stream = await receiver.fetch('/events', { headers: { Accept: 'text/event-stream' } })
  t.equal(stream.headers.get('content-type'), 'text/event-stream')
  let text = ''
  const ended = (async () => {
    const utf8 = new TextDecoder()
    for await (const chunk of stream.body ?? []) text += utf8.decode(chunk, { stream: true })
  })()
  const held = receiver.fetch('/events', { headers: { 'If-None-Match': before.etag, Prefer: 'wait=60' } })

  const patched = await receiver.patch({ deviceName: 'Studio', ntp: { servers: ['time.example'] } })
  t.equal(patched.status, 200)
  const etag = patched.headers.get('etag') ?? ''
  await eventually(() => text.includes('"deviceName":"Studio"'))
  t.match(text, `id: ${etag.replaceAll('"', '')}\nevent: system.changed\ndata: {"deviceName":"Studio","ntp":`)
  const answer = await held
  t.equal(answer.headers.get('etag'), etag, 'the poll that was held has it too')
  t.match(await answer.json(), [{ event: 'system.changed', data: { deviceName: 'Studio' } }])
  t.equal((await receiver.fetch('/events', { headers: { 'If-None-Match': etag, Prefer: 'wait=0' } })).status, 304)

  const rotated = await receiver.fetch('/api-key', { method: 'POST' })
  t.same(await rotated.json(), { apiKey: receiver.key, issuers: [] })
  await ended
  t.ok(text.endsWith(`\n\nevent: events.closed\ndata: {"reason":"key replaced"}\n\n`), 'the rotation ends the stream')

  const later = receiver.fetch('/events', { headers: { 'If-None-Match': etag, Prefer: 'wait=60' } })
  await receiver.system()
  t.equal(await receiver.stop(), 0)
  t.equal((await later).status, 304, 'a held poll is answered at the end')
}

const get = (path: string, ...headers: readonly string[]) =>
  ['GET /api/v1', path, ' HTTP/1.1\r\nHost: device\r\n', ...headers.map(line => `${line}\r\n`), '\r\n'].join('')
const LAST = get('/health', 'Connection: close')
const STATUS_LINE = 'HTTP/1.1 200'
const statuses = (answer: string) => Array.from(answer.matchAll(/HTTP\/1\.1 (\d{3})/g), match => Number(match[1]))

/** Sends bytes as they are; resolves with all that came back when the connection has ended. */
function raw({ port }: Receiver, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes, 'latin1'))
    let answer = ''
    socket.setEncoding('latin1').on('data', chunk => {
      answer += chunk
    })
    socket.on('close', () => resolve(answer)).on('error', reject)
  })
}

/** Bytes of memory that a process has for itself. */
function memoryOf({ pid }: Receiver): number {
  return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
}

async function internals(t: Test, node: string): Promise<void> {
  // The heap that the unit gives to the service.
  const NODE_OPTIONS = '--max-old-space-size=64 --max-semi-space-size=2'
  const receiver = await startReceiver(t, { node, env: { RECEIVERD_STREAMS: '2', NODE_OPTIONS } })
  const credential = `Authorization: Bearer ${receiver.key}`
  const stream = get('/events', credential, 'Accept: text/event-stream')
  const slow = raw(receiver, 'GET /api/v1/hea')

  await t.test('parse errors are told apart', async t => {
    t.match(await raw(receiver, 'GARBAGE\r\n\r\n'), /^HTTP\/1\.1 400 .*application\/problem\+json/s)
    t.match(await raw(receiver, get(`/${'x'.repeat(9_000)}`)), /^HTTP\/1\.1 431 .*application\/problem\+json/s)
    t.strictSame(statuses(await raw(receiver, `${get('/health')}GARBAGE\r\n\r\n`)), [200, 400])
  })

  await t.test('the parser stops behind an Upgrade, and the connection ends', async t => {
    const offer = get('/health', 'Connection: Upgrade', 'Upgrade: h2c')
    t.strictSame(statuses(await raw(receiver, offer + get('/health'))), [200])
  })

  await t.test('Host is checked by us, and HTTP/1.0 is not told to continue', async t => {
    t.match(await raw(receiver, LAST.replace('Host: device\r\n', '')), /^HTTP\/1\.1 400 .*problem\+json/s)
    const patch = (version: string) =>
      `PATCH /api/v1/system HTTP/${version}\r\nHost: device\r\n${credential}\r\nContent-Type: application/json\r\n` +
      'Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n{}'
    t.strictSame(statuses(await raw(receiver, patch('1.0'))), [200])
    t.strictSame(statuses(await raw(receiver, patch('1.1'))), [100, 200])
  })

  await t.test('requests sent ahead are answered in order, with and without Node writing the answer', async t => {
    const body = '{"deviceName":"Ahead"}'
    const patch = get('/system', credential, 'Content-Type: application/json', `Content-Length: ${body.length}`)
    const read = get('/system', credential)
    const requests = [
      ...[read, patch.replace('GET', 'PATCH') + body, read, read.replace('GET', 'HEAD')],
      ...[
        get('/events', credential, 'If-None-Match: *'),
        get('/nowhere'),
        `${get('/nowhere', 'Content-Length: 4')}GET `,
      ],
    ]
    const answer = await raw(receiver, requests.join('').repeat(30) + LAST)
    t.strictSame(statuses(answer), [...Array(30).fill([200, 200, 200, 200, 304, 404, 404]).flat(), 200])
  })

  await t.test('a client that sends on after its last request gets all answers', async t => {
    const socket = connect(receiver.port, '127.0.0.1').pause()
    socket.write(get('/health').repeat(3) + LAST)
    // All within the second for which the server lingers.
    for (let n = 0; n < 3; n++) {
      await sleep(20)
      socket.write(get('/health'))
    }
    let answer = ''
    socket.on('data', chunk => {
      answer += chunk.toString('latin1')
    })
    socket.resume()
    await once(socket, 'end')
    t.strictSame(statuses(answer), [200, 200, 200, 200])
  })

  await t.test('nothing is read from a client that does not read', async t => {
    const before = memoryOf(receiver)
    const sockets = Array.from({ length: 20 }, () => connect(receiver.port, '127.0.0.1').pause())
    for (const socket of sockets) {
      socket.on('error', () => undefined)
      socket.write(get('/openapi.json').repeat(20_000))
    }
    await sleep(2_000)
    t.equal((await receiver.fetch('/health')).status, 200)
    const grown = (memoryOf(receiver) - before) / 2 ** 20
    t.ok(grown < 100, `${grown.toFixed(1)} MiB more for 20 clients with 20,000 requests each`)
    for (const socket of sockets) socket.destroy()
  })

  await t.test('a client that reads later gets all answers', async t => {
    const late = connect(receiver.port, '127.0.0.1').pause()
    // Many times what a server reads at once, of which it answers all before it reads on: long heads make that quick, and the
    // head of which it has read a part must be whole in 10 s.
    late.write(get('/openapi.json', `X-Long: ${'x'.repeat(4_000)}`).repeat(300) + LAST)
    await sleep(500)
    let answers = 0
    let text = ''
    late.on('data', chunk => {
      text += chunk.toString('latin1')
      answers += text.split(STATUS_LINE).length - 1
      // A status line may be in two chunks: this is too short for a whole one.
      text = text.slice(1 - STATUS_LINE.length)
    })
    late.resume()
    await once(late, 'end')
    t.equal(answers, 301)
  })

  await t.test('another request, or garbage, ends a stream, and its end frees its place', async t => {
    for (const behind of [get('/health'), 'GARBAGE']) {
      const socket = connect(receiver.port, '127.0.0.1', () => socket.write(stream))
      await once(socket, 'data')
      socket.write(behind)
      await once(socket, 'close')
    }
    const sockets = [1, 2].map(() => connect(receiver.port, '127.0.0.1'))
    for (const socket of sockets) socket.write(stream)
    await Promise.all(sockets.map(socket => once(socket, 'data')))
    t.match(
      await raw(receiver, get('/events', credential, 'Accept: text/event-stream', 'Connection: close')),
      /^HTTP\/1\.1 503 /,
    )
    for (const socket of sockets) socket.end()
    await eventually(
      async () =>
        (await receiver.fetch('/events', { headers: { 'If-None-Match': '*', Prefer: 'wait=1' } })).status === 304,
    )
  })

  t.match(await slow, /^HTTP\/1\.1 408 .*application\/problem\+json/s, 'a timeout is told apart')
  t.strictSame(
    receiver.log.filter(line => /^<[0-3]>/.test(line)),
    [],
    'no error was logged',
  )
}

t.jobs = 2
t.test(`this Node, ${process.versions.node}`, t => live(t, process.execPath))
t.test(`the insides of this Node, ${process.versions.node}`, t => internals(t, process.execPath))
for (const [version, packages] of Object.entries(VERSIONS)) {
  const node = nodeOf(packages)
  const skip =
    node === undefined && `there is no npm package with Node ${version} for ${process.platform} ${process.arch}`
  t.test(`Node ${version}`, { skip }, async t => {
    const { stdout } = await run(node ?? '', ['--version'])
    t.match(stdout, new RegExp(`^v${version}\\.`))
    await live(t, node ?? '')
  })
  t.test(`the insides of Node ${version}`, { skip }, t => internals(t, node ?? ''))
}
