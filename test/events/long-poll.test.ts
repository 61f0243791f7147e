import { randomUUID } from 'node:crypto'
import t from 'tap'
import { idOf } from '../support/api.ts'
import { ManualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { startTestService } from '../support/service.ts'

t.test('without a cursor a poll says where to begin', async t => {
  const service = await startTestService(t)
  const answer = await service.fetch('/events')
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'application/json')
  t.strictSame(await answer.json(), [])
  t.equal(idOf(answer), (await service.system()).id)
})

t.test('events after the cursor come at once, oldest first, with the id of the last', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const expected: object[] = []
  for (const deviceName of ['One', 'Two']) {
    const id = idOf(await service.patch({ deviceName }))
    expected.push({ id, contentType: 'application/json', event: 'system.changed', data: { deviceName } })
  }
  const latest = (await service.system()).id
  for (const headers of [{ 'If-None-Match': `"${id}"` }, { 'If-None-Match': `W/"${id}"` }] as const) {
    const answer = await service.fetch('/events', { headers })
    t.strictSame(await answer.json(), expected)
    t.equal(idOf(answer), latest)
  }
  t.strictSame(await (await service.fetch(`/events?initialEventId=${id}`)).json(), expected)
})

t.test('the newest known tag of a list counts; one that is unknown resyncs', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  await service.patch({ deviceName: 'One' })
  const second = (await service.system()).id
  await service.patch({ deviceName: 'Two' })
  const ask = async (tags: string) => (await service.fetch('/events', { headers: { 'If-None-Match': tags } })).json()
  t.match(await ask(`"${id}", "${second}", "${randomUUID()}"`), [{ data: { deviceName: 'Two' } }])
  t.match(await ask(`"${second}" , W/"${id}"`), [{ data: { deviceName: 'Two' } }])
  const { id: latest, value } = await service.system()
  t.strictSame(await ask(`"${randomUUID()}"`), [
    { contentType: 'application/json', event: 'events.resync', data: { reason: 'unknown' } },
    { id: latest, contentType: 'application/json', event: 'system.changed', data: value },
  ])
})

t.test('the nil UUID begins with everything, on every topic', async t => {
  const service = await startTestService(t)
  for (const [path, changed] of [
    ['/events', 'system.changed'],
    ['/sessions/events', 'sessions.changed'],
  ] as const) {
    const answer = await service.fetch(`${path}?initialEventId=00000000-0000-0000-0000-000000000000`)
    t.match(await answer.json(), [
      { event: 'events.resync', data: { reason: 'unknown' } },
      { id: idOf(answer), event: changed, data: Object },
    ])
  }
})

t.test('a poll is held until something changes', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  for (const tags of [`"${id}"`, '*']) {
    let over = false
    const held = service.fetch('/events', { headers: { 'If-None-Match': tags } }).finally(() => {
      over = true
    })
    await service.fetch('/health')
    t.equal(over, false)
    await service.patch({ deviceName: `Name for ${tags.length}` })
    const answer = await held
    t.equal(answer.status, 200)
    t.match(await answer.json(), [{ data: { deviceName: `Name for ${tags.length}` } }])
    if (tags !== '*') t.not(idOf(answer), id)
    await eventually(async () => (await service.system()).id === idOf(answer))
    if (tags === `"${id}"`) await service.patch({ deviceName: 'Something else' })
  }
})

t.test('nothing changes: 304 with the same tag, after as long as was asked for', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_HOLD_S: '1' } })
  const { id } = await service.system()
  const cases = [
    [undefined, null, 1_000],
    ['wait=0', 'wait=0', 0],
    ['respond-async, wait=0', 'wait=0', 0],
    ['wait="0"; x=y', 'wait=0', 0],
    ['wait=1', 'wait=1', 1_000],
    ['wait=-1', null, 1_000],
    ['wait=soon', null, 1_000],
    ['waiting=0', null, 1_000],
    ['wait', null, 1_000],
  ] as const
  await Promise.all(
    cases.map(async ([prefer, applied, atLeast]) => {
      const began = performance.now()
      const headers = { 'If-None-Match': `"${id}"`, ...(prefer && { Prefer: prefer }) }
      const answer = await service.fetch('/events', { headers })
      const took = performance.now() - began
      t.equal(answer.status, 304, `${prefer}`)
      t.equal(idOf(answer), id)
      t.equal(answer.headers.get('preference-applied'), applied, `applied: ${prefer}`)
      t.ok(took >= atLeast - 5, `${prefer}: held for ${took} ms`)
    }),
  )
})

t.test('a hold has a ceiling, and the answer says so', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const held = service.fetch('/events', { headers: { 'If-None-Match': `"${id}"`, Prefer: 'wait=999999999' } })
  await service.fetch('/health')
  await service.patch({ deviceName: 'One' })
  t.equal((await held).headers.get('preference-applied'), 'wait=120')
})

t.test('a tag that is no UUID, or no tag, is refused', async t => {
  const service = await startTestService(t)
  for (const tags of ['"latest"', 'latest', randomUUID(), '"', '""', `"${randomUUID()}", x`]) {
    const answer = await service.fetch('/events', { headers: { 'If-None-Match': tags } })
    t.equal(answer.status, 400, tags)
  }
  t.equal((await service.fetch('/events?initialEventId=')).status, 400)
  t.equal(
    (await service.fetch('/events', { headers: { 'If-None-Match': '' } })).status,
    200,
    'an empty header is absent',
  )
})

t.test('a held poll ends with its credential: 401', async t => {
  const clock = new ManualClock()
  const service = await startTestService(t, { clock })
  const { id } = await service.system()
  const exp = clock.now() / 1000 + 0.3
  const headers = { Authorization: `Bearer ${service.token(['admin:r'], { exp })}`, 'If-None-Match': `"${id}"` }
  const expired = await service.fetch('/events', { headers })
  t.equal(expired.status, 401)
  t.match(expired.headers.get('www-authenticate'), /error="invalid_token", error_description="expired"/)

  const held = service.fetch('/events', { headers: { 'If-None-Match': `"${id}"` } })
  await service.fetch('/health')
  await service.fetch('/api-key', { method: 'POST' })
  t.equal((await held).status, 401)
})

t.test('a service that stops answers its polls: 304', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const held = service.fetch('/events', { headers: { 'If-None-Match': `"${id}"` } })
  await service.fetch('/health')
  await service.close()
  const answer = await held
  t.equal(answer.status, 304)
  t.equal(idOf(answer), id)
})

t.test('HEAD is not held', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const answer = await service.fetch('/events', { method: 'HEAD', headers: { 'If-None-Match': `"${id}"` } })
  t.equal(answer.status, 304)
})

t.test('events that do not fit one answer come with the next', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const names = Array.from({ length: 200 }, (_, n) => `${'📺'.repeat(60)} ${n}`)
  for (let n = 0; n < names.length; n += 50)
    await Promise.all(names.slice(n, n + 50).map(deviceName => service.patch({ deviceName })))
  const seen: string[] = []
  let answers = 0
  for (let cursor = id; seen.length < names.length; answers++) {
    const answer = await service.fetch('/events', { headers: { 'If-None-Match': `"${cursor}"` } })
    for (const event of (await answer.json()) as { data: { deviceName: string } }[]) seen.push(event.data.deviceName)
    cursor = idOf(answer)
  }
  t.ok(answers > 1)
  t.equal(new Set(seen).size, names.length)
})
