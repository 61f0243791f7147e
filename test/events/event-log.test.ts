import { randomUUID } from 'node:crypto'
import t from 'tap'
import { EventLog } from '../../src/events/event-log.ts'
import { MAX_BATCH_BYTES } from '../../src/limits.ts'
import { collectGarbage } from '../support/garbage.ts'

function newLog(options: { maxEvents?: number; maxBytes?: number } = {}) {
  return new EventLog({ maxEvents: 4, maxBytes: 1 << 20, newId: randomUUID, ...options })
}

function append(log: EventLog, count: number, size = 1): string[] {
  return Array.from({ length: count }, (_, n) => {
    log.append('system.changed', JSON.stringify({ n, filler: 'x'.repeat(size) }))
    return log.latestId
  })
}

t.test('there is an id before the first event, and it can be resumed from', async t => {
  const log = newLog()
  const start = log.latestId
  t.type(start, 'string')
  t.equal(log.positionOf(start), 0)
  t.equal(log.idAt(0), start)
  append(log, 4)
  t.equal(log.positionOf(start), 0, 'nothing after it is gone')
  append(log, 1)
  t.equal(log.positionOf(start), undefined)
})

t.test('a client can resume from kept events, and from the place before them; nowhere else', async t => {
  const log = newLog()
  const ids = append(log, 10)
  t.strictSame(
    ids.map(id => log.positionOf(id)),
    [undefined, undefined, undefined, undefined, undefined, 6, 7, 8, 9, 10],
  )
  t.equal(log.holds(6), true)
  t.equal(log.holds(5), false)
  t.equal(log.evicted, 6)
  for (const position of [6, 7, 10]) t.equal(log.idAt(position), ids[position - 1])
  const refusal = { name: 'RangeError', message: 'this event was evicted' }
  t.throws(() => log.frames(5), refusal)
  t.throws(() => newLog().idAt(1), refusal, 'nor one that is yet to come')
})

t.test('a frame is an SSE block, and the same bytes for everyone', async t => {
  const log = newLog()
  append(log, 1)
  const { bytes, next } = log.frames(0)
  t.equal(bytes.toString(), `id: ${log.latestId}\nevent: system.changed\ndata: {"n":0,"filler":"x"}\n\n`)
  t.equal(next, 1)
  t.equal(log.frames(0).bytes, bytes)
  t.match(log.frames(1), { bytes: Buffer.alloc(0), next: 1 }, 'nothing after it')
})

t.test('a batch is joined once for all who read it, until there is more', async t => {
  const log = newLog()
  append(log, 2)
  for (const read of [() => log.frames(0), () => log.array(0)]) {
    const { bytes, next } = read()
    t.equal(read().bytes, bytes)
    append(log, 1)
    t.strictSame(read().next, next + 1)
  }
  t.equal(log.array(2).next, 4)
  t.equal(log.array(1).next, 4, 'from elsewhere')
})

t.test('a batch has as many events as fit', async t => {
  const log = newLog({ maxEvents: 9, maxBytes: 1 << 20 })
  const frame = (bytes: number) => {
    const empty = Buffer.byteLength(`id: ${randomUUID()}\nevent: x\ndata: ""\n\n`)
    log.append('x', JSON.stringify('y'.repeat(bytes - empty)))
  }
  for (const bytes of [MAX_BATCH_BYTES / 2, MAX_BATCH_BYTES / 2, 100, 2 * MAX_BATCH_BYTES, 100]) frame(bytes)
  const ends = (read: (from: number) => { next: number }) => [0, 1, 2, 3, 4].map(from => read(from).next)
  t.strictSame(
    ends(from => log.frames(from)),
    [2, 3, 3, 4, 5],
  )
  t.strictSame(
    ends(from => log.array(from)),
    [2, 3, 3, 4, 5],
  )
  t.equal(log.frames(0).bytes.length, MAX_BATCH_BYTES)
})

t.test('a batch is the frames one after the other, at most so many bytes', async t => {
  const log = newLog({ maxEvents: 100 })
  append(log, 40, 4_000)
  const singles: Buffer[] = []
  for (let at = 0; at < 40; at++) {
    const { bytes, next } = log.frames(at)
    t.ok(bytes.length <= MAX_BATCH_BYTES)
    singles.push(bytes.subarray(0, bytes.indexOf('\n\n') + 2))
    t.ok(next > at)
  }
  const batches: Buffer[] = []
  for (let at = 0; at < 40; ) {
    const { bytes, next } = log.frames(at)
    batches.push(bytes)
    at = next
  }
  t.ok(batches.length > 1)
  t.ok(Buffer.concat(batches).equals(Buffer.concat(singles)))
})

t.test('an array holds the same data as the frames', async t => {
  const log = newLog({ maxEvents: 100 })
  const ids = append(log, 40, 4_000)
  const events: { id: string; data: { n: number } }[] = []
  for (let at = 0; at < 40; ) {
    const { bytes, next } = log.array(at)
    events.push(...JSON.parse(bytes.toString()))
    at = next
  }
  t.strictSame(
    events.map(event => event.data.n),
    Array.from({ length: 40 }, (_, n) => n),
  )
  t.strictSame(
    events.map(event => event.id),
    ids,
  )
  t.strictSame(Object.keys(events[0] ?? {}), ['id', 'contentType', 'event', 'data'])
})

t.test('the bytes are bounded, whatever the number; the latest event stays in any case', async t => {
  const log = newLog({ maxEvents: 1_000, maxBytes: 10_000 })
  const ids = append(log, 100, 1_000)
  const kept = ids.filter(id => log.positionOf(id) !== undefined).length
  t.ok(kept >= 9 && kept <= 10, `${kept} kept`)
  const size = log.frames(log.head - 1).bytes.length
  const exact = newLog({ maxEvents: 1_000, maxBytes: 3 * size })
  const last = append(exact, 13, 1_000).filter(id => exact.positionOf(id) !== undefined)
  t.equal(last.length, 4, 'three, and the place before them')
  log.append('system.changed', JSON.stringify('y'.repeat(50_000)))
  t.equal(log.frames(log.head - 1).bytes.length > 50_000, true)
  t.equal(log.positionOf(ids.at(-1) ?? ''), log.head - 1)
})

t.test('one event is kept where no more are wanted', async t => {
  const log = newLog({ maxEvents: 1 })
  const ids = append(log, 3)
  t.strictSame(
    ids.map(id => log.positionOf(id)),
    [undefined, 2, 3],
  )
  t.match(log.frames(2).bytes.toString(), /"n":2/)
})

t.test('listeners hear of each event', async t => {
  const log = newLog()
  let heard = 0
  log.onAppend(() => heard++)
  append(log, 3)
  t.equal(heard, 3)
})

t.test('an event keeps no more memory than its own bytes', async t => {
  const log = newLog()
  append(log, 1)
  const { bytes } = log.frames(0)
  t.equal(bytes.buffer.byteLength, bytes.length)
})

t.test('an event that is gone keeps no memory', async t => {
  const log = newLog({ maxBytes: 1_000 })
  append(log, 1)
  const first = new WeakRef(log.frames(0).bytes)
  append(log, 1, 900)
  log.frames(1)
  await collectGarbage()
  t.equal(first.deref(), undefined)
})
