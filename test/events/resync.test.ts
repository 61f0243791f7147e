import { randomUUID } from 'node:crypto'
import t from 'tap'
import { Topic } from '../../src/events/topic.ts'

t.test('a resync says that something was missed, then what clients must know, then everything', t => {
  let encoded = 0
  const lamp = { level: 0 }
  const topic = new Topic({
    ...{ name: 'lamp', grant: 'moderator:r', maxEvents: 9, maxBytes: 9_999, newId: randomUUID },
    snapshot() {
      encoded++
      return JSON.stringify(lamp)
    },
  })
  t.equal(topic.isBusy(), false)
  t.equal(topic.resync.given, 0)
  const reported = { contentType: 'application/json', event: 'lamp.reverted', data: { reason: 'é' } }
  const check = (reports: readonly object[], label: string) => {
    const id = topic.latestId
    const start = { contentType: 'application/json', event: 'events.resync', data: { reason: 'unknown' } }
    const whole = { id, contentType: 'application/json', event: 'lamp.changed', data: { ...lamp } }
    t.strictSame(JSON.parse(topic.resync.array.toString()), [start, ...reports, whole], label)
    const report = reports.length > 0 ? 'event: lamp.reverted\ndata: {"reason":"é"}\n\n' : ''
    const end = `id: ${id}\nevent: lamp.changed\ndata: ${JSON.stringify(lamp)}\n\n`
    const frames = `event: events.resync\ndata: {"reason":"unknown"}\n\n${report}${end}`
    t.equal(topic.resync.frames.toString(), frames, label)
  }
  check([], 'nothing to report')
  t.strictSame([topic.resync.given, encoded], [2, 1], 'both are encoded at once')
  topic.reportOnResync('reverted', '{"reason":"é"}')
  check([reported], 'a report')
  topic.reportOnResync('reverted', '{"reason":"é"}')
  t.match(JSON.parse(topic.resync.array.toString()), { length: 4 }, 'two reports')
  topic.forgetReports()
  check([], 'it is out of date')
  lamp.level = 1
  topic.changed('{"level":1}')
  check([], 'the latest event')
  t.strictSame([topic.resync.given, encoded], [9, 5])
  t.end()
})

t.test('events are named for their topic', t => {
  const options = { grant: 'admin:r' as const, maxEvents: 9, maxBytes: 9_999, newId: randomUUID }
  const topic = new Topic({ ...options, name: 'lamp', snapshot: () => '{}', isBusy: () => true })
  t.strictSame([topic.name, topic.grant, topic.isBusy(), topic.head], ['lamp', 'admin:r', true, 0])
  t.equal(topic.append('blinked', '{"times":2}'), topic.latestId)
  t.equal(topic.changed('{"level":1}'), topic.latestId)
  t.equal(topic.head, 2)
  t.match(JSON.parse(topic.log.array(0).bytes.toString()), [
    { event: 'lamp.blinked', data: { times: 2 } },
    { event: 'lamp.changed', data: { level: 1 } },
  ])
  t.end()
})
