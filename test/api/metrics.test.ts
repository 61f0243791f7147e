import { mkdirSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { mint } from '../../src/auth/jwt.ts'
import { eventually } from '../support/eventually.ts'
import { bootKernel } from '../support/kernel.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { startModerated } from '../support/sessions.ts'
import { startUpdateDevice } from '../support/update-device.ts'

const OPEN_METRICS = 'application/openmetrics-text'

/** The samples by name and labels, without those of the process. */
async function read(service: TestService): Promise<ReadonlyMap<string, number>> {
  const text = await (await service.fetch('/metrics')).text()
  const lines = text.split('\n').filter(line => /^receiverd_(?!process|build)/.test(line))
  return new Map(
    lines.map(line => [line.replace(/ [^ ]*$/, '').replace('receiverd_', ''), Number(line.replace(/.* /, ''))]),
  )
}

const requests = (route: string, method: string, status: string) =>
  `http_requests_total{route="${route}",method="${method}",status="${status}"}`

t.test('requests are counted by route, method and status class', async t => {
  const service = await startTestService(t)
  await service.fetch('/system')
  await service.fetch('/system', { method: 'HEAD' })
  await service.fetch('/system', { headers: { 'If-None-Match': '*' } })
  await service.fetchAs('nobody')
  await service.patch({ deviceName: '' })
  await service.fetch(`/sessions/nobody/admit`, { method: 'POST' })
  await service.fetch('/nothing')
  await service.fetch('/system', { method: 'DELETE' })
  await service.raw('nonsense\r\n\r\n')
  await service.raw('GET /api/v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  const metrics = await read(service)
  const { etag } = await service.system()
  const counts: readonly (readonly [string, number])[] = [
    [requests('/api/v1/system', 'GET', '2xx'), 2],
    [requests('/api/v1/system', 'GET', '3xx'), 1],
    [requests('/api/v1/system', 'GET', '4xx'), 1],
    [requests('/api/v1/system', 'PATCH', '4xx'), 1],
    [requests('/api/v1/sessions/{id}/admit', 'POST', '4xx'), 1],
    [requests('/api/v1/health', 'GET', '2xx'), 1],
    [requests('none', 'none', '4xx'), 3],
    ['http_request_duration_seconds_count{route="/api/v1/system",method="GET"}', 4],
    ['http_request_duration_seconds_bucket{route="/api/v1/system",method="GET",le="+Inf"}', 4],
  ]
  for (const [name, count] of counts) t.equal(metrics.get(name), count, name)

  const held = service.fetch('/events', { headers: { 'If-None-Match': etag } })
  const stream = await service.stream()
  await eventually(async () => (await read(service)).get('held_polls') === 1)
  t.match(new Map(await read(service)), new Map([['streams', 1]]))
  t.equal((await read(service)).get(requests('/api/v1/events', 'GET', '2xx')), 1, 'the stream')
  await service.patch({ deviceName: 'Next' })
  await held
  t.equal((await read(service)).get(requests('/api/v1/events', 'GET', '2xx')), 2, 'the poll, when it was answered')
  stream.close()
})

t.test('changes, refusals and events', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_EVENTS: '1' } })
  await service.patch({ deviceName: 'One', hostname: 'one' })
  await service.patch({ deviceName: 'Two' })
  await service.patch({ deviceName: '', ntp: { servers: ['-', '-'] }, nobody: 1 })
  await service.patch({ hostname: 'two' }, {}, '?confirmWithin=5')
  await service.fetchAs(service.token(['admin:r'], { exp: 1 }))
  await service.fetchAs(mint('another', { roles: [] }))
  await service.fetch('/events?initialEventId=00000000-0000-4000-8000-000000000000')
  const counts = {
    'changes_total{setting="deviceName",outcome="applied"}': 2,
    'changes_total{setting="deviceName",outcome="refused"}': 1,
    'changes_total{setting="hostname",outcome="applied"}': 2,
    'changes_total{setting="ntp",outcome="refused"}': 1,
    change_duration_seconds_count: 3,
    'credentials_refused_total{reason="expired"}': 1,
    'credentials_refused_total{reason="bad signature"}': 1,
    'events_appended_total{topic="system"}': 3,
    'events_evicted_total{topic="system"}': 2,
    'event_resyncs_total{topic="system"}': 1,
    connections_limit: 1024,
    streams_limit: 512,
  }
  const metrics = await read(service)
  for (const [name, count] of Object.entries(counts)) t.equal(metrics.get(name), count, name)
  await eventually(async () => (await read(service)).get('journal_undos_total{reason="not confirmed"}') === 1)
  t.equal((await read(service)).get('changes_total{setting="hostname",outcome="reverted"}'), 1)

  await service.patch({ hostname: 'three' }, {}, '?confirmWithin=600')
  await service.close()
  const again = await read(await startTestService(t, { root: service.root }))
  t.equal(again.get('journal_undos_total{reason="restarted"}'), 1)
})

t.test('the device, as /status and /system tell of it', async t => {
  const service = await startTestService(t)
  bootKernel(service)
  mkdirSync(service.path('proc/device-tree'), { recursive: true })
  writeFileSync(service.path('proc/device-tree/model'), 'Raspberry Pi 5 Model B Rev 1.0\0')
  await service.patch({ deviceName: 'Room "4"\\', groups: ['lobby', 'floor-4'] })
  const { memory, storage } = (await (await service.fetch('/status')).json()) as Record<string, Record<string, number>>
  const { hardware, firmware } = (await service.system()).value as Record<string, Record<string, string>>
  const metrics = await read(service)
  const gauges = {
    device_uptime_seconds: 3725,
    device_temperature_celsius: 51.5,
    device_load1: 0.52,
    device_load5: 0.58,
    device_load15: 1.59,
    device_memory_size_bytes: memory?.totalBytes,
    device_memory_available_bytes: memory?.availableBytes,
    device_storage_size_bytes: storage?.totalBytes,
    device_storage_readonly: 0,
    device_storage_temporary: 0,
    device_clock_set: 1,
    api_key_stored: 1,
  }
  for (const [name, value] of Object.entries(gauges)) t.equal(metrics.get(name), value, name)
  t.ok((metrics.get('device_storage_available_bytes') ?? 0) > 0)
  const info = [...metrics.keys()].filter(name => name.startsWith('device_info'))
  t.same(info, [
    `device_info{name="Room \\"4\\"\\\\",model="${hardware?.model}",serial="${hardware?.serial}",firmware="${firmware?.version}",groups="lobby,floor-4"}`,
  ])

  await service.patch({ deviceName: 'Next' })
  const renamed = [...(await read(service)).keys()]
  t.equal(renamed.filter(name => name.includes('"Next"')).length, 1, 'its name is a label of one series')
  t.notOk(renamed.some(name => name.includes('Room')))
})

t.test('the outcome of the last update', async t => {
  const { service } = await startUpdateDevice(t, ({ write }) => {
    write('etc/rauc/system.conf', '[system]\ncompatible=receiver\n')
    write(
      'data/update/last.json',
      JSON.stringify({ version: '1.1.0', outcome: 'rolled back', reason: 'did not start' }),
    )
  })
  const metrics = await read(service)
  const found = [...metrics].filter(([name]) => name.startsWith('update_'))
  t.same(found, [['update_last_outcome{outcome="rolled back"}', 1]], 'and its version is no label')
})

t.test('a restart of the device loses what is changed', async t => {
  const service = await startTestService(t)
  mkdirSync(service.path('run'), { recursive: true })
  writeFileSync(service.path('run/receiver-without-data'), '')
  t.match(await read(service), new Map([['device_storage_temporary', 1]]))
})

t.test('things that never happened have no metrics', async t => {
  const service = await startTestService(t)
  const metrics = await read(service)
  const never = [...metrics].filter(([name, value]) => /_(total|count)\b/.test(name) && value === 0)
  t.same(never, [])
  for (const family of ['changes', 'change_duration', 'credentials_refused', 'journal_undos', 'session', 'update'])
    t.notOk(
      [...metrics.keys()].some(name => name.startsWith(family)),
      family,
    )
  t.notOk(metrics.has('device_temperature_celsius'), 'nor what the device cannot tell')
})

t.test('sessions by protocol and outcome', async t => {
  const moderated = await startModerated(t)
  const { service } = moderated
  const [one, two, three] = [
    await moderated.ask(t),
    await moderated.ask(t),
    await moderated.ask(t, { protocol: 'mine' }),
  ]
  const ids = [(await one.line())?.id, (await two.line())?.id, (await three.line())?.id]
  await moderated.admit(ids[0])
  t.match(
    await read(service),
    new Map([
      ['sessions{protocol="miracast",state="pending"}', 1],
      ['sessions{protocol="miracast",state="active"}', 1],
      ['sessions{protocol="other",state="pending"}', 1],
    ]),
  )
  await moderated.end(ids[1])
  const ended = moderated.end(ids[0])
  for (let line = await one.line(); line?.state !== 'ended'; line = await one.line());
  one.close()
  await ended
  three.close()
  await eventually(async () => (await moderated.sessions()).length === 0)
  const outcome = (protocol: string, name: string) => `session_outcomes_total{protocol="${protocol}",outcome="${name}"}`
  const metrics = await read(service)
  for (const [protocol, name] of [
    ['miracast', 'admitted'],
    ['miracast', 'denied'],
    ['miracast', 'ended'],
    ['other', 'left'],
  ] as const)
    t.equal(metrics.get(outcome(protocol, name)), 1, name)
  t.equal(metrics.get(outcome('miracast', 'left')), undefined)
})

t.test('a flood of names adds no series', async t => {
  const moderated = await startModerated(t)
  const { service } = moderated
  const flood = async (n: number) => {
    const key = mint(`key ${n}`, { roles: ['admin:r'] })
    await Promise.all([
      service.fetch(`/unknown-${n}`),
      service.fetch(`/sessions/${n}/admit`, { method: 'POST' }),
      service.fetch(`/system?name-${n}=1`, { method: `M${n}` }),
      service.patch({ [`setting-${n}`]: n, hostname: `-${n}` }),
      service.fetchAs(key, '/system', { headers: { 'User-Agent': `agent ${n}` } }),
      service.raw(`X${n} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`),
    ])
    const engine = await moderated.ask(t, { protocol: `p-${n}`, name: `device ${n}` })
    await engine.line()
    engine.close()
  }
  await flood(0)
  await read(service)
  const series = async () => {
    await eventually(async () => (await moderated.sessions()).length === 0)
    return [...(await read(service)).keys()]
  }
  const before = await series()
  for (let n = 1; n <= 30; n++) await flood(n)
  t.same(await series(), before)
})

t.test('the format is the one that Accept prefers', async t => {
  const service = await startTestService(t)
  const type = async (accept: string) =>
    (await service.fetch('/metrics', { headers: { Accept: accept } })).headers.get('content-type')
  const plain = 'text/plain; version=0.0.4; charset=utf-8'
  const open = 'application/openmetrics-text; version=1.0.0; charset=utf-8'
  const cases: readonly (readonly [accept: string, type: string])[] = [
    ['*/*', plain],
    ['text/plain', plain],
    ['application/json', plain],
    [OPEN_METRICS, open],
    [
      `${OPEN_METRICS};version=1.0.0,${OPEN_METRICS};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1`,
      open,
    ],
    [`${OPEN_METRICS};version=1.0.0;q=0.2,text/plain;version=0.0.4;q=0.5,*/*;q=0.1`, plain],
    [`${OPEN_METRICS};q=0,text/plain;q=0.1`, plain],
  ]
  for (const [accept, expected] of cases) t.equal(await type(accept), expected, accept)
  t.equal((await service.fetchAs(service.token(['moderator:rw']), '/metrics')).status, 403)
})
