import { writeFileSync } from 'node:fs'
import t from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { changedPaths, treeOf } from '../hal/support/tree.ts'
import { deviceRoot } from '../support/device.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { startTestService, type TestService } from '../support/service.ts'

const ask = (service: TestService, patch: unknown, headers: Record<string, string> = {}, query = 'validateOnly=true') =>
  service.patch(patch, headers, `?${query}`)
const changesIn = async (response: Response) => ((await response.json()) as { changes: JsonObject }).changes

t.test('the answer says what would change, and nothing does', async t => {
  const root = deviceRoot(t)
  const service = await startTestService(t, { root, ...new FakeReceiver(root).options })
  const { value, etag } = await service.system()
  const before = treeOf(root)
  const stream = await service.stream()
  await stream.block()

  const patch = {
    timezone: 'UTC',
    deviceName: value.deviceName,
    network: { eth0: { dns: ['192.0.2.53'] } },
  }
  const answer = await ask(service, patch)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('etag'), etag)
  t.equal(answer.headers.get('confirm-within'), null)
  const { eth0, ...others } = value.network as { eth0: JsonObject }
  t.strictSame(await answer.json(), {
    changes: { timezone: 'UTC', network: { eth0: { ...eth0, dns: ['192.0.2.53'] }, ...others } },
  })
  t.strictSame(await changesIn(await ask(service, value)), {}, 'the present values')
  t.strictSame(await changesIn(await ask(service, {})), {})
  t.strictSame(await changesIn(await ask(service, patch, {}, 'confirmWithin=60&validateOnly=true')), {
    timezone: 'UTC',
    network: { eth0: { ...eth0, dns: ['192.0.2.53'] }, ...others },
  })

  t.strictSame(changedPaths(before, treeOf(root)), [], 'no write')
  t.strictSame(await service.system(), { value, etag, id: etag.replaceAll('"', '') })
  t.match((await service.fetch('/status').then(status => status.json())) as object, { trial: undefined })
  t.notOk(
    service.said.some(line => line.includes('changed')),
    'no line in the log',
  )
  const metrics = await (await service.fetch('/metrics')).text()
  t.notMatch(metrics, /receiverd_changes_total/)

  const applied = await ask(service, patch, {}, 'validateOnly=false')
  t.match(await applied.json(), { timezone: 'UTC', hostname: 'receiver' }, 'false is as if it were absent')
  t.match((await stream.event())?.data, { timezone: 'UTC' }, 'the first event')
  stream.close()
})

t.test('it is refused as the change itself would be', async t => {
  const service = await startTestService(t)
  const { etag } = await service.system()
  const error = async (response: Promise<Response>) => {
    const { status } = await response
    return { status, ...((await (await response).json()) as JsonObject) }
  }
  const bad = { deviceName: '', nothing: 1, hardware: { model: 'x' }, network: { eth9: {} } }
  const refused = await error(ask(service, bad))
  t.match(refused, { status: 422, type: 'urn:receiverd:problem:invalid-configuration' })
  t.strictSame(refused, await error(service.patch(bad)))
  t.match(await error(ask(service, '{')), { status: 400 })
  t.match(await error(ask(service, [])), { status: 422 })
  t.match(await error(ask(service, {}, { 'If-Match': '"x"' })), { status: 412 })
  t.match(await error(ask(service, {}, { 'If-Match': 'x' })), { status: 400 })
  t.match(await error(ask(service, {}, { 'Content-Type': 'text/plain' })), { status: 415 })
  t.match(await error(ask(service, ' '.repeat(65_537))), { status: 413 })
  t.match(await error(ask(service, {}, {}, 'validateOnly=yes')), {
    status: 400,
    detail: /validateOnly must be true or false/,
  })
  t.match(await error(ask(service, {}, {}, 'validateOnly=true&validateOnly=false')), { status: 400 })
  t.match(await error(ask(service, {}, {}, 'validateOnly=true&confirmWithin=1')), { status: 400 })
  const init = { method: 'PATCH', body: '{}', headers: { 'Content-Type': 'application/json' } }
  const as = (role: string) => service.fetchAs(service.token([role]), '/system?validateOnly=true', init)
  t.match(await error(as('admin:r')), { status: 403 })
  t.match(await error(as('moderator:rw')), { status: 403 })
  t.equal((await as('admin:w')).status, 200)
  t.equal((await service.system()).etag, etag)

  await ask(service, { deviceName: 'On trial' }, {}, 'confirmWithin=60')
  const waiting = await ask(service, { deviceName: 'Another' })
  t.equal(waiting.status, 409)
  t.match(waiting.headers.get('retry-after'), /^([345]\d|60)$/)
})

t.test('a value that cannot be read is written anew by any value, so it counts as a change', async t => {
  const root = deviceRoot(t)
  writeFileSync(`${root}/etc/hostname`, '\0 garbage')
  const service = await startTestService(t, { root })
  const { hostname = '' } = (await service.system()).value
  t.strictSame(await changesIn(await ask(service, { hostname })), { hostname })
})

t.test('a password that is given counts as a change, and is not answered', async t => {
  const root = deviceRoot(t)
  const service = await startTestService(t, { root, ...new FakeReceiver(root).options })
  const { wifi } = (await service.system()).value as { wifi: JsonObject }
  t.match(wifi.networks, [{ ssid: 'Office', password: 'set' }])
  const answer = async (password: string) => {
    const networks = [{ ssid: 'Office', password, hidden: false }]
    return changesIn(await ask(service, { wifi: { networks } }))
  }
  t.strictSame(await answer('correct horse'), { wifi }, 'it may be another one')
  t.strictSame(await answer(''), { wifi: { ...wifi, networks: [{ ssid: 'Office', password: '', hidden: false }] } })
  t.strictSame(await answer('set'), {}, 'the one that is kept')
})
