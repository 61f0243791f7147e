/** A factory reset of a whole device: any stop leaves what the next start finishes. */
import { randomUUID } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { finishReset, orderReset } from '../../src/system/factory-reset.ts'
import { intercepted, Stopped, stoppingAt, systemError } from '../hal/support/file-system.ts'
import { changedPaths, leftoversIn, treeOf } from '../hal/support/tree.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { startTestService, type TestService } from '../support/service.ts'

const STATE = 'var/lib/receiverd'
const quiet = () => undefined
const CHANGES = [
  { hostname: 'changed', deviceName: 'Changed', timezone: 'Europe/Brussels' },
  { locale: 'POSIX', ntp: { enabled: false, servers: ['192.0.2.1'] } },
  { network: { eth0: { method: 'static', address: '192.0.2.9/24', gateway: '', dns: [] } } },
  { display: { 'HDMI-A-1': { rotation: 90 } } },
  { audio: { volume: 10 } },
  { airplay: { name: 'Changed', access: 'pin' }, moderation: { approval: 'moderator', timeoutS: 60 } },
  { ssh: { enabled: false } },
  { airplay: { enabled: false }, timezone: 'UTC', ntp: { enabled: true } },
]

/** Not the kernel's files, nor the service's own. */
function ownOf(root: string) {
  return Object.fromEntries(Object.entries(treeOf(root)).filter(([path]) => !/^\/(proc|run|var)\//.test(path)))
}

/** A device on which everything was changed; one change is on trial when the service stops. */
async function usedDevice(): Promise<{ readonly before: ReturnType<typeof treeOf>; readonly service: TestService }> {
  const root = deviceRoot(t)
  const before = ownOf(root)
  const service = await startTestService(t, { root, ...new FakeReceiver(root).options })
  for (const change of CHANGES) {
    const answer = await service.patch(change)
    t.equal(answer.status, 200, `${JSON.stringify(change)}: ${await answer.text()}`)
  }
  t.equal((await service.patch({ hostname: 'kept' }, {}, '?confirmWithin=600')).status, 200)
  t.equal((await service.fetch('/system/confirm', { method: 'POST' })).status, 200)
  t.equal((await service.patch({ hostname: 'on-trial' }, {}, '?confirmWithin=600')).status, 200)
  await service.close()
  return { before, service }
}

t.test('nothing was ordered, or on another root: nothing happens', async t => {
  const { service } = await usedDevice()
  const { root } = service
  const used = treeOf(root)
  const state = new Files(join(root, STATE))
  t.equal(await finishReset(state, new System(root, { running: true }), quiet), false)
  await orderReset(state, false)
  t.equal(await finishReset(state, new System(root), quiet), false)
  rmSync(join(root, STATE, 'factory-reset'))
  t.same(treeOf(root), used)
})

t.test('temporary files that a power cut has left are gone after the next start', async t => {
  const root = deviceRoot(t)
  const services = 'etc/avahi/services'
  mkdirSync(join(root, services), { recursive: true })
  mkdirSync(join(root, STATE), { recursive: true })
  const of = (folder: string, name: string) =>
    writeFileSync(join(root, folder, `.${name}.receiverd-${randomUUID()}`), '')
  for (const env of [{}, { RECEIVERD_ANNOUNCE: 'off' }]) {
    of(services, 'receiverd.service')
    for (const name of ['api-key', 'api-key.unused', 'factory-reset', 'journal', 'kept-trial', 'not-reset'])
      of(STATE, name)
    const { options } = new FakeReceiver(root)
    await finishReset(new Files(join(root, STATE)), new System(root, options), quiet)
    const service = await startTestService(t, { root, env, ...options, listen: '0.0.0.0:0' })
    await eventually(() => existsSync(join(root, services, 'receiverd.service')) === (env.RECEIVERD_ANNOUNCE !== 'off'))
    t.same(leftoversIn(root), [])
    await service.close()
  }
})

t.test('after changes to every setting each file is as it was, and the key is new', async t => {
  const { before, service } = await usedDevice()
  const { root, key } = service
  const device = new FakeReceiver(root)
  const state = new Files(join(root, STATE))
  await orderReset(state, false)
  const log: string[] = []
  t.ok(await finishReset(state, new System(root, device.options), (_, line) => log.push(line)))
  t.same(log, ['factory reset: restoring the original configuration', 'factory reset: done'])
  t.same(changedPaths(before, ownOf(root)), [])
  t.same([...Object.keys(treeOf(join(root, STATE)))], [], 'the state directory is empty')
  t.equal(await finishReset(state, new System(root, device.options), quiet), false, 'once')
  device.boot()
  const next = await startTestService(t, { root, ...device.options })
  t.not(next.key, key)
  t.notOk(next.log.some(line => /^(warning|error)/.test(line) && !/fallback/.test(line)))
})

t.test('a journal and originals that were set aside are removed, even if the reset itself sets them aside', async t => {
  for (const suffix of ['.bad', '']) {
    const root = deviceRoot(t)
    const folder = join(root, STATE)
    mkdirSync(folder, { recursive: true })
    for (const name of ['journal', 'originals'])
      writeFileSync(join(folder, `${name}${suffix}`), '{} psk="correct horse"')
    const state = new Files(folder)
    await orderReset(state, true)
    t.ok(await finishReset(state, new System(root, new FakeReceiver(root).options), quiet))
    t.same(Object.keys(treeOf(folder)), [])
  }
})

t.test('a journal that is a folder does not keep a reset from ending', async t => {
  const root = deviceRoot(t)
  mkdirSync(join(root, STATE, 'journal/folder'), { recursive: true })
  const state = new Files(join(root, STATE))
  await orderReset(state, true)
  const log: string[] = []
  t.ok(await finishReset(state, new System(root, new FakeReceiver(root).options), (_, line) => log.push(line)))
  t.match(log.at(-2), /^factory reset: journal\.bad could not be removed: /)
  t.notOk(existsSync(join(root, STATE, 'factory-reset')))
})

t.test('a Wi-Fi file that cannot be removed is removed by a later start, unless a network was set since', async t => {
  for (const isSet of [false, true]) {
    const root = deviceRoot(t, 'raspberry-pi-4')
    const file = join(root, 'etc/wpa_supplicant/wpa_supplicant-wlan0.conf')
    rmSync(file, { force: true })
    mkdirSync(join(root, 'proc/sys/kernel'), { recursive: true })
    const device = new FakeReceiver(root)
    const wifi = (ssid: string) => ({ country: 'DK', networks: [{ ssid, password: 'correct horse', hidden: false }] })
    const serve = async (ssid: string) => {
      const service = await startTestService(t, { root, ...device.options })
      t.equal((await service.patch({ wifi: wifi(ssid) })).status, 200)
      await service.close()
    }
    await serve('Former owner')
    const state = new Files(join(root, STATE))
    await orderReset(state, false)
    const fs = intercepted(({ name, path, proceed }) => {
      if (name === 'unlink' && path === file) throw systemError('EPERM')
      return proceed()
    })
    const finish = (options = {}) => finishReset(state, new System(root, { ...device.options, ...options }), quiet)
    t.equal(await finish({ fs }), true)
    t.equal(await finish({ fs }), false, 'it ends no start')
    t.ok(existsSync(file))
    if (isSet) await serve('Present owner')
    t.equal(await finish(), false)
    t.equal(existsSync(file), isSet)
  }
})

t.test('stopped at any step, it is finished by the next start', async t => {
  const { before, service } = await usedDevice()
  const { root } = service
  const used = treeOf(root)
  const folder = mkdtempSync(existsSync('/dev/shm') ? '/dev/shm/receiverd-' : '/tmp/receiverd-')
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  let [n, stopped, olds] = [0, true, 0]
  while (stopped) {
    const copy = join(folder, `${++n}`)
    cpSync(root, copy, { recursive: true, verbatimSymlinks: true })
    const device = new FakeReceiver(copy)
    const fs = stoppingAt(n)
    const state = new Files(join(copy, STATE), fs)
    const error = await orderReset(state, false)
      .then(() => finishReset(state, new System(copy, { ...device.options, fs }), quiet))
      .catch(error => error)
    stopped = error instanceof Stopped
    if (!stopped) t.equal(error, true)
    device.boot()
    const plain = new Files(join(copy, STATE))
    await finishReset(plain, new System(copy, device.options), quiet)
    if (existsSync(join(copy, STATE, 'api-key'))) {
      olds++
      t.equal(stopped, true)
      t.same(
        changedPaths(used, treeOf(copy)).filter(path => !/^\/(proc|run|var)\//.test(path)),
        [],
        `step ${n}: all of the old`,
      )
    } else {
      const wrong = changedPaths(before, ownOf(copy))
      if (wrong.length > 0) t.fail(`step ${n}: not all of the reset`, { wrong })
      t.same(
        leftoversIn(copy).filter(path => !path.startsWith(`/${STATE}`)),
        [],
      )
      t.notOk(existsSync(join(copy, STATE, 'factory-reset')))
    }
    rmSync(copy, { recursive: true })
  }
  t.ok(olds >= 3 && n > 50, `${n} steps, of which ${olds} were before it was certain`)
  t.match(readFileSync(join(root, 'etc/hostname'), 'utf8'), 'on-trial')
})
