import { randomUUID } from 'node:crypto'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { Audience } from '../../src/events/audience.ts'
import type { Reader } from '../../src/events/reader.ts'
import { Topic } from '../../src/events/topic.ts'

/** An audience that takes `took` ms to wake, and whose turns and rests pass when the test says so. */
function start(t: Test, took: number) {
  mock.timers.enable({ apis: ['setTimeout', 'setImmediate'] })
  let now = 0
  const clock = mock.method(performance, 'now', () => now)
  t.teardown(() => {
    mock.timers.reset()
    clock.mock.restore()
  })
  const state = { took, isBusy: true, wakes: 0 }
  const topic = new Topic({
    ...{ name: 'lamp', grant: 'moderator:r', maxEvents: 9, maxBytes: 999, newId: randomUUID },
    snapshot: () => '{}',
    isBusy: () => state.isBusy,
  })
  const audience = new Audience(topic, (readers, act) => {
    state.wakes++
    for (const reader of readers) act(reader)
  })
  const reader = (wake: () => void) => ({ wake }) as Reader
  const slow = reader(() => {
    now += state.took
  })
  const append = () => topic.changed('{}')
  /** Lets time pass, of which a turn of the event loop takes none. */
  const pass = (ms: number) => mock.timers.tick(ms)
  return { state, audience, slow, reader, append, pass }
}

t.test('a burst wakes each reader once', t => {
  const { state, audience, reader, append, pass } = start(t, 0)
  append()
  pass(0)
  t.equal(state.wakes, 0, 'nobody is there')
  const woken: string[] = []
  const [ann, bob] = ['Ann', 'Bob'].map(name => reader(() => woken.push(name))) as [Reader, Reader]
  audience.add(ann)
  audience.add(bob)
  t.strictSame([...audience], [ann, bob])
  for (let n = 0; n < 3; n++) append()
  t.strictSame(woken, [], 'not before all is appended')
  pass(0)
  t.strictSame(woken, ['Ann', 'Bob'])
  append()
  pass(0)
  t.strictSame(woken, ['Ann', 'Bob', 'Ann', 'Bob'], 'and for the next one')
  t.strictSame([audience.delete(ann), audience.delete(ann)], [true, false])
  append()
  pass(0)
  t.strictSame(woken.slice(4), ['Bob'])
  t.end()
})

t.test('after a long wake it rests for as long, while more changes are waiting', t => {
  for (const [took, isBusy, rests] of [
    [5, true, true],
    [1, true, true],
    [0.9, true, false],
    [5, false, false],
  ] as const)
    t.test(`${took} ms, ${isBusy ? '' : 'not '}busy`, t => {
      const { state, audience, slow, append, pass } = start(t, took)
      state.isBusy = isBusy
      audience.add(slow)
      append()
      pass(0)
      t.equal(state.wakes, 1)
      append()
      append()
      pass(took - 0.1)
      t.equal(state.wakes, rests ? 1 : 2)
      pass(0.1)
      t.equal(state.wakes, 2, 'once for all changes')
      pass(60_000)
      t.equal(state.wakes, 2)
      t.end()
    })
  t.end()
})

t.test('a rest that nobody needed ends silently', t => {
  const { state, audience, slow, append, pass } = start(t, 5)
  audience.add(slow)
  append()
  pass(5)
  pass(5)
  t.equal(state.wakes, 1)
  append()
  pass(0)
  t.equal(state.wakes, 2, 'the next change does not wait')
  t.end()
})

t.test('the last change is not delayed, and readers are woken once for it', t => {
  const { state, audience, slow, append, pass } = start(t, 5)
  audience.add(slow)
  append()
  pass(0)
  append()
  state.isBusy = false
  append()
  pass(0)
  t.equal(state.wakes, 2, 'nothing is about to follow')
  pass(60_000)
  t.equal(state.wakes, 2, 'the change that waited was delivered with it')

  t.end()
})

t.test('a wake during a rest neither prolongs it nor shortens the next one', t => {
  const { state, audience, slow, append, pass } = start(t, 5)
  audience.add(slow)
  append()
  pass(0)
  pass(3)
  state.isBusy = false
  state.took = 4
  append()
  pass(0)
  t.equal(state.wakes, 2)
  pass(2)
  state.isBusy = true
  state.took = 10
  append()
  pass(0)
  t.equal(state.wakes, 3)
  append()
  pass(9)
  t.equal(state.wakes, 3)
  pass(1)
  t.equal(state.wakes, 4)
  t.end()
})
