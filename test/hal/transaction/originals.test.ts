/** Files as they were before their first change, and a reset to that. */
import { mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import * as Type from 'typebox/type'
import { Files } from '../../../hal/files/files.ts'
import { System } from '../../../hal/os/system.ts'
import type { Setting } from '../../../hal/setting.ts'
import { Journal } from '../../../hal/transaction/journal.ts'
import { Originals } from '../../../hal/transaction/originals.ts'
import { type Change, Transactions } from '../../../hal/transaction/transaction.ts'
import { intercepted, Stopped, stoppingAt, systemError, unreadable } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import { change, failureOf, passive, rootWithFiles, setting, transactionsOf } from '../support/transactions.ts'
import { changedPaths, leftoversIn, originalsOf, treeOf } from '../support/tree.ts'

async function keep(transactions: Transactions, ...changes: readonly Change[]): Promise<void> {
  await transactions.apply(changes)
  await transactions.keep()
}

const to = (setting: Setting, next: string): Change => ({ setting, previous: 'old', next })

test('after any changes a reset puts back what was there before the first, also after restarts', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const system = runningAt(root)
  const settings = ['a', 'b', 'link', 'c'].map(name => passive(system, name))
  for (const next of ['1', '2', '3'])
    for (const one of settings) await keep(transactionsOf(system, settings), to(one, next))
  t.notSame(treeOf(root), before)
  const transactions = transactionsOf(system, settings)
  await keep(transactions, to(settings[0] as Setting, '4'))
  t.same(await transactions.reset(), { settings: ['c', 'link', 'b', 'a'], notUndone: [] }, 'each once')
  t.same(treeOf(root), before)
  t.same((await transactions.reset()).settings, [], 'once')
  await keep(transactions, to(settings[0] as Setting, 'again'))
  await transactions.reset()
  t.same(treeOf(root), before, 'and from then on anew')
})

test('settings that share a file, and a file that comes later: each path goes back to before its own first change', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const system = runningAt(root)
  const files = ['/etc/a']
  const sharing = (name: string): Setting => ({ ...passive(system, 'a'), name, files })
  const [one, other] = [sharing('one'), sharing('other')]
  const b = passive(system, 'b')
  const transactions = transactionsOf(system, [one, other, b])
  await keep(transactions, to(one, '1'), to(other, '2'))
  await keep(transactions, to(b, '3'))
  // It has this file from now on.
  files.push('/etc/b')
  await keep(transactions, to(one, '4'))
  const kept = await new Originals(new Files(originalsOf(root))).read()
  t.same(
    kept.map(({ setting, images }) => [setting, ...images.map(({ path }) => path)]),
    [['one', '/etc/a'], ['other'], ['b', '/etc/b']],
    'and is kept once',
  )
  await transactions.reset()
  t.same(treeOf(root), before)
})

test('only what no file holds is activated, with the value before its first change', async t => {
  const root = rootWithFiles(t)
  const steps: string[] = []
  const system = runningAt(root)
  const { write: _, ...volume } = { ...setting(system, 'volume', steps), files: [] }
  const settings = [setting(system, 'a', steps), volume]
  const transactions = transactionsOf(system, settings)
  await keep(transactions, ...settings.map(change))
  await keep(transactions, { setting: volume, previous: 'new', next: 'newer' })
  steps.length = 0
  await transactions.reset()
  t.same(steps, ['activate volume old'])
})

test('a value that its setting no longer takes is named, and does not end the reset', async t => {
  const root = rootWithFiles(t)
  const steps: string[] = []
  const system = runningAt(root)
  const { write: _, ...volume } = { ...setting(system, 'volume', steps), files: [] }
  const a = passive(system, 'a')
  await keep(transactionsOf(system, [a, volume]), to(a, '1'), to(volume, '2'))
  steps.length = 0
  const later: Setting = { ...volume, schema: Type.Object({ percent: Type.Integer() }) }
  const transactions = transactionsOf(system, [a, later])
  t.same(await transactions.reset(), { settings: ['volume', 'a'], notUndone: ['volume'] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'old')
  t.same(await transactions.resumeReset(), { settings: ['volume'], notUndone: ['volume'] }, 'at each start')
  t.same(steps, [])
})

test('a file behind a link of its own is not put back: it may have been updated since', async t => {
  const root = rootWithFiles(t)
  mkdirSync(join(root, 'usr'))
  writeFileSync(join(root, 'usr/zone'), 'old')
  symlinkSync('../usr/zone', join(root, 'etc/zone'))
  const system = runningAt(root)
  const zone: Setting = {
    ...passive(system, 'zone'),
    links: ['/etc/zone'],
    write: value => system.writeLink('/etc/zone', String(value)),
  }
  const transactions = transactionsOf(system, [zone])
  await keep(transactions, to(zone, '../usr/other'))
  writeFileSync(join(root, 'usr/zone'), 'updated')
  await transactions.reset()
  t.equal(readlinkSync(join(root, 'etc/zone')), '../usr/zone')
  t.equal(readFileSync(join(root, 'usr/zone'), 'utf8'), 'updated')
})

test('a change on trial, an unfinished one, and what could not be undone do not confuse it', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const system = runningAt(root)
  let isBroken = true
  const b = setting(system, 'b', [], step => isBroken && step.startsWith('activate'))
  const settings = [passive(system, 'a'), b]
  const [a] = settings as [Setting]
  const first = transactionsOf(system, settings)
  await keep(first, to(a, '1'))
  t.match(await failureOf(first.apply([change(b)])), { notUndone: ['b'] })
  await first.apply([to(a, '2')])
  isBroken = false
  const second = transactionsOf(system, settings)
  await second.recover()
  await second.reset()
  t.same(treeOf(root), before)
  t.equal(await transactionsOf(system, settings).recover(), undefined, 'nothing is left for the next start')
})

/** A root on which the settings a and b were changed, and which refuses to put back b while `isBroken`. */
async function brokenDevice(t: Test) {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const device = { isBroken: false }
  const fs = intercepted(call => {
    if (device.isBroken && call.name === 'rename' && call.path.endsWith('/b')) throw systemError('EIO')
    return call.proceed()
  })
  const system = runningAt(root, { fs })
  const steps: string[] = []
  const settings = [passive(system, 'a'), setting(system, 'b', steps)]
  const start = () => transactionsOf(system, settings)
  await keep(start(), ...settings.map(change))
  device.isBroken = true
  steps.length = 0
  return Object.assign(device, { root, before, settings, steps, start })
}

test('a setting that cannot be put back is named, and tried again at each later start until it is done', async t => {
  const device = await brokenDevice(t)
  const { root, start, steps } = device
  t.same(await start().reset(), { settings: ['b', 'a'], notUndone: ['b'] })
  t.equal(await start().recover(), undefined, 'it is no unfinished change')
  for (const _ of [1, 2]) t.same(await start().resumeReset(), { settings: ['b'], notUndone: ['b'] })
  device.isBroken = false
  steps.length = 0
  t.same(await start().resumeReset(), { settings: ['b'], notUndone: [] })
  t.same(steps, ['activate b old'], 'the system that runs by then uses it')
  t.same(changedPaths(device.before, treeOf(root)), [])
  t.equal(await start().resumeReset(), undefined, 'nothing is left')
  t.same(await start().reset(), { settings: [], notUndone: [] })
})

test('a setting that somebody has set since is not reset, and the next reset still knows its original', async t => {
  const edited = (root: string) => writeFileSync(join(root, 'etc/b'), 'edited')
  const ways: Record<string, (device: Awaited<ReturnType<typeof brokenDevice>>) => Promise<void> | void> = {
    'with an editor': ({ root }) => edited(root),
    'by a change': ({ start, settings }) => keep(start(), to(settings[1] as Setting, 'edited')),
    'by changes that end where they began': async ({ root, start, settings }) => {
      const transactions = start()
      for (const next of ['other', 'new']) await keep(transactions, to(settings[1] as Setting, next))
      t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'new')
    },
  }
  for (const [way, set] of Object.entries(ways)) {
    const device = await brokenDevice(t)
    const { root, start } = device
    await start().reset()
    device.isBroken = false
    await set(device)
    const present = treeOf(root)
    t.notOk((await start().resumeReset())?.settings.length, way)
    t.same(treeOf(root), present, way)
    await start().reset()
    t.same(changedPaths(device.before, treeOf(root)), [], way)
  }
})

test('a setting is original before its first change, after a reset, and whenever all of its files are as they were', async t => {
  const root = rootWithFiles(t)
  const system = runningAt(root)
  let percent = 'old'
  const files = ['/etc/a']
  const a: Setting = { ...passive(system, 'a'), files }
  const { write: _, ...rest } = passive(system, 'volume')
  const volume: Setting = { ...rest, files: [], read: async () => percent, activate: async () => undefined }
  const b = passive(system, 'b')
  const transactions = transactionsOf(system, [b, a, volume])
  const are = () => Promise.all(['b', 'a', 'volume'].map(name => transactions.isOriginal(name)))
  t.same(await are(), [true, true, true])
  await keep(transactions, to(b, '1'))
  t.same(await are(), [false, true, true])
  await keep(transactions, to(a, '1'), to(volume, '1'))
  t.same(await are(), [false, false, true], 'the volume is what it was')
  percent = '1'
  t.same(await are(), [false, false, false])
  await keep(transactions, to(b, 'old'))
  t.same(await are(), [true, false, false])
  // It has this file from now on.
  files.push('/etc/c')
  await keep(transactions, to(a, 'old'))
  writeFileSync(join(root, 'etc/c'), 'new')
  t.same(await are(), [true, false, false])
  rmSync(join(root, 'etc/c'))
  t.same(await are(), [true, true, false])
  await keep(transactions, to(a, '2'))
  await transactions.reset()
  t.same(await are(), [true, true, true])
})

test('a reset that undoes more than settings does each once, from its original', async t => {
  const root = rootWithFiles(t)
  const system = runningAt(root)
  const bytes = (text: string) => ({ kind: 'file', mode: 0o644, bytes: Buffer.from(text) }) as const
  const undo = (setting: string, path: string, text: string) => ({
    setting,
    previous: null,
    next: null,
    images: [{ path, entry: bytes(text) }],
  })
  const originals = new Originals(new Files(originalsOf(root)))
  await originals.add([undo('certificate', '/etc/a', 'first')])
  const more = [undo('certificate', '/etc/a', 'second'), undo('certificate set aside', '/etc/b', 'gone')]
  const transactions = transactionsOf(system, [])
  t.same(await transactions.reset(more), { settings: ['certificate set aside', 'certificate'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'first')
  t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'gone')
})

test('an undo that was left does not bring back what was there before it', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const system = runningAt(root)
  let isBroken = false
  const settings = [setting(system, 'a', [], step => isBroken && step.startsWith('activate'))]
  const [a] = settings as [Setting]
  const transactions = transactionsOf(system, settings)
  await keep(transactions, to(a, 'of the owner'))
  await transactions.apply([{ setting: a, previous: 'of the owner', next: 'new' }])
  isBroken = true
  t.same((await transactions.undo()).notUndone, ['a'])
  await transactions.reset()
  isBroken = false
  t.equal(await transactionsOf(system, settings).recover(), undefined)
  t.same(treeOf(root), before)
})

test('settings that a later version no longer has do not end a reset', async t => {
  const root = rootWithFiles(t)
  const device = { isBroken: false }
  const fs = intercepted(call => {
    if (device.isBroken && call.changes && call.path.startsWith(join(root, 'etc'))) throw systemError('EIO')
    return call.proceed()
  })
  const system = runningAt(root, { fs })
  const { write: _, ...volume } = { ...setting(system, 'volume'), files: [] }
  const a = passive(system, 'a')
  const transactions = transactionsOf(system, [a, volume])
  await keep(transactions, to(a, '1'), to(volume, '1'))
  t.equal(await transactionsOf(system, []).isOriginal('volume'), false)
  device.isBroken = true
  t.same(await transactionsOf(system, []).reset(), { settings: ['volume', 'a'], notUndone: ['a'] })
  device.isBroken = false
  t.same(await transactionsOf(system, []).resumeReset(), { settings: ['a'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'old')
})

test('a file that was changed before takes no access to the disk', async t => {
  const root = rootWithFiles(t)
  const calls: string[] = []
  const fs = intercepted(
    call => {
      calls.push(call.path)
      return call.proceed()
    },
    path => void calls.push(path),
  )
  const system = new System(root)
  const a = passive(system, 'a')
  const originals = new Originals(new Files(originalsOf(root), fs))
  const transactions = new Transactions(system, [a], new Journal(new Files(`${root}/state`)), originals)
  await keep(transactions, to(a, '1'))
  t.ok(calls.length > 0)
  calls.length = 0
  await keep(transactions, to(a, '2'))
  t.same(calls, [])
})

test('a change is refused if the original cannot be kept', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const fs = intercepted(call => {
    if (call.name === 'file.sync') throw systemError('ENOSPC')
    return call.proceed()
  })
  const system = new System(root)
  const a = passive(system, 'a')
  const originals = new Originals(new Files(originalsOf(root), fs))
  const transactions = new Transactions(system, [a], new Journal(new Files(`${root}/state`)), originals)
  t.match(await failureOf(transactions.apply([change(a)], true)), {
    setting: 'the copies of the original files',
    notUndone: [],
    cause: { code: 'ENOSPC' },
  })
  t.same(treeOf(root), before)
})

test('originals that cannot be read now are kept, and the change is refused', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  let isFailing = false
  const fs = unreadable(path => isFailing && path.endsWith('/originals'))
  const system = runningAt(root)
  const settings = ['a', 'b'].map(name => passive(system, name))
  const [a, b] = settings as [Setting, Setting]
  const start = () =>
    new Transactions(
      system,
      settings,
      new Journal(new Files(`${root}/state`)),
      new Originals(new Files(originalsOf(root), fs)),
    )
  await keep(start(), to(a, '1'))
  isFailing = true
  t.match(await failureOf(start().apply([to(b, '1')])), {
    setting: 'the copies of the original files',
    cause: { code: 'EIO' },
  })
  isFailing = false
  await start().reset()
  t.same(treeOf(root), before)
})

test('a file that makes no sense is set aside with a warning, and stands in nobody’s way', async t => {
  const root = rootWithFiles(t)
  const system = new System(root)
  const a = passive(system, 'a')
  mkdirSync(originalsOf(root))
  writeFileSync(join(originalsOf(root), 'originals'), '{}')
  const warnings: string[] = []
  const originals = new Originals(new Files(originalsOf(root)), what => warnings.push(what))
  const transactions = new Transactions(system, [a], new Journal(new Files(`${root}/state`)), originals)
  await keep(transactions, to(a, '1'))
  t.same(warnings, [
    'the copies of the original files: the file is not a journal: it has no first line; it was set aside as originals.bad',
  ])
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), '1')
  await transactions.reset()
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'old')
})

test('a reset that is stopped at any step is finished by the next', async t => {
  for (let [n, stopped] = [1, true]; stopped; n++) {
    const root = rootWithFiles(t)
    const before = treeOf(root)
    const settings = (system: System) => ['a', 'link', 'c'].map(name => passive(system, name))
    const plain = runningAt(root)
    await keep(transactionsOf(plain, settings(plain)), ...settings(plain).map(change))
    const fs = stoppingAt(n)
    const system = runningAt(root, { fs })
    const originals = new Originals(new Files(originalsOf(root), fs))
    const journal = new Journal(new Files(`${root}/state`, fs))
    const error = await new Transactions(system, settings(system), journal, originals).reset().catch(error => error)
    stopped = error instanceof Stopped
    const next = transactionsOf(plain, settings(plain))
    await next.recover()
    await next.reset()
    t.same(changedPaths(before, treeOf(root)), [], `step ${n}`)
    t.same(leftoversIn(root), [])
    rmSync(originalsOf(root), { recursive: true, force: true })
    if (!stopped) t.ok(n > 10, `${n} steps were tried`)
  }
})
