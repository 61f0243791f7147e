/** Storage that fails while a start reads how to undo an earlier change. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { type Test, test } from 'tap'
import { unreadable } from '../hal/support/file-system.ts'
import { runningAt } from '../hal/support/setting-device.ts'
import { eventually } from '../support/eventually.ts'
import { plain, startStoreOf } from '../support/store.ts'

const UNREAD =
  'error: the journal of an unfinished change: i/o error (EIO); until it can be read, nothing can be changed'
const REFUSED = 'The system refused to write the journal: i/o error (EIO). Nothing has changed.'
const UNDONE = 'warning: the change of address was undone, because the service was stopped before it was over'

/** Settings `address`, and `name`, which `embedding` embeds. `start` is a start of the service, whose journal may be unreadable. */
function deviceOf(t: Test) {
  const root = t.testdir({ address: 'old', name: 'old', embedding: 'old' })
  const file = (name: string) => readFileSync(`${root}/${name}`, 'utf8')
  const system = runningAt(root)
  const settings = [
    plain(system, 'address'),
    plain(system, 'name'),
    plain(system, 'embedding', {
      embeds: () => ['name'],
      isEmbeddedStale: async () => file('embedding') !== file('name'),
      write: async () => system.writeAtomic('/embedding', file('name')),
    }),
  ]
  const storage = { isFailing: false }
  const fs = unreadable(path => storage.isFailing && path.endsWith('/journal'))
  const start = (retryMs: number, state?: string) => startStoreOf(t, system, settings, { fs, retryMs, state })
  return { root, file, storage, start }
}

/** A device that was restarted during a trial of `address`, and cannot read its journal. */
async function restartedDevice(t: Test, retryMs: number) {
  const device = deviceOf(t)
  const { store, state } = await device.start(retryMs)
  await store.patch({ address: 'trial' }, () => undefined, 60)
  await store.stop()
  device.storage.isFailing = true
  const second = await device.start(retryMs, state)
  const patch = () => second.store.patch({ name: 'new' }, () => undefined)
  return { ...device, ...second, patch, restart: () => device.start(retryMs, state) }
}

test('a change is undone as soon as the journal can be read, and an event says so', async t => {
  const { store, log, state, file, storage } = await restartedDevice(t, 50)
  t.equal(file('address'), 'trial')
  storage.isFailing = false
  await eventually(() => log.includes(UNDONE))
  t.same(log, [UNREAD, UNDONE])
  t.equal(file('address'), 'old')
  t.match(JSON.parse(store.json), { address: 'old' })
  t.notOk(existsSync(`${state}/journal`))
  const { data } = JSON.parse(String(store.topic.log.array(0).bytes)).at(-1)
  t.same(data, { reason: 'restarted', properties: ['address'], notUndone: [] })
})

test('until then nothing is changed, so that the next start can still undo it', async t => {
  const { store, state, file, storage, patch, restart } = await restartedDevice(t, 60_000)
  await t.rejects(patch(), { kind: 'system-refused', message: REFUSED })
  t.equal(file('name'), 'old')
  await store.stop()
  storage.isFailing = false
  await restart()
  t.equal(file('address'), 'old')
  t.notOk(existsSync(`${state}/journal`))
})

test('a journal that cannot be read for hours is given up', async t => {
  const hour = 3_600_000
  const { log, state, file, patch } = await restartedDevice(t, hour)
  await patch()
  t.same(['address', 'name'].map(file), ['trial', 'new'])
  t.match(log, [UNREAD, /EIO.*it was set aside as journal.bad; its changes stay as they are$/])
  t.ok(existsSync(`${state}/journal.bad`))
})

test('a change that is asked for once the journal can be read comes after the undo', async t => {
  const { file, storage, patch } = await restartedDevice(t, 60_000)
  storage.isFailing = false
  await patch()
  t.same(['address', 'name', 'embedding'].map(file), ['old', 'new', 'new'])
})

test('a file that embeds a value follows what others have changed in the meantime', async t => {
  const { start, root, file, storage } = deviceOf(t)
  storage.isFailing = true
  const { log } = await start(300)
  writeFileSync(`${root}/name`, 'by hand')
  await eventually(() => log.includes(`error: ${REFUSED}`))
  t.equal(file('embedding'), 'old')
  storage.isFailing = false
  await eventually(() => file('embedding') === 'by hand')
})

test('a change that was kept before is known as soon as the journal can be read', async t => {
  const { storage, start } = deviceOf(t)
  const first = await start(60_000)
  await first.store.patch({ name: 'new' }, () => undefined, 60)
  const id = first.store.trial?.id
  const isMeant = (other: string) => other === id
  await first.store.confirm(() => undefined, isMeant)
  await first.store.stop()
  storage.isFailing = true
  const { store } = await start(60_000, first.state)
  storage.isFailing = false
  t.same((await store.patch({ name: 'new' }, () => undefined)).written, [])
  await store.confirm(() => undefined, isMeant)
})
