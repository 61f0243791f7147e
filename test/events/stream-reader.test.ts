/** A stream without a server: what it writes to its socket, and when. */
import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import type { Credential } from '../../src/auth/authenticator.ts'
import type { Position } from '../../src/events/event-log.ts'
import { preamble, StreamReader } from '../../src/events/stream.ts'
import { Topic } from '../../src/events/topic.ts'

const STALL_MS = 1_000

/** A socket whose client reads, or does not. */
class FakeSocket {
  isRead = true
  writableLength = 0
  timeoutMs: number | undefined
  destroyed = false
  #written = ''
  #whenTaken: ((error?: Error) => void) | undefined

  write(bytes: Buffer, taken?: (error?: Error) => void): void {
    this.#written += bytes
    if (!this.isRead) this.writableLength += bytes.length
    if (taken) this.#whenTaken = taken
  }

  setTimeout(ms: number): this {
    this.timeoutMs = ms
    return this
  }

  end(bytes: Buffer, finished: () => void): void {
    this.write(bytes)
    this.#whenTaken = finished
  }

  destroy(): void {
    this.destroyed = true
  }

  /** The client reads everything, or the connection fails. */
  take(error?: Error): void {
    this.writableLength = 0
    this.#whenTaken?.(error)
  }

  /** Everything that has been written since the last call. */
  get text(): string {
    const text = this.#written
    this.#written = ''
    return text
  }
}

function start(t: Test, cursor: Position | 'unknown' = 0) {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const topic = new Topic({
    ...{ name: 'lamp', grant: 'moderator:r', maxEvents: 3, maxBytes: 1 << 20, newId: randomUUID },
    snapshot: () => '{"whole":true}',
  })
  const socket = new FakeSocket()
  const left: unknown[] = []
  const options = { topic, stallMs: STALL_MS, leave: (reader: unknown) => left.push(reader) }
  const credential = { sub: 'Ann' } as Credential
  const reader = new StreamReader(options, socket as unknown as Socket, credential, 'a network', cursor)
  const append = (level: number) => topic.changed(`{"level":${level}}`)
  const frame = (id: string, level: number) => `id: ${id}\nevent: lamp.changed\ndata: {"level":${level}}\n\n`
  const resync = () =>
    `event: events.resync\ndata: {"reason":"unknown"}\n\nid: ${topic.latestId}\nevent: lamp.changed\ndata: {"whole":true}\n\n`
  return { topic, socket, left, credential, reader, append, frame, resync, pass: (ms: number) => mock.timers.tick(ms) }
}

const closed = (reason: string) => `event: events.closed\ndata: {"reason":"${reason}"}\n\n`

t.test('the first block has the time after which to come back, and the id to come back with', t => {
  for (const [random, id, expected] of [
    [0, 'an-id', 'retry: 1000\n: receiverd\nid: an-id\n\n'],
    [0.0001, 'an-id', 'retry: 1000\n: receiverd\nid: an-id\n\n'],
    [0.5, undefined, 'retry: 2000\n: receiverd\n\n'],
    [0.9999, undefined, 'retry: 2999\n: receiverd\n\n'],
  ] as const)
    t.equal(preamble(random, id), expected)
  t.end()
})

t.test('events are written once, and those that fell out of the ring are replaced by a resync', t => {
  const { topic, socket, credential, reader, append, frame, resync } = start(t)
  t.strictSame(
    [reader.topic, reader.isHeld, reader.network, reader.credential],
    [topic, false, 'a network', credential],
  )
  reader.wake()
  t.equal(socket.text, '')
  const [one, two] = [append(1), append(2)]
  for (let n = 0; n < 2; n++) reader.wake()
  t.equal(socket.text, frame(one, 1) + frame(two, 2))
  for (let level = 3; level <= 5; level++) append(level)
  reader.wake()
  t.match(socket.text, /^id: .*\n.*\ndata: \{"level":3\}\n\n/, 'the ring still holds them')
  for (let level = 6; level <= 9; level++) append(level)
  for (let n = 0; n < 2; n++) reader.wake()
  t.equal(socket.text, resync(), 'no longer')
  const ten = append(10)
  reader.wake()
  t.equal(socket.text, frame(ten, 10))
  reader.tick()
  t.equal(socket.text, ':\n\n')
  t.end()
})

t.test('an unknown cursor begins with a resync', t => {
  const { socket, reader, append, frame, resync } = start(t, 'unknown')
  reader.wake()
  t.equal(socket.text, resync())
  const one = append(1)
  reader.wake()
  t.equal(socket.text, frame(one, 1))
  t.end()
})

t.test('a client that does not read is written nothing more until it does', t => {
  const { socket, reader, append, frame, pass } = start(t)
  socket.isRead = false
  const one = append(1)
  reader.wake()
  t.equal(socket.text, frame(one, 1))
  const [two, three] = [append(2), append(3)]
  reader.wake()
  reader.tick()
  t.equal(socket.text, '')
  pass(STALL_MS - 1)
  t.equal(socket.destroyed, false)
  socket.isRead = true
  socket.take()
  t.equal(socket.text, frame(two, 2) + frame(three, 3))
  pass(STALL_MS)
  t.equal(socket.destroyed, false, 'it reads again')
  reader.tick()
  t.equal(socket.text, ':\n\n')
  t.end()
})

t.test('a client that goes on not reading is disconnected', t => {
  const { socket, reader, append, pass } = start(t)
  socket.isRead = false
  reader.tick()
  t.equal(socket.text, ':\n\n')
  pass(STALL_MS)
  t.equal(socket.destroyed, true)
  append(1)
  socket.take(new Error('ECONNRESET'))
  reader.wake()
  t.equal(socket.text, '', 'nothing is written to a connection that failed')
  t.end()
})

t.test('the end of a stream is told once, and nothing after it', t => {
  const { socket, left, reader, append, pass } = start(t)
  reader.end('expired')
  t.equal(socket.text, closed('expired'))
  t.equal(socket.timeoutMs, STALL_MS)
  t.strictSame(left, [reader])
  t.equal(socket.destroyed, false, 'until it is written')
  append(1)
  reader.wake()
  reader.end('shutting down')
  t.equal(socket.text, '')
  t.strictSame(left, [reader])
  socket.take()
  t.equal(socket.destroyed, true)
  pass(STALL_MS)
  t.end()
})

t.test('a client that does not read is not told the end', t => {
  const { socket, left, reader, append, frame } = start(t)
  socket.isRead = false
  const one = append(1)
  reader.wake()
  reader.end('key replaced')
  t.equal(socket.text, frame(one, 1))
  t.equal(socket.destroyed, true)
  t.strictSame(left, [reader])
  t.end()
})

t.test('a connection that has closed frees its place, and is left alone', t => {
  const { socket, left, reader, append } = start(t)
  socket.isRead = false
  reader.tick()
  reader.cancel()
  t.strictSame(left, [reader])
  append(1)
  socket.take()
  reader.end('expired')
  t.equal(socket.text, ':\n\n')
  t.strictSame(left, [reader])
  t.equal(socket.destroyed, false)
  t.end()
})
