import t from 'tap'
import { startTestService } from '../support/service.ts'
import { startUpdateDevice } from '../support/update-device.ts'

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
