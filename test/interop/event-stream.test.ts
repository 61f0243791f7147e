/** The event stream as clients read it: npm `eventsource`, and the parser `eventsource-parser` on arbitrary chunks. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { EventSource, type FetchLike } from 'eventsource'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import t, { type Test } from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { eventually } from '../support/eventually.ts'
import { type Receiver, receiverd, startReceiver } from './support.ts'

interface Seen {
  readonly event: string
  readonly id: string
  readonly data: JsonObject
}

/** A client as the API's own procedure has it: reads the configuration, then merges what the stream brings. */
class Client {
  readonly source: EventSource
  readonly seen: Seen[] = []
  /** The `Last-Event-ID` of every connection it made. */
  readonly resumedFrom: (string | null)[] = []
  copy: JsonObject

  constructor(url: string, copy: JsonObject, headers: Record<string, string> = {}) {
    this.copy = copy
    const fetchWith: FetchLike = (input, init) => {
      this.resumedFrom.push(new Headers(init.headers).get('last-event-id'))
      return fetch(input, { ...init, headers: { ...init.headers, ...headers } })
    }
    this.source = new EventSource(url, { fetch: fetchWith })
    for (const name of ['system.changed', 'events.resync', 'message'])
      this.source.addEventListener(name, ({ type, lastEventId, data }) => {
        this.seen.push({ event: type, id: lastEventId, data: JSON.parse(data) })
        if (type === 'system.changed') this.copy = { ...this.copy, ...JSON.parse(data) }
      })
  }

  get events(): readonly string[] {
    return this.seen.map(seen => seen.event)
  }

  isOpen(): Promise<boolean> {
    return eventually(() => this.source.readyState === this.source.OPEN)
  }
}

/** Follows a receiver from its present configuration on, as a client is told to. */
async function follow(
  t: Test,
  receiver: Receiver,
  how: { readonly url?: string; readonly query?: string; readonly headers?: Record<string, string> } = {},
): Promise<Client> {
  const { value, id } = await receiver.system()
  const { url = receiver.url, query = `&apiKey=${receiver.key}`, headers } = how
  const client = new Client(`${url}/api/v1/events?initialEventId=${id}${query}`, value, headers)
  t.teardown(() => client.source.close())
  await client.isOpen()
  return client
}

/** As a package's update does it: another file takes the place. */
function replace(receiver: Receiver, name: string, edit: (text: string) => string): void {
  const path = receiver.path(name)
  writeFileSync(`${path}.new`, edit(readFileSync(path, 'utf8')))
  renameSync(`${path}.new`, path)
}

t.jobs = 4

t.test('eventsource: gets the named event, with its credential in the query or a header', async t => {
  const receiver = await startReceiver(t)
  const token = (await receiverd(['token', '--role', 'admin:r', '--root', receiver.root])).stdout.trim()
  const clients = {
    'API key in the query': await follow(t, receiver),
    'JWT in the query': await follow(t, receiver, { query: `&apiKey=${token}` }),
    'API key in a header': await follow(t, receiver, {
      query: '',
      headers: { Authorization: `Bearer ${receiver.key}` },
    }),
    'JWT in a header': await follow(t, receiver, { query: '', headers: { Authorization: `Bearer ${token}` } }),
  }
  const etag = (await receiver.patch({ deviceName: 'Salle d’été 🎥' })).headers.get('etag')
  for (const [how, client] of Object.entries(clients)) {
    await eventually(() => client.seen.length > 0)
    t.same(
      client.seen,
      [{ event: 'system.changed', id: etag?.replaceAll('"', ''), data: { deviceName: 'Salle d’été 🎥' } }],
      how,
    )
  }
})

t.test('eventsource: is told that a credential does not hold, and does not come back', async t => {
  const receiver = await startReceiver(t)
  const source = new EventSource(`${receiver.url}/api/v1/events?apiKey=nobody`)
  t.teardown(() => source.close())
  const code = await new Promise(resolve => source.addEventListener('error', ({ code }) => resolve(code)))
  t.equal(code, 401)
  t.equal(source.readyState, source.CLOSED)
})

t.test('eventsource: a merged copy is the configuration, whoever changes it', async t => {
  const receiver = await startReceiver(t)
  const client = await follow(t, receiver)
  const ntp = '[Time]\nNTP=\nNTP=ntp1.example ntp2.example\n'
  const changes: (() => unknown)[] = [
    () => receiver.patch({ deviceName: 'One', timezone: 'Asia/Tokyo' }),
    () => receiver.patch({ hostname: 'lobby', ntp: { enabled: false } }),
    () => replace(receiver, 'etc/machine-info', () => 'PRETTY_HOSTNAME="Two"\n'),
    () => receiver.patch({ ntp: { servers: ['192.0.2.1', 'time.example'] } }),
    () => writeFileSync(receiver.path('etc/hostname'), 'written-in-place\n'),
    () => replace(receiver, 'etc/os-release', text => text.replace('20260814.3', '20260901.1')),
    () => replace(receiver, 'etc/locale.conf', () => 'LANG=ja_JP.UTF-8\n'),
    () => replace(receiver, 'etc/systemd/timesyncd.conf.d/50-receiverd.conf', () => ntp),
    () => receiver.patch({ locale: 'nl_BE.UTF-8', timezone: 'Europe/London', deviceName: 'Three' }),
  ]
  let latest = (await receiver.system()).id
  for (const [at, change] of changes.entries()) {
    await change()
    const { id, value } = await eventually(async () => {
      const system = await receiver.system()
      return system.id !== latest && system
    })
    latest = id
    await eventually(() => client.seen.at(-1)?.id === id)
    t.same(client.copy, value, `after change ${at}`)
  }
  t.equal(client.resumedFrom.length, 1, 'over one connection')
  t.equal(new Set(client.seen.map(seen => seen.id)).size, client.seen.length, 'no event came twice')
  t.match(client.copy, {
    deviceName: 'Three',
    hostname: 'written-in-place',
    timezone: 'Europe/London',
    locale: 'nl_BE.UTF-8',
    ntp: { enabled: false, servers: ['ntp1.example', 'ntp2.example'] },
    firmware: { build: '20260901.1' },
  })
})

t.test('eventsource: resumes where it was cut off: nothing missing, nothing twice', async t => {
  const receiver = await startReceiver(t)
  const line = await cuttableLine(t, receiver.port)
  const client = await follow(t, receiver, { url: line.url })
  await receiver.patch({ deviceName: 'one' })
  await eventually(() => client.seen.length === 1)
  line.cut()
  await receiver.patch({ deviceName: 'two' })
  await receiver.patch({ deviceName: 'three' })
  line.mend()
  await eventually(() => client.seen.length === 3)
  await receiver.patch({ deviceName: 'four' })
  await eventually(() => client.seen.length === 4)
  t.same(
    client.seen.map(seen => seen.data.deviceName),
    ['one', 'two', 'three', 'four'],
  )
  t.same(client.events, new Array(4).fill('system.changed'), 'no resync was needed')
  t.same(new Set(client.resumedFrom.slice(1)), new Set([client.seen[0]?.id]), 'it came back with the last id it had')
  t.same(client.copy, (await receiver.system()).value)
})

t.test('eventsource: after a restart it is resynced, and its copy is whole again', async t => {
  const receiver = await startReceiver(t)
  const client = await follow(t, receiver)
  await receiver.patch({ deviceName: 'Before the restart' })
  await eventually(() => client.seen.length === 1)
  const before = await receiver.system()

  await receiver.restart(() => writeFileSync(receiver.path('etc/hostname'), 'changed-while-stopped\n'))
  await eventually(() => client.seen.length === 3)
  const after = await receiver.system()
  t.not(after.id, before.id, 'an id of an earlier run is not used again')
  t.same(client.events, ['system.changed', 'events.resync', 'system.changed'])
  t.match(client.seen[1], { id: '', data: { reason: 'unknown' } }, 'the resync has no id of its own')
  t.same(client.seen[2], { event: 'system.changed', id: after.id, data: after.value })
  t.same(client.copy, after.value)
  t.equal(client.copy.hostname, 'changed-while-stopped')

  await receiver.patch({ deviceName: 'After the restart' })
  await eventually(() => client.seen.length === 4)
  t.same(client.copy, (await receiver.system()).value)
})

t.test('eventsource-parser: reads the stream however it is cut into chunks', async t => {
  const receiver = await startReceiver(t)
  const { etag, id } = await receiver.system()
  for (const deviceName of ['a', 'é', '🎥🎥', 'id: 1', '\u2028 \ufeff', '"\\: data', '終']) {
    const response = await receiver.patch({ deviceName })
    t.equal(response.status, 200)
  }
  const poll = await receiver.fetch('/events', { headers: { 'If-None-Match': etag } })
  const events = (await poll.json()) as { event: string; data: JsonObject }[]
  const bytes = await streamBytes(receiver, id, (await receiver.system()).id)

  const whole = parse([bytes])
  t.match(whole, { comments: ['receiverd'], errors: [] })
  t.equal(whole.retries.length, 1)
  t.match(
    whole.retries.filter(retry => retry >= 1000 && retry <= 3000),
    { length: 1 },
  )
  t.same(
    whole.messages.map(({ event, data }) => ({ event, data: JSON.parse(data) })),
    events.map(({ event, data }) => ({ event, data })),
    'the same events as by a poll',
  )
  const ids = whole.messages.map(message => message.id)
  t.equal(new Set([id, ...ids]).size, events.length + 1)
  t.equal(`"${ids.at(-1)}"`, poll.headers.get('etag'), 'the last id is the ETag of the poll')

  const wrong: number[] = []
  for (let cut = 1; cut < bytes.length; cut++)
    if (JSON.stringify(parse([bytes.subarray(0, cut), bytes.subarray(cut)])) !== JSON.stringify(whole)) wrong.push(cut)
  t.same(wrong, [], `cut in two at each of ${bytes.length - 1} places`)
  for (const size of [1, 2, 3, 7, 16, 61]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    )
    t.same(parse(chunks), whole, `cut every ${size} bytes`)
  }
})

/** The bytes of a stream's body, from the event after `from` to the end of event `to`. */
async function streamBytes(receiver: Receiver, from: string, to: string): Promise<Buffer> {
  const headers = { Accept: 'text/event-stream' }
  const response = await receiver.fetch(`/events?initialEventId=${from}`, { headers })
  const chunks: Uint8Array[] = []
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    if (text.includes(`id: ${to}\n`) && text.endsWith('\n\n')) break
  }
  return Buffer.concat(chunks)
}

function parse(chunks: readonly Uint8Array[]) {
  const messages: EventSourceMessage[] = []
  const comments: string[] = []
  const retries: number[] = []
  const errors: string[] = []
  const parser = createParser({
    onEvent: message => messages.push(message),
    onComment: comment => comments.push(comment),
    onRetry: retry => retries.push(retry),
    onError: error => errors.push(error.message),
  })
  const utf8 = new TextDecoder('utf-8', { fatal: true })
  for (const chunk of chunks) parser.feed(utf8.decode(chunk, { stream: true }))
  parser.feed(utf8.decode())
  return { messages, comments, retries, errors }
}

/** A line to a port that can be cut, with all that is on it, and mended. */
async function cuttableLine(t: Test, port: number) {
  const sockets = new Set<Socket>()
  let isCut = false
  const server = createServer(near => {
    if (isCut) return void near.destroy()
    const far = connect(port, '127.0.0.1')
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
      one.pipe(other)
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    isCut = true
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  t.teardown(() => {
    cut()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the line has no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    cut,
    mend() {
      isCut = false
    },
  }
}
