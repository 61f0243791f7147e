import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { HalError } from '../../hal/errors.ts'
import { System } from '../../hal/os/system.ts'
import { eventually } from '../support/eventually.ts'
import { plain, startStoreOf } from '../support/store.ts'

/** `base`; `name`, which reads `base` where it is empty; and `copy`, which is `on` while its file holds the name. */
async function startStore(t: Test, copiedBefore = 'old') {
  const root = t.testdir({ base: 'b', name: 'n', copy: copiedBefore, other: '' })
  const system = new System(root)
  const text = async (path: string) => (await system.readText(path)) ?? ''
  const device: { broken: boolean; writes: number } = { broken: false, writes: 0 }
  const copied = async () => (await text('/name')) || (await text('/base'))
  const copy = plain(system, 'copy', {
    embeds: value => (value === 'off' ? [] : ['name']),
    isEmbeddedStale: async () => (await text('/copy')) !== (await copied()),
    read: async () => ((await text('/copy')) === 'off' ? 'off' : 'on'),
    async write(next) {
      if (device.broken) throw new HalError('COMMAND_FAILED', 'copying failed')
      device.writes++
      return system.writeAtomic('/copy', next === 'off' ? 'off' : await copied())
    },
  })
  const settings = [
    plain(system, 'base'),
    plain(system, 'name', { dependsOn: ['base'], read: async () => (await text('/name')) || text('/base') }),
    copy,
    plain(system, 'other'),
  ]
  const { store, log } = await startStoreOf(t, system, settings)
  const file = (name: string) => readFileSync(`${root}/${name}`, 'utf8')
  const patch = async (value: Record<string, string>, confirmWithinS?: number) =>
    (await store.patch(value, () => undefined, confirmWithinS)).written
  return { root, store, log, device, file, patch }
}

test('a change that nobody saw is written at the start', async t => {
  const { file, store } = await startStore(t)
  t.equal(file('copy'), 'n')
  t.strictSame(JSON.parse(store.json), { base: 'b', name: 'n', copy: 'on', other: '' })
})

test('a value that is right at the start is not written', async t => {
  const { device } = await startStore(t, 'n')
  t.equal(device.writes, 0)
})

test('a patch writes what follows it, in the same change', async t => {
  const { file, patch, device } = await startStore(t)
  t.strictSame(await patch({ name: 'new' }), ['name', 'copy'])
  t.equal(file('copy'), 'new')
  await patch({ name: '' })
  t.equal(file('copy'), 'b')
  await patch({ base: 'below' })
  t.equal(file('copy'), 'below', 'also what its value falls back on')
  const { writes } = device
  await patch({ other: 'x' })
  t.equal(device.writes, writes, 'and nothing else')
  await patch({ copy: 'off' })
  await patch({ name: 'newer' })
  t.equal(file('copy'), 'off', 'unless its value no longer follows')
})

test('where it cannot be written, neither is what it follows', async t => {
  const { file, patch, device } = await startStore(t)
  device.broken = true
  await t.rejects(patch({ name: 'new' }), { message: /refused to write copy: copying failed. Nothing has changed/ })
  t.equal(file('name'), 'n')
  t.equal(file('copy'), 'n')
})

test('a change from outside is followed, and the log hears where it cannot be', async t => {
  const { root, file, log, device, patch } = await startStore(t)
  writeFileSync(`${root}/name`, 'foreign')
  await eventually(() => file('copy') === 'foreign')
  device.broken = true
  writeFileSync(`${root}/name`, 'again')
  await eventually(() => log.includes('error: The system refused to write copy: copying failed. Nothing has changed.'))
  t.equal(file('copy'), 'foreign')
  device.broken = false
  await patch({ name: 'own' })
  t.equal(file('copy'), 'own')
})

for (const isConfirmed of [true, false])
  test(`a change from outside during a trial is followed when it is ${isConfirmed ? 'kept' : 'undone'}`, async t => {
    const { root, file, patch, store } = await startStore(t)
    await patch({ other: 'trial' }, 60)
    writeFileSync(`${root}/name`, 'foreign')
    await eventually(() => JSON.parse(store.json).name === 'foreign')
    t.equal(file('copy'), 'n')
    await (isConfirmed ? store.confirm(() => undefined) : store.cancel(() => undefined))
    await eventually(() => file('copy') === 'foreign')
    t.equal(file('other'), isConfirmed ? 'trial' : '')
  })

test('a setting that changes while a slow device reads for the first time is looked at afterwards', async t => {
  const root = t.testdir({ name: 'n', copy: 'n', slow: '' })
  const system = new System(root)
  let reads = 0
  const settings = [
    plain(system, 'slow', {
      watch: changed => {
        changed()
        return () => undefined
      },
      read: async () => {
        await sleep(reads++ === 0 ? 500 : 0)
        return ''
      },
    }),
    plain(system, 'name', { dependsOn: ['slow'] }),
    plain(system, 'copy', {
      // As the value of a setting of ours may be: this throws before it was read.
      embeds: value => ((value as string).startsWith('n') ? ['name'] : []),
      isEmbeddedStale: async () => false,
    }),
  ]
  const { store, log } = await startStoreOf(t, system, settings)
  await store.patch({ name: 'new' }, () => undefined)
  t.same(log, [])
})
