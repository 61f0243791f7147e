import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { SessionRefused } from '../../src/sessions/engine-client.ts'
import { eventually } from '../support/eventually.ts'
import { PIXEL, startModerated } from '../support/sessions.ts'

t.test('asked, admitted, ended by the moderator', async t => {
  const moderated = await startModerated(t)
  const { service } = moderated
  const stream = await service.stream('/sessions/events')
  const engine = await moderated.ask(t)
  const asked = await engine.line()
  t.match(asked, { id: /^[0-9a-f-]{36}$/, state: 'pending' })
  const id = asked?.id
  const pending = { ...PIXEL, id, state: 'pending', since: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/ }
  t.match(await stream.event(), { event: 'sessions.changed', data: { sessions: [pending] } })
  t.match(await moderated.sessions(), [pending])
  const admin = service.token(['admin:rw'])
  t.equal((await service.fetchAs(admin, '/sessions/events')).status, 403, 'a grant of its own')

  const token = service.token(['moderator:rw'], { sub: 'panel-4' })
  const admitted = await moderated.admit(id, '', token)
  t.equal(admitted.status, 200)
  t.match(await admitted.json(), { ...PIXEL, id, state: 'active' })
  t.match(await engine.line(), { state: 'active' })
  t.match((await stream.event())?.data, { sessions: [{ id, state: 'active' }] })
  t.equal((await moderated.admit(id)).status, 200, 'again')

  const ending = moderated.end(id, token)
  t.match(await engine.line(), { state: 'ended', reason: 'moderator' })
  t.equal((await moderated.sessions()).length, 1, 'still there until the engine is done')
  engine.close()
  t.equal((await ending).status, 204)
  t.match((await stream.event())?.data, { sessions: [] })
  t.equal((await moderated.end(id)).status, 404, 'gone')
  t.equal((await moderated.admit(id)).status, 404)
  const said = service.log.filter(line => line.includes('session "'))
  t.strictSame(said, [
    'notice: session "Pixel 9" (miracast) admitted by 127.0.0.1 (a token of panel-4)',
    'notice: session "Pixel 9" (miracast) ended by 127.0.0.1 (a token of panel-4)',
  ])
})

t.test('a session that goes on keeps its id, and since when it is active', async t => {
  const moderated = await startModerated(t)
  const id = '0B9F5A0E-54C3-4C1E-9B43-6C1F1D1B7A10'
  const since = '2020-01-02T03:04:05+01:00'
  const engine = await moderated.ask(t, { state: 'active', id, since })
  const kept = { id: id.toLowerCase(), state: 'active', since: '2020-01-02T02:04:05Z' }
  t.match(await engine.line(), kept)
  t.match(await moderated.sessions(), [kept])

  const now = /^20(?!20)\d\d-/
  for (const former of [
    { id, since: '2999-01-01T00:00:00Z' },
    { id: 'no UUID', since: 'yesterday' },
    { id: 7, since: null },
    { id: '', since: '2020-13-45T99:00:00Z' },
  ]) {
    const line = await (await moderated.ask(t, { state: 'active', ...former })).line()
    t.match(line, { id: /^[\da-f-]{36}$/, since: now }, JSON.stringify(former))
    t.not(line?.id, kept.id)
  }
  const asks = await (await moderated.ask(t, { id: id.replace('A10', 'A11'), since })).line()
  t.match(asks, { state: 'pending', since: now }, 'one that asks is new')
  t.not(asks?.id, id.replace('A10', 'A11').toLowerCase())
})

t.test('denied; gone by itself', async t => {
  const moderated = await startModerated(t)
  const denied = await moderated.ask(t)
  t.equal((await moderated.end((await denied.line())?.id)).status, 204)
  t.match(await denied.line(), { state: 'denied', reason: 'moderator' })
  t.equal(await denied.line(), undefined)
  t.strictSame(await moderated.sessions(), [])

  const gone = await moderated.ask(t)
  await gone.line()
  gone.close()
  await eventually(async () => (await moderated.sessions()).length === 0)
})

t.test('an engine that was denied loses its connection, although it does not close it', async t => {
  const moderated = await startModerated(t)
  const socket = connect({ path: moderated.path, allowHalfOpen: true })
  t.teardown(() => socket.destroy())
  const body = JSON.stringify(PIXEL)
  const head = `Host: engine\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
  socket.write(`POST /sessions HTTP/1.1\r\n${head}\r\n\r\n${body}`)
  await once(socket, 'data')
  const [session] = await moderated.sessions()
  t.equal((await moderated.end(session?.id)).status, 204)
  await once(socket.resume(), 'end')
  const isClosed = () => new Promise<boolean>(resolve => socket.write('x', error => resolve(Boolean(error))))
  socket.on('error', () => undefined)
  await eventually(isClosed)
  t.pass('nothing reads it')
})

t.test('a connection that ends takes nothing from a later session with the same id', async t => {
  const moderated = await startModerated(t)
  const denied = await moderated.ask(t)
  const id = (await denied.line())?.id
  t.equal((await moderated.end(id)).status, 204)
  const back = await moderated.ask(t, { state: 'active', id })
  t.match(await back.line(), { id, state: 'active' })
  denied.close()
  const other = await moderated.ask(t)
  await other.line()
  t.match(await moderated.sessions(), [{ id, state: 'active' }, { state: 'pending' }])
  const ending = moderated.end(id)
  t.match(await back.line(), { state: 'ended' })
  back.close()
  t.equal((await ending).status, 204)
})

t.test('without moderation a device is active at once, and those that wait are let in', async t => {
  const moderated = await startModerated(t)
  const { service } = moderated
  const waiting = await moderated.ask(t)
  t.match(await waiting.line(), { state: 'pending' })
  const back = await moderated.ask(t, { state: 'active' })
  t.match(await back.line(), { state: 'active' }, 'it was let in before the service restarted')
  t.equal((await service.patch({ moderation: { approval: 'none' } })).status, 200)
  t.match(await waiting.line(), { state: 'active' })
  const next = await moderated.ask(t)
  t.match(await next.line(), { state: 'active' })
})

t.test('an engine that does not end a session: 504, and it stays what it is', async t => {
  const moderated = await startModerated(t)
  const engine = await moderated.ask(t, { state: 'active' })
  const id = (await engine.line())?.id
  const late = await moderated.end(id)
  t.equal(late.status, 504)
  t.match(await late.json(), { type: 'urn:receiverd:problem:engine-timeout', detail: /within 5 s/ })
  t.match(await moderated.sessions(), [{ id, state: 'active' }])
  engine.close()
  await eventually(async () => (await moderated.sessions()).length === 0)
})

t.test('two moderators at once: the same is one decision, of two the first wins', async t => {
  const moderated = await startModerated(t)
  const engine = await moderated.ask(t, { state: 'active' })
  const id = (await engine.line())?.id
  const ends = [moderated.end(id), moderated.end(id)]
  await engine.line()
  t.equal((await moderated.admit(id)).status, 409)
  engine.close()
  for (const end of ends) t.equal((await end).status, 204)
})

t.test('the service stops: engines are told, and come back', async t => {
  const moderated = await startModerated(t)
  const pending = await moderated.ask(t)
  const active = await moderated.ask(t, { state: 'active' })
  for (const engine of [pending, active]) await engine.line()
  await moderated.service.close()
  for (const engine of [pending, active]) t.match(await engine.line(), { state: 'ended', reason: 'shutdown' })
})

t.test('a request that is no session is refused with a problem', async t => {
  const moderated = await startModerated(t)
  for (const [ask, detail] of [
    [{ protocol: 'Mira cast' }, '/protocol: invalid value; expected: 1 to 32 lower-case letters'],
    [{ name: 'x'.repeat(1_025) }, '/name: must not have more than 1024 characters.'],
    [{ colour: 'red' }, '/colour: unknown property.'],
    [{ nam: 'x' }, '/nam: unknown property; did you mean name?'],
    [{ state: 'admitted' }, '/state: must be one of pending, active.'],
  ] as const)
    await t.rejects(moderated.ask(t, ask as object), { message: new RegExp(`^${detail.replace(/[?.]/g, '\\$&')}`) })
  t.ok((await moderated.ask(t, { protocol: '' }).catch(error => error)) instanceof SessionRefused)
  t.strictSame(await moderated.sessions(), [])
})

t.test('names of every nasty kind are text on one line, and bounded', async t => {
  const moderated = await startModerated(t)
  for (const [name, shown] of [
    ['<img src=x onerror=alert(1)>', '<img src=x onerror=alert(1)>'],
    ['a\nconnection request\r\u0000\u001b[31m\u0085', 'a\ufffdconnection request\ufffd\ufffd\ufffd[31m\ufffd'],
    ['\u202egnp.exe\u2066\u200f\u2028', '\ufffdgnp.exe\ufffd\ufffd\ufffd'],
    ['🎥'.repeat(200), '🎥'.repeat(128)],
    ['x'.repeat(1_024), 'x'.repeat(128)],
    ['', ''],
    ['"}]}\\', '"}]}\\'],
    ['__proto__', '__proto__'],
  ] as const) {
    const engine = await moderated.ask(t, { name })
    const id = (await engine.line())?.id
    t.equal((await moderated.sessions()).at(-1)?.name, shown)
    t.equal((await moderated.end(id)).status, 204)
  }
  for (const line of moderated.service.log) t.notMatch(line, /[\n\u202e]/)
})
