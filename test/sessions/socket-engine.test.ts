/** The service's side of the engines' socket, without a server. */
import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import type { StreamReply } from '../../src/http/reply.ts'
import { MAX_SESSIONS } from '../../src/limits.ts'
import { Sessions } from '../../src/sessions/sessions.ts'
import { SocketEngine } from '../../src/sessions/socket-engine.ts'
import { eventually } from '../support/eventually.ts'
import { PIXEL } from '../support/sessions.ts'

const SINCE = '1970-01-01T00:16:40Z'

/** An engine at its end of a connection. */
class Peer {
  readonly socket = new PassThrough({ autoDestroy: false })
  readonly #link: ReturnType<StreamReply['open']>

  constructor(reply: StreamReply) {
    this.#link = reply.open(this.socket as unknown as Socket)
  }

  /** Everything that has been written since the last call. */
  get text(): string {
    return String(this.socket.read() ?? '')
  }

  /** The connection is gone, as the server reports it. */
  gone(): void {
    this.#link.cancel()
  }
}

function start(t: Test) {
  const sessions = new Sessions({
    ring: { maxEvents: 100, maxBytes: 100_000, newId: randomUUID },
    timeoutS: () => 60,
    clock: { now: () => 1_000_999 },
    log: () => undefined,
  })
  t.teardown(() => sessions.stop())
  const engine = new SocketEngine(sessions)
  const ask = (name: string, state: 'pending' | 'active') => new Peer(engine.open({ ...PIXEL, name }, state))
  const idOf = (name: string) => sessions.all.find(session => session.name === name)?.id ?? ''
  const states = () => sessions.all.map(({ name, state }) => `${name} ${state}`)
  return { sessions, engine, ask, idOf, states }
}

const turn = () => new Promise(resolve => setImmediate(resolve))
const line = (value: object) => `${JSON.stringify(value)}\n`

t.test('a response is lines of JSON, which nobody may keep', t => {
  const { engine } = start(t)
  const { headers, preamble } = engine.open(PIXEL, 'pending')
  t.strictSame(headers, ['Content-Type', 'application/x-ndjson', 'Cache-Control', 'no-store'])
  t.equal(preamble, '')
  t.end()
})

t.test('a line for each state, and one at the end', async t => {
  const { sessions, ask, idOf, states } = start(t)
  const ann = ask('Ann', 'pending')
  const bob = ask('Bob', 'active')
  const cid = ask('Cid', 'pending')
  t.equal(ann.text, line({ id: idOf('Ann'), state: 'pending', since: SINCE }))
  t.equal(bob.text, line({ id: idOf('Bob'), state: 'active', since: SINCE }))
  t.equal(cid.text, line({ id: idOf('Cid'), state: 'pending', since: SINCE }))

  await sessions.admit(idOf('Ann'), false, 'x')
  t.equal(ann.text, line({ state: 'active', since: SINCE }), 'several devices can mirror')
  await sessions.end(idOf('Cid'), 'x')
  t.equal(cid.text, line({ state: 'denied', reason: 'moderator' }))
  t.equal(cid.socket.writableEnded, true)
  t.strictSame(states(), ['Ann active', 'Bob active'])

  let isOver = false
  const ending = sessions.end(idOf('Ann'), 'x').then(() => {
    isOver = true
  })
  t.equal(ann.text, line({ state: 'ended', reason: 'moderator' }))
  await turn()
  t.strictSame([isOver, ann.socket.writableEnded], [false, false], 'until the device is off the screen')
  ann.gone()
  await ending
  cid.gone()
  t.strictSame(states(), ['Bob active'])
  t.equal(bob.text, '')
})

t.test('one too many is told so, and takes no place', async t => {
  const { sessions, engine, ask } = start(t)
  const first = ask('0', 'active')
  for (let n = 1; n < MAX_SESSIONS; n++) ask(`${n}`, 'active')
  const late = ask('late', 'active')
  t.equal(late.text, line({ state: 'denied', reason: 'full' }))
  t.equal(late.socket.writableEnded, true)
  late.gone()
  await Promise.resolve()
  t.equal(sessions.all.length, MAX_SESSIONS)
  first.gone()
  await eventually(() => sessions.all.length < MAX_SESSIONS)
  engine.close()
  t.equal(late.text, '')
})

t.test('the service stops: each engine gets one last line, and its connection is closed', async t => {
  const { engine, ask, idOf } = start(t)
  const peers = [ask('Ann', 'pending'), ask('Bob', 'pending'), ask('Cid', 'active')]
  const [ann, bob] = ['Ann', 'Bob'].map(idOf)
  for (const peer of peers) t.match(peer.text, /^\{"id":.*\}\n$/)
  engine.close()
  for (const peer of peers) t.equal(peer.text, line({ state: 'ended', reason: 'shutdown' }))
  // Decisions that come too late.
  await engine.admit(ann ?? '')
  await engine.end(bob ?? '', 'timeout')
  await turn()
  for (const peer of peers) t.strictSame([peer.text, peer.socket.destroyed], ['', true])
})

t.test('a decision about a session that is gone has no effect', async t => {
  const { engine, ask, idOf, states } = start(t)
  const ann = ask('Ann', 'pending')
  const id = idOf('Ann')
  ann.gone()
  await eventually(() => states().length === 0)
  t.ok(ann.text)
  await engine.admit(id)
  await engine.end(id, 'moderator')
  t.equal(ann.text, '')
})
