import { randomUUID } from 'node:crypto'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { PacedTopic } from '../../src/events/paced-topic.ts'

const PACE_MS = 50

function start(t: Test) {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const lamp = { level: 0, reads: 0 }
  const read = () => {
    lamp.reads++
    return { level: lamp.level }
  }
  const ring = { maxEvents: 99, maxBytes: 9_999, newId: randomUUID }
  const paced = new PacedTopic({ name: 'lamp', grant: 'moderator:r', read, paceMs: PACE_MS, ...ring })
  const change = (level: number) => {
    lamp.level = level
    paced.changed()
  }
  let at = 0
  /** The levels that events have told since the last call. */
  const told = () => {
    const { bytes, next } = paced.topic.log.array(at)
    at = next
    const events = JSON.parse(bytes.toString()) as { event: string; data: { level: number } }[]
    t.ok(events.every(({ event }) => event === 'lamp.changed'))
    return events.map(({ data }) => data.level)
  }
  return { paced, lamp, change, told, pass: (ms: number) => mock.timers.tick(ms) }
}

t.test('the first change is told at once, and those after it together, once the time is over', t => {
  const { change, told, pass } = start(t)
  change(1)
  t.strictSame(told(), [1])
  change(2)
  change(3)
  pass(PACE_MS - 1)
  t.strictSame(told(), [])
  pass(1)
  t.strictSame(told(), [3])
  change(4)
  t.strictSame(told(), [], 'the pace is kept')
  pass(PACE_MS)
  t.strictSame(told(), [4])
  pass(10 * PACE_MS)
  t.strictSame(told(), [], 'nothing has changed')
  change(5)
  t.strictSame(told(), [5], 'at once again')
  t.end()
})

t.test('a read tells what has changed, so that its ETag is right', t => {
  const { paced, change, told, pass } = start(t)
  const initial = paced.current
  t.strictSame(initial, { id: paced.topic.latestId, json: '{"level":0}' })
  t.strictSame(told(), [], 'a read changes nothing')
  change(1)
  pass(PACE_MS / 2)
  change(2)
  const { id, json } = paced.current
  t.equal(json, '{"level":2}')
  t.equal(id, paced.topic.latestId)
  t.strictSame(told(), [1, 2])
  pass(PACE_MS - 1)
  change(3)
  t.strictSame(told(), [], 'the pace is counted from there')
  pass(1)
  t.strictSame(told(), [3])
  pass(PACE_MS)
  t.strictSame(told(), [])
  t.end()
})

t.test('the resource is encoded once for each change', t => {
  const { paced, lamp, change } = start(t)
  change(1)
  for (let n = 0; n < 3; n++) t.equal(paced.current.json, '{"level":1}')
  t.match(paced.topic.resync.frames.toString(), '{"level":1}')
  t.equal(lamp.reads, 1)
  t.end()
})

t.test('once it is stopped, it tells nothing more', t => {
  const { paced, change, told, pass } = start(t)
  change(1)
  change(2)
  paced.stop()
  pass(10 * PACE_MS)
  t.strictSame(told(), [1])
  t.end()
})
