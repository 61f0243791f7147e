/** The order for a factory reset that the image carries out at the next boot. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { remember, remembered } from '../../src/system/card/memory.ts'
import { ImageReset } from '../../src/system/image-reset.ts'
import { intercepted, systemError } from '../hal/support/file-system.ts'
import { deviceRoot } from '../support/device.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startTestService } from '../support/service.ts'

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

t.test('a full partition can be reset, too: the room for the order was set aside', async t => {
  const root = deviceRoot(t)
  const room = join(root, `${ORDER}.room`)
  const fs = intercepted(call => {
    if (call.name === 'file.write' && existsSync(room)) throw systemError('ENOSPC')
    return call.proceed()
  })
  const log: string[] = []
  await bootAs(new System(root), 'first')
  await new ImageReset(new System(root), ORDER).keepRoom((level, line) => log.push(`${level}: ${line}`))
  await new ImageReset(new System(root, { running: true, fs }), ORDER).order(true)
  t.equal(readFileSync(join(root, ORDER), 'utf8'), 'forget-card\nfirst\n')
  await new ImageReset(new System(root, { fs }), ORDER).keepRoom((level, line) => log.push(`${level}: ${line}`))
  t.same(log, [])
  t.ok(existsSync(room), 'it is set aside again')
})

t.test('a full partition without that room is served all the same, and says that nothing was ordered', async t => {
  const root = deviceRoot(t)
  const fs = intercepted(call => {
    if (call.name === 'file.write') throw systemError('ENOSPC')
    return call.proceed()
  })
  const log: string[] = []
  const order = new ImageReset(new System(root, { running: true, fs }), ORDER)
  await order.keepRoom((level, line) => log.push(`${level}: ${line}`))
  t.match(log.join(), /^warning: factory reset: no room could be set aside for it: no space/)
  await t.rejects(order.order(false), { code: 'ENOSPC' })
  t.notOk(existsSync(join(root, ORDER)))
})

t.test('it is refused while the settings are on a partition that could not be mounted', async t => {
  const root = deviceRoot(t)
  const system = new System(root, { running: true })
  await bootAs(system, 'first')
  await system.writeAtomic('/run/receiver-without-data', '')
  const log: string[] = []
  const order = new ImageReset(system, ORDER)
  await order.keepRoom((level, line) => log.push(`${level}: ${line}`))
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

t.test('what the card gave is due again after the reset, until it is remembered anew', async t => {
  const folder = temporaryFolder(t)
  const state = new Files(folder)
  writeFileSync(join(folder, 'card.reset'), JSON.stringify({ given: { hostname: 'lobby' }, isDue: false }))
  const memory = await remembered(state)
  t.same(memory, { given: { hostname: 'lobby' }, isDue: true })
  await remember(state, { ...memory, isDue: false })
  t.same(await remembered(state), { given: { hostname: 'lobby' }, isDue: false })
})
