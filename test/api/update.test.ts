import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeRauc } from '../support/fakes/rauc.ts'
import { startTestService } from '../support/service.ts'
import { startModerated } from '../support/sessions.ts'
import { bundleSays, startUpdateDevice, updatable } from '../support/update-device.ts'

t.test('where the device cannot be updated, each route says so, to those who may ask', async t => {
  const service = await startTestService(t)
  const { paths } = (await (await service.fetch('/openapi.json')).json()) as { paths: Record<string, object> }
  const routes = Object.entries(paths)
    .filter(([path]) => path.startsWith('/api/v1/update'))
    .flatMap(([path, operations]) =>
      Object.keys(operations).map(method => [method.toUpperCase(), path.slice(7)] as const),
    )
  t.ok(routes.length >= 7, routes.join())
  for (const [method, path] of routes) {
    const body = method === 'GET' || method === 'DELETE' ? {} : { body: 'not what it takes' }
    t.equal((await service.fetchAs(service.token(['moderator:rw']), path, { method })).status, 403, `${method} ${path}`)
    // Some take no body, which is refused before anything else.
    for (const init of [{ method }, { method, ...body }]) {
      const response = await service.fetch(path, init)
      if (response.status === 422 && 'body' in init && /takes no body/.test(await response.clone().text())) continue
      t.match(
        [response.status, await response.json()],
        [409, { type: 'urn:receiverd:problem:conflict', detail: 'This device cannot be updated this way.' }],
        `${method} ${path}`,
      )
    }
  }
  t.notOk('update' in (await service.system()).value)
})

t.test('a bundle that can be neither used nor removed does not keep the service from starting', async t => {
  const { service } = await startUpdateDevice(t, ({ write }) => {
    write('etc/rauc/system.conf', '[system]\ncompatible=receiver\n')
    write('data/update/bundle/folder', 'damage')
  })
  t.match(service.log.join('\n'), /^warning: update: cannot resume with the stored bundle: /m)
  const response = await service.fetch('/update')
  t.match([response.status, await response.json()], [200, { running: { slot: 'A' }, state: 'idle' }])
})

t.test('a bundle that is discarded while the device updates itself counts as a discarded version', async t => {
  const { service, says } = await startUpdateDevice(t)
  const refused = () => {
    const path = service.path('data/update/refused.json')
    return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).versions : []
  }
  const discard = async (version: string) => {
    says({ version })
    const headers = { 'Content-Type': 'application/vnd.rauc.bundle' }
    t.equal((await service.fetch('/update/bundle', { method: 'PUT', headers, body: 'bundle' })).status, 201)
    t.equal((await service.fetch('/update/bundle', { method: 'DELETE' })).status, 204)
    t.equal((await service.fetch('/update/bundle', { method: 'DELETE' })).status, 204, 'there is none any more')
  }
  await discard('1.1.0')
  t.same(refused(), [], 'it updates nothing by itself')
  const update = { channel: 'http://127.0.0.1:9/receiver.raucb', policy: 'install' }
  t.equal((await service.patch({ update })).status, 200)
  await discard('1.2.0')
  t.same(refused(), ['1.2.0'])
})

t.test('the restart waits for a device that was let in, and not for one that asks', async t => {
  const root = deviceRoot(t)
  const rauc = new FakeRauc()
  const jobs: string[] = []
  const noon = { now: () => Date.UTC(2026, 0, 5, 12) }
  const device = await startModerated(t, { ...updatable(root, rauc, jobs), clock: noon })
  const { service } = device
  bundleSays(root, rauc, { version: '1.1.0' })
  const window = { days: [], from: '11:00', to: '13:00' }
  t.equal((await service.patch({ timezone: 'UTC', update: { window } })).status, 200)
  const update = async () => (await (await service.fetch('/update')).json()) as { waitingFor?: string; state: string }

  await device.ask(t)
  const guest = await device.ask(t, { name: 'Ann', deviceId: '02:00:00:00:00:0a' })
  const ann = (await device.sessions()).find(({ name }) => name === 'Ann')
  t.equal((await device.admit(ann?.id)).status, 200)

  const headers = { 'Content-Type': 'application/vnd.rauc.bundle' }
  t.equal((await service.fetch('/update/bundle', { method: 'PUT', headers, body: 'hsqs' })).status, 201)
  const json = { 'Content-Type': 'application/json' }
  const order = { method: 'POST', headers: json, body: '{"restart":"window"}' }
  t.equal((await service.fetch('/update/install', order)).status, 202)
  rauc.succeed('1.1.0')
  await eventually(async () => (await update()).waitingFor === 'sessions')
  t.strictSame(jobs, [])
  guest.close()
  await eventually(async () => jobs.includes('reboot'))
  t.match(await device.sessions(), [{ state: 'pending' }], 'another one still asks')
})

t.test('a bundle that proves damaged while it is installed is removed from the storage', async t => {
  const { service, rauc, says } = await startUpdateDevice(t)
  const update = async () =>
    (await (await service.fetch('/update')).json()) as { state: string; bundle?: object; error?: object }
  says({ version: '1.1.0' })
  const headers = { 'Content-Type': 'application/vnd.rauc.bundle' }
  t.equal((await service.fetch('/update/bundle', { method: 'PUT', headers, body: 'hsqs' })).status, 201)
  t.equal((await service.fetch('/update/install', { method: 'POST' })).status, 202)
  rauc.fail('Installation error: Error reading from file: Input/output error')
  await eventually(async () => (await service.fetch('/update/bundle')).status === 404)
  await eventually(async () => (await update()).state === 'failed')
  const { bundle, error } = await update()
  t.equal(bundle, undefined)
  t.match(error, { type: 'urn:receiverd:problem:bundle-damaged' })
})
