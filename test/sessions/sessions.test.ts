import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import type { Carrier } from '../../hal/engine.ts'
import { HalError } from '../../hal/errors.ts'
import { MAX_SESSIONS } from '../../src/limits.ts'
import { Sessions } from '../../src/sessions/sessions.ts'
import { eventually } from '../support/eventually.ts'
import { PIXEL } from '../support/sessions.ts'

/** Sessions without a service, on an engine that carries one at a time and makes devices try again. */
function start(t: Test, timeoutS = 60) {
  const log: string[] = []
  const sessions = new Sessions({
    ring: { maxEvents: 100, maxBytes: 100_000, newId: randomUUID },
    timeoutS: () => timeoutS,
    clock: { now: () => 1_000_999 },
    log: (level, line) => log.push(`${level}: ${line}`),
  })
  t.teardown(() => sessions.stop())
  const did: string[] = []
  const engine: Carrier & { error?: Error | undefined } = {
    isExclusive: true,
    async admit(id) {
      if (engine.error) throw engine.error
      did.push(`admit ${name(id)}`)
      sessions.move(id, 'admitted')
    },
    async end(id, reason) {
      if (engine.error) throw engine.error
      did.push(`end ${name(id)}: ${reason}`)
      sessions.leave(id)
    },
  }
  const name = (id: string) => sessions.get(id).name
  const enter = (name: string, state: 'pending' | 'admitted' | 'active') =>
    sessions.enter(engine, { ...PIXEL, name }, state) ?? ''
  const states = () =>
    (JSON.parse(sessions.current.json) as { sessions: { name: string; state: string }[] }).sessions.map(
      ({ name, state }) => `${name} ${state}`,
    )
  return { sessions, engine, enter, states, did, log }
}

t.test('one at a time: who is let in replaces who mirrors, unless that is not wanted', async t => {
  const { sessions, enter, states, did } = start(t)
  const ann = enter('Ann', 'active')
  const bob = enter('Bob', 'pending')
  await t.rejects(sessions.admit(bob, false, 'x'), {
    kind: 'in-the-way',
    message: '"Ann" is mirroring; this device shows one at a time.',
    members: { session: ann },
  })
  await t.rejects(sessions.admit(bob, bob, 'x'), { message: /^"Ann"/, members: { session: ann } })
  t.strictSame(states(), ['Ann active', 'Bob pending'])
  t.match(await sessions.admit(bob, true, 'x'), { name: 'Bob', state: 'admitted', since: '1970-01-01T00:16:40Z' })
  t.strictSame(did, ['end Ann: moderator', 'admit Bob'])
  t.strictSame(states(), ['Bob admitted'])
  t.throws(() => sessions.get(ann), { message: 'There is no such session; it may have ended.' })

  const cid = enter('Cid', 'pending')
  t.match(await sessions.admit(cid, bob, 'x'), { name: 'Cid' }, 'the one that was meant')
  sessions.move(cid, 'active')
  const dan = enter('Dan', 'pending')
  await t.rejects(sessions.admit(dan, bob, 'x'), { message: /^"Cid"/, members: { session: cid } })
  await sessions.end(cid, 'x')
  t.match(await sessions.admit(dan, cid, 'x'), { name: 'Dan' }, 'the one that was in the way is gone')
})

t.test('what is on the screen is listed, even where the list is full', async t => {
  const { enter, states } = start(t)
  for (let n = 0; n < MAX_SESSIONS; n++) t.ok(enter(`${n}`, 'pending'))
  t.notOk(enter('Ann', 'pending'), 'one more that asks')
  t.ok(enter('Bob', 'active'))
  t.equal(states().at(-1), 'Bob active')
})

t.test('while it waits, a session tells until when', t => {
  const { sessions, enter } = start(t, 60)
  const ann = enter('Ann', 'pending')
  t.match(sessions.get(ann), { since: '1970-01-01T00:16:40Z', deadline: '1970-01-01T00:17:40Z' })
  sessions.move(ann, 'admitted')
  t.match(sessions.get(ann), { deadline: '1970-01-01T00:17:40Z' })
  sessions.move(ann, 'active')
  t.notHas(sessions.get(ann), { deadline: String })
  t.end()
})

t.test('what nobody decides about is denied, and so is what does not come', async t => {
  const { sessions, enter, states, did } = start(t, 0.05)
  enter('Ann', 'pending')
  enter('Bob', 'admitted')
  enter('Cid', 'active')
  await eventually(() => did.length === 2)
  t.strictSame(did, ['end Ann: timeout', 'end Bob: timeout'])
  t.strictSame(states(), ['Cid active'])
  sessions.stop()
})

t.test('an engine that fails: 500, and it is tried again when the time is over', async t => {
  const { sessions, engine, enter, states, log } = start(t, 0.05)
  engine.error = new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
  const ann = enter('Ann', 'pending')
  await t.rejects(sessions.admit(ann, true, 'x'), {
    kind: 'engine-refused',
    message: 'The mirroring program refused: systemctl failed with status 1.',
  })
  t.strictSame(states(), ['Ann pending'])
  await eventually(() => log.length > 0)
  const why = 'The mirroring program refused: systemctl failed with status 1.'
  t.equal(log[0], `error: session "Ann" stays, although its time is over. ${why}`)
  engine.error = undefined
  await eventually(() => states().length === 0)
})

t.test('a burst of changes is a few events, and the last one says it all', async t => {
  const { sessions, enter } = start(t)
  const before = sessions.topic.head
  for (let n = 0; n < 40; n++) sessions.move(enter(`${n}`, 'pending'), 'active')
  t.equal(sessions.topic.head, before + 1, 'the first at once')
  const { id } = sessions.current
  t.equal(sessions.topic.head, before + 2, 'what is read is what an event has told')
  t.equal(sessions.topic.latestId, id)
  t.match(sessions.topic.log.array(sessions.topic.head - 1).bytes.toString(), /"name":"39"/)
})
