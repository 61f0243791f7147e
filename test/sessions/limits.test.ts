import { connect } from 'node:net'
import t from 'tap'
import { isObject } from '../../src/json.ts'
import { MAX_SESSIONS } from '../../src/limits.ts'
import { eventually } from '../support/eventually.ts'
import { collectGarbage } from '../support/garbage.ts'
import { startModerated } from '../support/sessions.ts'

t.test('64 sessions, and one more is turned away; a place that is left is free again', async t => {
  const moderated = await startModerated(t)
  const engines = await Promise.all(
    Array.from({ length: MAX_SESSIONS }, (_, at) => moderated.ask(t, { name: `${at}` })),
  )
  for (const engine of engines) t.match(await engine.line(), { state: 'pending' })
  for (let n = 0; n < 3; n++) {
    const full = await moderated.ask(t)
    t.match(await full.line(), { state: 'denied', reason: 'full' })
    t.equal(await full.line(), undefined)
  }
  const sessions = await moderated.sessions()
  t.equal(sessions.length, MAX_SESSIONS)
  const warnings = () => moderated.service.log.filter(line => line.includes('turned away'))
  t.strictSame(warnings(), ['warning: turned away a device: there are 64 sessions already'], 'once a minute')
  t.equal((await moderated.end(sessions[7]?.id)).status, 204)
  t.match(await (await moderated.ask(t)).line(), { state: 'pending' })
})

t.test('a flood of requests: memory is flat, and the moderator can work', async t => {
  const moderated = await startModerated(t)
  const { service } = moderated
  // Reads on during the flood: unread events would be memory of this test.
  const admitted = (await service.stream('/sessions/events')).eventWhere(
    ({ sessions }) =>
      Array.isArray(sessions) && sessions.length === 1 && isObject(sessions[0]) && sessions[0].state === 'active',
  )
  const body = JSON.stringify({ protocol: 'flood', name: 'x'.repeat(1_000), model: 'y'.repeat(500) })
  const ask = `POST /sessions HTTP/1.1\r\nHost: e\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  /** Asks, and leaves again. */
  const flood = () =>
    new Promise<void>(resolve => {
      const socket = connect(moderated.path, () => socket.write(ask))
      socket
        .on('data', () => socket.destroy())
        .on('error', () => resolve())
        .on('close', () => resolve())
    })
  const floods = async (count: number) => {
    for (let n = 0; n < count; n += 100) await Promise.all(Array.from({ length: 100 }, flood))
  }
  await floods(3_000)
  const held = async () => {
    await collectGarbage()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const before = await held()
  const honest = await moderated.ask(t, { name: 'Ann' })
  const { id } = (await honest.line()) ?? {}
  await floods(7_000)
  // The bytes of the requests would be 10 MiB.
  const growth = (await held()) - before
  t.ok(growth < 2 * 1024 ** 2, `${growth} bytes more are held`)
  await eventually(async () => (await moderated.sessions()).length === 1)
  t.equal((await moderated.admit(id)).status, 200)
  t.match(await honest.line(), { state: 'active' })
  await admitted
})
