/** The order for a factory reset that the image carries out at the next boot. */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { remember, remembered } from '../../src/system/card/memory.ts'
import { ImageReset } from '../../src/system/image-reset.ts'
import { TrialRecords } from '../../src/update/trial.ts'
import { intercepted, systemError } from '../hal/support/file-system.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeRauc } from '../support/fakes/rauc.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startTestService } from '../support/service.ts'
import { updatable } from '../support/update-device.ts'

const ORDER = '/data/orders/factory-reset'
const BOOT_ID = 'proc/sys/kernel/random/boot_id'

function device(t: Test) {
  const root = deviceRoot(t)
  const system = new System(root, { running: true })
  const log: string[] = []
  const write = (level: string, line: string) => void log.push(`${level}: ${line}`)
  return { root, system, log, isDue: () => new ImageReset(system, ORDER).isDue(write) }
}

async function bootAs(system: System, id: string): Promise<void> {
  await system.writeAtomic(`/${BOOT_ID}`, `${id}\n`)
}

t.test('it is due until the device has restarted, and no boot that ignores it is repeated', async t => {
  const { root, system, log, isDue } = device(t)
  await bootAs(system, 'first')
  t.equal(await isDue(), false, 'nothing was ordered')
  await new ImageReset(system, ORDER).order(false)
  t.equal(readFileSync(join(root, ORDER), 'utf8'), 'keep-card\nfirst\n')
  t.equal(await isDue(), true, 'the service was killed before it could restart the device')
  t.same(log, [])
  await bootAs(system, 'second')
  t.equal(await isDue(), false)
  t.match(log.join(), /^error: factory reset: this boot has not carried it out/)
  rmSync(join(root, ORDER))
  t.equal(await isDue(), false)
  await new ImageReset(system, ORDER).order(true)
  t.equal(readFileSync(join(root, ORDER), 'utf8'), 'forget-card\nsecond\n')
})

t.test('a full device takes the order, too', async t => {
  const { root, log } = device(t)
  const reserve = join(root, `${ORDER}.reserve`)
  const full = intercepted(call => {
    if (existsSync(reserve) && ['open', 'write'].includes(call.name) && call.changes) throw systemError('ENOSPC')
    return call.proceed()
  })
  const write = (level: string, line: string) => void log.push(`${level}: ${line}`)
  const plain = new ImageReset(new System(root, { running: true }), ORDER)
  await plain.reserve(write)
  t.equal(statSync(reserve).size, 65_536)
  const system = new System(root, { running: true, fs: full })
  await t.rejects(system.writeAtomic('/data/orders/other', 'x'), { code: 'ENOSPC' })
  await new ImageReset(system, ORDER).order(false)
  t.match(readFileSync(join(root, ORDER), 'utf8'), /^keep-card\n/)
  await plain.reserve(write)
  t.ok(existsSync(reserve), 'for the next one')
  await new ImageReset(system, '/data/orders/else').reserve(write)
  t.same(log, ['warning: factory reset: no space could be reserved for an order: no space left on device (ENOSPC)'])
})

t.test('it is refused while the settings are on a partition that could not be mounted', async t => {
  const root = deviceRoot(t)
  const system = new System(root, { running: true })
  await bootAs(system, 'first')
  await system.writeAtomic('/run/receiver-without-data', '')
  const log: string[] = []
  const order = new ImageReset(system, ORDER)
  await order.reserve((level, line) => log.push(`${level}: ${line}`))
  const service = await startTestService(t, {
    root,
    running: true,
    orderReset: forgetsCard => order.order(forgetsCard),
    reset: () => t.fail('the device is not restarted'),
  })
  const answer = await service.fetch('/operations/factory-reset', { method: 'POST' })
  t.equal(answer.status, 409)
  t.match(await answer.text(), /could not be mounted/)
  t.notOk(existsSync(join(root, ORDER)))
  t.same(log, [])
})

t.test('the API orders it, before it answers', async t => {
  const root = deviceRoot(t)
  const system = new System(root, { running: true })
  await bootAs(system, 'first')
  const order = new ImageReset(system, ORDER)
  let isReset = false
  const service = await startTestService(t, {
    root,
    running: true,
    orderReset: forgetsCard => order.order(forgetsCard),
    reset: () => {
      isReset = true
    },
  })
  t.equal((await service.fetch('/operations/factory-reset?card=forget', { method: 'POST' })).status, 202)
  t.equal(readFileSync(join(root, ORDER), 'utf8'), 'forget-card\nfirst\n')
  t.ok(isReset)
})

t.test('not while a version is on trial, which it could make go back', async t => {
  const ordered: boolean[] = []
  const root = deviceRoot(t)
  const rauc = new FakeRauc()
  const options = updatable(root, rauc)
  for (const [path, text] of [
    ['etc/rauc/system.conf', '[system]\ncompatible=receiver\n'],
    ['proc/cmdline', 'rauc.slot=A\n'],
  ] as const) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const records = new TrialRecords(new Files(join(root, 'data/update')))
  const expect = { units: [], screen: false, interfaces: ['wlan0'] }
  await records.begin({ slot: 'A', version: '1.0.0', from: '0.9.0', expect })
  const service = await startTestService(t, { ...options, orderReset: async forgets => void ordered.push(forgets) })
  const reset = () => service.fetch('/operations/factory-reset', { method: 'POST' })
  const refused = await reset()
  t.match([refused.status, await refused.json()], [409, { detail: /on trial: wait until it has proved good/ }])
  t.same(ordered, [])
  await records.conclude({ version: '1.0.0', outcome: 'installed' })
  await eventually(async () => (await reset()).status === 202)
  t.same(ordered, [false])
})

t.test('settings that the card gave are due again after the reset, until they are remembered anew', async t => {
  const folder = temporaryFolder(t)
  const state = new Files(folder)
  writeFileSync(join(folder, 'card.reset'), JSON.stringify({ given: { hostname: 'lobby' }, isDue: false }))
  const memory = await remembered(state)
  t.same(memory, { given: { hostname: 'lobby' }, isDue: true })
  await remember(state, { ...memory, isDue: false })
  t.same(await remembered(state), { given: { hostname: 'lobby' }, isDue: false })
})
