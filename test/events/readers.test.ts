import { randomUUID } from 'node:crypto'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import type { Credential } from '../../src/auth/authenticator.ts'
import type { End, Reader } from '../../src/events/reader.ts'
import { Readers } from '../../src/events/readers.ts'
import { Topic } from '../../src/events/topic.ts'

const HEARTBEAT_MS = 10_000

/** Readers whose credentials expire when the clock passes their `exp`. */
function start(t: Test) {
  mock.timers.enable({ apis: ['setInterval', 'setImmediate'] })
  t.teardown(() => mock.timers.reset())
  const clock = { ms: 0, now: () => clock.ms }
  const readers = new Readers({
    limits: { streams: 4, streamsPerAddress: 2, heartbeatS: HEARTBEAT_MS / 1000 },
    refusalNow: ({ exp = Number.POSITIVE_INFINITY }, now) => (now >= exp ? 'expired' : undefined),
    clock,
  })
  const topic = (name: string) =>
    new Topic({
      ...{ name, grant: 'moderator:r', maxEvents: 9, maxBytes: 999, newId: randomUUID },
      snapshot: () => '{}',
    })
  const [lamp, door] = [topic('lamp'), topic('door')]
  const did: string[] = []
  /** What has happened to readers since the last call. */
  const since = () => did.splice(0)
  const join = (name: string, network = name, topic = lamp, exp?: number): Reader => {
    const reader: Reader = {
      topic,
      credential: { exp } as Credential,
      network,
      isHeld: name.startsWith('poll'),
      wake: () => did.push(`${name} wakes`),
      tick: () => did.push(`${name} ticks`),
      end(why: End) {
        did.push(`${name}: ${why}`)
        readers.remove(reader)
      },
    }
    readers.add(reader)
    return reader
  }
  const pass = (ms: number) => mock.timers.tick(ms)
  return { readers, lamp, door, clock, join, since, pass }
}

t.test('there is room for so many, and for so many of one network', t => {
  const { readers, door, join } = start(t)
  const refusals = () =>
    ['a', 'b', 'c'].map(network => {
      try {
        return readers.requireRoom(network)
      } catch (error) {
        const { kind, message, headers } = error as { kind: string; message: string; headers: string[] }
        t.strictSame(headers, ['Retry-After', '5'])
        return `${kind}: ${message}`
      }
    })
  const perAddress = 'too-many-streams: All 2 event streams and held polls of this address are in use.'
  const inAll = 'unavailable: All 4 event streams and held polls are in use.'
  t.strictSame(refusals(), [undefined, undefined, undefined])
  const first = join('1', 'a')
  t.strictSame(refusals(), [undefined, undefined, undefined])
  join('poll 2', 'a', door)
  t.strictSame(refusals(), [perAddress, undefined, undefined])
  join('poll 3', 'b')
  join('4', 'c')
  t.strictSame([readers.size, readers.heldPolls], [4, 2])
  t.strictSame(refusals(), [inAll, inAll, inAll])
  for (let n = 0; n < 2; n++) readers.remove(first)
  t.strictSame([readers.size, readers.heldPolls], [3, 2], 'it leaves once')
  t.strictSame(refusals(), [undefined, undefined, undefined])
  readers.close()
  t.strictSame([readers.size, readers.heldPolls], [0, 0])
  t.strictSame(refusals(), Array(3).fill('unavailable: The service is shutting down.'))
  t.end()
})

t.test('an event wakes the readers of its topic', t => {
  const { lamp, door, join, since, pass } = start(t)
  join('one')
  join('two')
  join('other', 'c', door)
  lamp.changed('{}')
  pass(0)
  t.strictSame(since(), ['one wakes', 'two wakes'])
  door.changed('{}')
  pass(0)
  t.strictSame(since(), ['other wakes'])
  t.end()
})

t.test('a reader whose credential has become invalid gets nothing more', t => {
  const { readers, lamp, door, clock, join, since, pass } = start(t)
  join('one', 'a', lamp, 1_000)
  join('two', 'b', lamp, 2_000)
  join('three', 'c', door, 2_000)
  join('four', 'd', door)
  clock.ms = 999
  readers.endRefused()
  t.strictSame(since(), [])
  clock.ms = 1_000
  lamp.changed('{}')
  pass(0)
  t.strictSame(since(), ['one: expired', 'two wakes'])
  clock.ms = 2_000
  readers.endRefused()
  t.strictSame(since(), ['two: expired', 'three: expired'])
  t.equal(readers.size, 1)
  readers.close()
  t.strictSame(since(), ['four: shutting down'])
  t.end()
})

t.test('heartbeats, while anyone is there', t => {
  const { readers, door, clock, join, since, pass } = start(t)
  const one = join('one')
  const two = join('two', 'b', door, 15_000)
  pass(HEARTBEAT_MS - 1)
  t.strictSame(since(), [])
  pass(1)
  t.strictSame(since(), ['one ticks', 'two ticks'])
  clock.ms = 20_000
  pass(HEARTBEAT_MS)
  t.strictSame(since(), ['one ticks', 'two: expired'])
  readers.remove(two)
  pass(HEARTBEAT_MS / 2)
  readers.remove(one)
  join('three')
  pass(HEARTBEAT_MS - 1)
  t.strictSame(since(), [], 'counted from the first who is there')
  pass(1)
  t.strictSame(since(), ['three ticks'])
  t.end()
})
