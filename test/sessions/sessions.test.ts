import { randomUUID } from 'node:crypto'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import type { Carrier } from '../../hal/engine.ts'
import { HalError } from '../../hal/errors.ts'
import { DECISION_MS, FULL_LOG_MS, MAX_SESSIONS, PUBLISH_MS } from '../../src/limits.ts'
import { Sessions } from '../../src/sessions/sessions.ts'
import { eventually } from '../support/eventually.ts'
import { PIXEL } from '../support/sessions.ts'

/** Sessions without a service, on an engine that carries one at a time and makes devices try again. */
function start(t: Test, timeoutS = 60) {
  const log: string[] = []
  const clock = { ms: 1_000_999, now: () => clock.ms }
  const sessions = new Sessions({
    ring: { maxEvents: 100, maxBytes: 100_000, newId: randomUUID },
    timeoutS: () => timeoutS,
    clock,
    log: (level, line) => log.push(`${level}: ${line}`),
  })
  t.teardown(() => sessions.stop())
  const did: string[] = []
  const engine: Carrier & { error?: Error | undefined; hangs?: boolean } = {
    isExclusive: true,
    async admit(id) {
      if (engine.error) throw engine.error
      did.push(`admit ${name(id)}`)
      sessions.move(id, 'admitted')
    },
    async end(id, reason) {
      if (engine.error) throw engine.error
      if (engine.hangs) return new Promise<void>(() => undefined)
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
  const outcomes = () =>
    Object.fromEntries(
      sessions.outcomes.samples.map(({ labels, value }) => [
        (labels ?? []).map(label => label.join('=')).join(),
        value,
      ]),
    )
  return { sessions, engine, enter, states, did, log, outcomes, clock }
}

/** Timers that pass when the test says so. */
function fakeTimers(t: Test): (ms: number) => void {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  return ms => mock.timers.tick(ms)
}

/** Lets settled promises take effect. */
const turn = () => new Promise(resolve => setImmediate(resolve))

t.test('one at a time: a device that is let in replaces the one that mirrors, unless that is not wanted', async t => {
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
  sessions.move(dan, 'active')
  const eve = enter('Eve', 'pending')
  t.match(await sessions.admit(eve, dan, 'x'), { name: 'Eve' }, 'the one that is in the way')
  t.strictSame(did.slice(2), ['admit Cid', 'end Cid: moderator', 'admit Dan', 'end Dan: moderator', 'admit Eve'])
})

t.test('a device on the screen is listed, even where the list is full', async t => {
  const { enter, states } = start(t)
  for (let n = 0; n < MAX_SESSIONS; n++) t.ok(enter(`${n}`, 'pending'))
  t.notOk(enter('Ann', 'pending'), 'one more that asks')
  t.ok(enter('Bob', 'active'))
  t.equal(states().at(-1), 'Bob active')
})

t.test('while it waits, a session tells until when', t => {
  const { sessions, enter, clock } = start(t, 60)
  const ann = enter('Ann', 'pending')
  t.match(sessions.get(ann), { since: '1970-01-01T00:16:40Z', deadline: '1970-01-01T00:17:40Z' })
  clock.ms += 10_000
  sessions.move(ann, 'pending')
  t.match(sessions.get(ann), { since: '1970-01-01T00:16:40Z', deadline: '1970-01-01T00:17:40Z' }, 'nothing new')
  sessions.move(ann, 'admitted')
  t.match(sessions.get(ann), { since: '1970-01-01T00:16:50Z', deadline: '1970-01-01T00:17:50Z' })
  sessions.move(ann, 'active')
  t.strictSame(sessions.get(ann), { ...PIXEL, name: 'Ann', id: ann, state: 'active', since: '1970-01-01T00:16:50Z' })
  t.end()
})

t.test('a session that continues keeps its id and its time, unless they are nonsense or taken', t => {
  const { sessions, engine, enter } = start(t)
  const taken = enter('Ann', 'active')
  const id = '0b9f5a0e-54c3-4c1e-9b43-6c1f1d1b7a10'
  const enters = (former: object) => {
    const entered = sessions.enter(engine, PIXEL, 'active', former) ?? ''
    const { since } = sessions.get(entered)
    sessions.leave(entered)
    return { id: entered, since }
  }
  for (const kept of [id, id.toUpperCase()]) t.equal(enters({ id: kept }).id, id, kept)
  for (const lost of [undefined, 7, '', 'x', `${id}0`, [id], taken, taken.toUpperCase()]) {
    const given = enters({ id: lost }).id
    t.match(given, /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/, `${lost}`)
    t.notOk([id, taken].includes(given), `not ${lost}`)
  }
  const now = '1970-01-01T00:16:40Z'
  for (const [since, expected] of [
    ['1970-01-01T00:16:40Z', now],
    ['1970-01-01T00:16:41Z', now],
    ['1970-01-01T00:00:00Z', '1970-01-01T00:00:00Z'],
    ['1970-01-01T01:00:07.123456789+01:00', '1970-01-01T00:00:07Z'],
    ['1969-07-20T20:17:40Z', '1969-07-20T20:17:40Z'],
    ['1970-01-01T00:00:00', now],
    ['1970-01-01', now],
    ['1970-13-01T00:00:00Z', now],
    ['+001970-01-01T00:00:00Z', now],
    ['1970-01-01T00:00:00Z\0', now],
    [['1970-01-01T00:00:00Z'], now],
    [0, now],
    [undefined, now],
  ] as const)
    t.equal(enters({ since }).since, expected, `${since}`)
  t.end()
})

t.test('a device that nobody decides about is denied, and so is one that does not come', async t => {
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
    cause: engine.error,
  })
  t.strictSame(states(), ['Ann pending'])
  await eventually(() => log.length > 0)
  const why = 'The mirroring program refused: systemctl failed with status 1.'
  t.equal(log[0], `error: session "Ann" stays, although its time is over. ${why}`)
  engine.error = undefined
  await eventually(() => states().length === 0)
})

t.test('a session that its engine keeps after a timeout has as much time again', async t => {
  const pass = fakeTimers(t)
  const { sessions, log, outcomes, clock } = start(t, 10)
  let comes = false
  const carrier: Carrier = {
    isExclusive: true,
    admit: async () => undefined,
    end: async id => (comes ? sessions.move(id, 'active') : undefined),
  }
  const ann = sessions.enter(carrier, { ...PIXEL, name: 'Ann' }, 'admitted') ?? ''
  const { head } = sessions.topic
  clock.ms += 10_000
  pass(10_000)
  await turn()
  t.match(sessions.get(ann), { state: 'admitted', deadline: '1970-01-01T00:17:00Z', since: '1970-01-01T00:16:40Z' })
  t.equal(sessions.topic.head, head + 1, 'an event says so')
  comes = true
  pass(9_999)
  await turn()
  t.match(sessions.get(ann), { state: 'admitted' })
  pass(1)
  await turn()
  t.match(sessions.get(ann), { state: 'active' })
  pass(60_000)
  await turn()
  t.strictSame(log, [])
  t.equal(sessions.topic.head, head + 2, 'and one that it is active')
  sessions.leave(ann)
  t.strictSame(outcomes(), { 'protocol=miracast,outcome=left': 1 })
})

t.test('a moderator ends a session that a timeout which is being carried out would let stay', async t => {
  const pass = fakeTimers(t)
  const { sessions, log } = start(t, 10)
  const asked: string[] = []
  let comes: () => void = () => undefined
  const carrier: Carrier = {
    isExclusive: true,
    admit: async () => undefined,
    async end(id, reason) {
      asked.push(reason)
      if (reason === 'moderator') sessions.leave(id)
      else
        await new Promise<void>(resolve => {
          comes = resolve
        })
    },
  }
  const ann = sessions.enter(carrier, { ...PIXEL, name: 'Ann' }, 'admitted') ?? ''
  pass(10_000)
  const ended = sessions.end(ann, 'Mary')
  comes()
  await ended
  t.strictSame(asked, ['timeout', 'moderator'])
  t.strictSame(sessions.all, [])
  t.strictSame(log, ['notice: session "Ann" (miracast) ended by Mary'])
})

t.test('a device that comes back is listed as it is then, and the log says how it differs', t => {
  const { sessions, engine, enter, log } = start(t)
  const ann = enter('Ann', 'admitted')
  sessions.move(ann, 'active', { ...PIXEL, name: 'Ann', model: 'Pixel 10' })
  t.match(sessions.get(ann), { model: 'Pixel 10', state: 'active' })
  t.strictSame(log, [], 'the model does not matter')
  const bob = enter('Bob', 'admitted')
  sessions.move(bob, 'active', { name: 'x\n\u202ey', address: '192.0.2.66' })
  t.match(sessions.get(bob), { name: 'x\ufffd\ufffdy', address: '192.0.2.66', deviceId: PIXEL.deviceId })
  t.strictSame(log, ['warning: session "Bob" of 192.0.2.9 continues as "x\ufffd\ufffdy" of 192.0.2.66'])
  for (const [address, change, warning] of [
    [PIXEL.address, { name: 'Cy' }, '"Cid" of 192.0.2.9 continues as "Cy" of 192.0.2.9'],
    [PIXEL.address, { address: '192.0.2.66' }, '"Cid" of 192.0.2.9 continues as "Cid" of 192.0.2.66'],
    [PIXEL.address, { address: '' }, '"Cid" of 192.0.2.9 continues as "Cid"'],
    ['', { address: '192.0.2.66' }, undefined],
    ['', { name: 'Cy', address: '192.0.2.66' }, '"Cid" continues as "Cy" of 192.0.2.66'],
  ] as const) {
    log.length = 0
    const cid = sessions.enter(engine, { ...PIXEL, name: 'Cid', address }, 'admitted') ?? ''
    sessions.move(cid, 'active', change)
    t.strictSame(log, warning ? [`warning: session ${warning}`] : [], `${warning}`)
  }
  t.end()
})

t.test('a burst of changes is a few events, and the last one says it all', async t => {
  const { sessions, enter } = start(t)
  const before = sessions.topic.head
  for (let n = 0; n < 40; n++) sessions.move(enter(`${n}`, 'pending'), 'active')
  t.equal(sessions.topic.head, before + 1, 'the first at once')
  const { id } = sessions.current
  t.equal(sessions.topic.head, before + 2, 'a read shows what an event has told')
  t.equal(sessions.topic.latestId, id)
  t.match(sessions.topic.log.array(sessions.topic.head - 1).bytes.toString(), /"name":"39"/)
})

t.test('every change is an event, and there is none once it is stopped', async t => {
  const pass = fakeTimers(t)
  const { sessions, enter } = start(t)
  const told = () => {
    pass(PUBLISH_MS)
    return sessions.topic.log
      .frames(sessions.topic.head - 1)
      .bytes.toString()
      .replace(/^id: .*\n/, '')
  }
  const list = (...sessions: object[]) => `event: sessions.changed\ndata: ${JSON.stringify({ sessions })}\n\n`
  const ann = enter('Ann', 'pending')
  t.equal(told(), list(sessions.get(ann)))
  sessions.move(ann, 'active')
  t.equal(told(), list(sessions.get(ann)))
  t.match(sessions.all, [{ state: 'active' }])
  sessions.leave(ann)
  t.equal(told(), list())
  const { head } = sessions.topic
  for (let n = 0; n < 2; n++) enter('Bob', 'pending')
  sessions.stop()
  pass(60_000)
  t.equal(sessions.topic.head, head + 1, 'the first, which was at once')
})

t.test('devices that are turned away are counted, and the log has them once a minute', t => {
  const pass = fakeTimers(t)
  const { sessions, enter, log, outcomes } = start(t, 3_600)
  for (let n = 0; n < MAX_SESSIONS; n++) enter(`${n}`, 'pending')
  t.strictSame(outcomes(), {})
  for (let n = 0; n < 3; n++) enter('Ann', 'pending')
  const one = 'warning: turned away a device: there are 64 sessions already'
  t.strictSame(log, [one])
  pass(FULL_LOG_MS - 1)
  t.strictSame(log, [one])
  pass(1)
  t.strictSame(log, [one, 'warning: turned away 2 devices: there are 64 sessions already'])
  pass(3 * FULL_LOG_MS)
  t.equal(log.length, 2)
  enter('Ann', 'pending')
  t.strictSame(log.slice(2), [one], 'at once again')
  t.strictSame(outcomes(), { 'protocol=miracast,outcome=turned away': 4 })
  enter('Ann', 'pending')
  sessions.stop()
  pass(FULL_LOG_MS)
  t.equal(log.length, 3, 'nothing more once it is stopped')
  t.end()
})

t.test('how sessions end is counted by protocol', async t => {
  const pass = fakeTimers(t)
  const { sessions, engine, enter, outcomes } = start(t, 10)
  const counted = (outcome: string) => outcomes()[`protocol=miracast,outcome=${outcome}`]
  sessions.leave(enter('Ann', 'active'))
  t.equal(counted('left'), 1)
  await sessions.end(enter('Ann', 'pending'), 'x')
  t.equal(counted('denied'), 1)
  const ann = enter('Ann', 'pending')
  await sessions.admit(ann, false, 'x')
  t.equal(counted('admitted'), 1)
  await sessions.admit(ann, false, 'x')
  t.equal(counted('admitted'), 1, 'once')
  sessions.move(ann, 'active')
  await sessions.end(ann, 'x')
  t.equal(counted('ended'), 1)
  enter('Ann', 'pending')
  pass(10_000)
  await turn()
  t.equal(counted('timed out'), 1)

  const stays = enter('Ann', 'active')
  engine.error = new Error('stuck')
  await t.rejects(sessions.end(stays, 'x'), { kind: 'engine-refused', message: /^The mirroring program refused: / })
  sessions.leave(stays)
  sessions.leave(stays)
  t.equal(counted('left'), 2, 'it was not ended, and leaves once')
  t.strictSame(sessions.all, [])
  const other = sessions.enter(engine, { ...PIXEL, protocol: 'mine' }, 'active') ?? ''
  sessions.leave(other)
  for (const protocol of ['airplay', 'cast'])
    sessions.leave(sessions.enter(engine, { ...PIXEL, protocol }, 'active') ?? '')
  for (const protocol of ['other', 'airplay', 'cast']) t.equal(outcomes()[`protocol=${protocol},outcome=left`], 1)
})

t.test('a timer begins with each state, and is over with the session', async t => {
  const pass = fakeTimers(t)
  const { sessions, enter, did, log } = start(t, 10)
  const ann = enter('Ann', 'pending')
  const bob = enter('Bob', 'pending')
  pass(9_000)
  sessions.move(ann, 'admitted')
  sessions.leave(bob)
  pass(9_000)
  sessions.move(ann, 'active')
  pass(60_000)
  await turn()
  t.strictSame(did, [])
  enter('Cid', 'pending')
  pass(9_999)
  t.strictSame(did, [])
  pass(1)
  await turn()
  t.strictSame(did, ['end Cid: timeout'])
  pass(60_000)
  await turn()
  t.strictSame(log, ['notice: session "Cid" (miracast) denied by a timeout of 10 s'], 'once')
  enter('Dan', 'pending')
  sessions.stop()
  pass(60_000)
  t.equal(did.length, 1, 'none when it is stopped')
})

t.test('devices that need not wait any more are let in, and the log names those that cannot be', async t => {
  const { sessions, engine, enter, states, did, log } = start(t)
  enter('Ann', 'pending')
  enter('Bob', 'active')
  sessions.admitPending()
  await turn()
  const still = 'is still waiting, although devices no longer need to wait'
  t.strictSame(log, [`error: session "Ann" ${still}. "Bob" is mirroring; this device shows one at a time.`])
  t.strictSame(states(), ['Ann pending', 'Bob active'])
  sessions.leave(sessions.all[1]?.id ?? '')
  engine.error = new HalError('COMMAND_FAILED', 'stuck')
  sessions.admitPending()
  await turn()
  t.equal(log[1], `error: session "Ann" ${still}. The mirroring program refused: stuck.`)
  engine.error = undefined
  enter('Cid', 'admitted')
  sessions.admitPending()
  await turn()
  t.strictSame(did, ['admit Ann'])
  t.equal(log[2], 'notice: session "Ann" (miracast) admitted by the end of moderation')
})

t.test('a device that is gone, or about which a moderator is deciding, is not said to wait', async t => {
  const { sessions, engine, enter, log } = start(t)
  const leaves: Carrier = { isExclusive: false, admit: async id => sessions.leave(id), end: async () => undefined }
  sessions.enter(leaves, PIXEL, 'pending')
  engine.hangs = true
  const ann = enter('Ann', 'pending')
  sessions.end(ann, 'x').catch(() => undefined)
  sessions.admitPending()
  await turn()
  t.strictSame(log, [])
})

t.test('while an engine is slow: the same decision is one, another one is refused, and then it is late', async t => {
  const pass = fakeTimers(t)
  const { sessions, engine, enter, log } = start(t, 4)
  engine.hangs = true
  const ann = enter('Ann', 'pending')
  const ends = [sessions.end(ann, 'x'), sessions.end(ann, 'y')]
  const late = Promise.all(
    ends.map(end =>
      t.rejects(end, { kind: 'engine-timeout', message: /within 5 s\. It may still do so: check \/sessions/ }),
    ),
  )
  await t.rejects(sessions.admit(ann, true, 'x'), {
    kind: 'conflict',
    message: 'A different decision about this session is being carried out.',
  })
  pass(DECISION_MS - 1)
  await turn()
  t.strictSame(log, [], 'that its time is over in the meantime is nothing new')
  pass(1)
  await late
  engine.hangs = false
  await sessions.end(ann, 'x')
  t.strictSame(sessions.all, [], 'it can be tried again')
})

t.test('while a decision is being carried out, an opposite one is refused, and others wait for it', async t => {
  const pass = fakeTimers(t)
  const { sessions, engine, enter, log } = start(t, 4)
  engine.hangs = true
  const ann = enter('Ann', 'active')
  const late = { kind: 'engine-timeout', message: /within 5 s/ }
  const ending = t.rejects(sessions.end(ann, 'x'), late)
  await t.rejects(sessions.admit(ann, true, 'x'), { message: /^A different decision/ }, 'a device that mirrors')
  sessions.admitPending()
  const carrier: Carrier = {
    isExclusive: false,
    async admit(id) {
      sessions.move(id, 'admitted')
      await new Promise(() => undefined)
    },
    end: async () => undefined,
  }
  const bob = sessions.enter(carrier, PIXEL, 'pending') ?? ''
  const admissions = [sessions.admit(bob, true, 'x'), sessions.admit(bob, true, 'y')].map(admission =>
    t.rejects(admission, late),
  )
  pass(4_000)
  await turn()
  t.strictSame(log, [], 'its time is over in the meantime, and a moderator was faster')
  pass(1_000)
  await Promise.all([ending, ...admissions])
})

t.test('a session that ends while it is admitted is gone, and one that is gone is not moved', async t => {
  const { sessions, enter, outcomes } = start(t)
  const ann = enter('Ann', 'pending')
  const carrier: Carrier = { isExclusive: false, admit: async id => sessions.leave(id), end: async () => undefined }
  const bob = sessions.enter(carrier, { ...PIXEL, name: 'Bob' }, 'pending') ?? ''
  await t.rejects(sessions.admit(bob, true, 'x'), { kind: 'not-found', message: /^There is no such session/ })
  t.equal(outcomes()['protocol=miracast,outcome=admitted'], undefined)
  sessions.move(bob, 'active')
  sessions.leave(bob)
  t.match(sessions.all, [{ id: ann }])
  t.equal(outcomes()['protocol=miracast,outcome=left'], 1)
})

t.test('a device that is denied because its time is over was not turned away by another moderator', async t => {
  const pass = fakeTimers(t)
  const { sessions, engine, enter } = start(t, 4)
  engine.hangs = true
  const ann = enter('Ann', 'pending')
  pass(4_000)
  await t.rejects(sessions.admit(ann, true, 'x'), {
    kind: 'conflict',
    message: 'A different decision about this session is being carried out.',
  })
})

t.test('an engine for many: nobody is in the way', async t => {
  const { sessions, engine, enter, states } = start(t)
  enter('Ann', 'active')
  const many: Carrier = { ...engine, isExclusive: false }
  sessions.enter(many, { ...PIXEL, name: 'Bob' }, 'active')
  const cid = sessions.enter(many, { ...PIXEL, name: 'Cid' }, 'pending') ?? ''
  await sessions.admit(cid, false, 'x')
  t.strictSame(states(), ['Ann active', 'Bob active', 'Cid admitted'])
  const dan = sessions.enter({ ...engine }, { ...PIXEL, name: 'Dan' }, 'pending') ?? ''
  await sessions.admit(dan, false, 'x')
  t.equal(states()[3], 'Dan admitted', 'nor on another engine')
})
