import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type FileSystem, KERNEL } from '../../hal/files/kernel.ts'
import { Screen } from '../../hal/os/screen.ts'
import { System, type SystemOptions } from '../../hal/os/system.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import type { ApiKeyStore } from '../../src/auth/api-key.ts'
import { systemClock } from '../../src/clock.ts'
import { createPresence } from '../../src/presence/presence.ts'
import { systemError } from '../hal/support/file-system.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { startStoreOf } from '../support/store.ts'

/** The presence of a running device at 192.0.2.40. */
async function presenceAt(
  t: Test,
  { tlsPort, page = true, ...options }: SystemOptions & { readonly tlsPort?: number; readonly page?: boolean },
) {
  const root = deviceRoot(t)
  const system = new System(root, { running: true, ...options })
  for (const folder of ['run/receiverd/screen', 'etc/avahi/services'])
    mkdirSync(join(root, folder), { recursive: true })
  writeFileSync(join(root, 'usr/lib/systemd/system/screen@.service'), '')
  const network = { eth0: { up: true, addresses: ['192.0.2.40/24'] } }
  const setting = { schema: {}, files: [], read: async () => network, fallback: async () => network }
  const { store, state } = await startStoreOf(t, system, [{ name: 'network', ...setting }])
  const presence = createPresence({
    ...{ system, clock: systemClock, builtAt: 0, log: () => undefined, configuration: store },
    config: { tlsPort, announce: true, page },
    screen: new Screen(system),
    originals: new Originals(system.elsewhere(state), () => undefined),
    keys: { isUnused: false, onFirstUse: () => undefined } as unknown as ApiKeyStore,
  })
  t.teardown(() => presence.stop())
  const text = (path: string) => existsSync(join(root, path)) && readFileSync(join(root, path), 'utf8')
  return { presence, text }
}

t.test('the screen and the announcement have the port of the API, also that of http itself', async t => {
  for (const [address, port, page] of [
    ['http://0.0.0.0:8080', 8080, 'http://192.0.2.40:8080/'],
    ['http://0.0.0.0:80', 80, 'http://192.0.2.40/'],
    ['http://[::]:80', 80, 'http://192.0.2.40/'],
  ] as const) {
    const { presence, text } = await presenceAt(t, {})
    await presence.start(address)
    const picture = await eventually(() => text('run/receiverd/screen/idle.svg'))
    t.match(picture, `>${page}<`, address)
    const announced = await eventually(() => text('etc/avahi/services/receiverd.service'))
    t.strictSame(announced.match(/(?<=<port>)\d+/g), [`${port}`, `${port}`], address)
  }
})

t.test('a service that clients reach only through a server of the owner has neither', async t => {
  for (const address of ['http://127.0.0.1:8080', 'http://[::1]:8080', '/run/receiverd.sock']) {
    const { presence, text } = await presenceAt(t, {})
    await presence.start(address)
    const picture = await eventually(() => text('run/receiverd/screen/idle.svg'))
    t.notMatch(picture, /Manage|192\.0\.2|network/, address)
    t.equal(text('etc/avahi/services/receiverd.service'), false, address)
  }
})

t.test('a device without its page leads nobody to it, and still shows its address', async t => {
  const { presence, text } = await presenceAt(t, { page: false })
  await presence.start('http://0.0.0.0:8080')
  const picture = await eventually(() => text('run/receiverd/screen/idle.svg'))
  t.match(picture, '>http://192.0.2.40:8080/<')
  t.notMatch(picture, /Manage|<path/, 'no QR code')
  const announced = await eventually(() => text('etc/avahi/services/receiverd.service'))
  t.strictSame(announced.match(/_\w+\._tcp/g), ['_receiverd._tcp'])
})

t.test('a device that cannot announce itself makes its certificate', async t => {
  const readdir: FileSystem['readdir'] = path => {
    if (path.endsWith('/etc/avahi/services')) throw systemError('EACCES')
    return KERNEL.readdir(path)
  }
  const run = async () => ''
  const { presence, text } = await presenceAt(t, { tlsPort: 443, fs: { ...KERNEL, readdir }, run })
  await t.rejects(presence.start('http://127.0.0.1:8080'), { code: 'EACCES' })
  await eventually(() => text('etc/receiverd/tls/certificate.pem'))
  t.pass('without it, nobody could connect')
})

t.test('a device whose screen cannot be looked up announces itself', async t => {
  const lstat: FileSystem['lstat'] = path => {
    if (path.endsWith('/screen@.service')) throw systemError('EIO')
    return KERNEL.lstat(path)
  }
  const { presence, text } = await presenceAt(t, { fs: { ...KERNEL, lstat } })
  await t.rejects(presence.start('http://0.0.0.0:8080'), { code: 'EIO' })
  await eventually(() => text('etc/avahi/services/receiverd.service'))
  t.pass('without it, nobody would find the device')
})
