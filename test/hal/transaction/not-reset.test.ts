/** What a reset could not put back: a later start tries again, unless somebody has changed it since. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { Files } from '../../../hal/files/files.ts'
import type { System } from '../../../hal/os/system.ts'
import type { Setting } from '../../../hal/setting.ts'
import { Journal } from '../../../hal/transaction/journal.ts'
import { fingerprintsOf } from '../../../hal/transaction/not-reset.ts'
import { Originals } from '../../../hal/transaction/originals.ts'
import { Transactions } from '../../../hal/transaction/transaction.ts'
import { intercepted, Stopped, stoppingAt, systemError } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import { passive, rootWithFiles } from '../support/transactions.ts'
import { originalsOf, treeOf } from '../support/tree.ts'

interface Device {
  /** Whether nothing in its configuration can be changed. */
  isBroken: boolean
  /** The last part of a path in its state that cannot be read. */
  unreadable: string | undefined
}

type SettingsOf = (system: System, device: Device) => readonly Setting[]

const plain: SettingsOf = system => ['a', 'link', 'c'].map(name => passive(system, name))

/** A device whose settings were all changed, and whose reset could put none of them back. */
async function resetInVain(t: Test, settingsOf = plain) {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const device: Device = { isBroken: false, unreadable: undefined }
  const system = runningAt(root, {
    fs: intercepted(({ changes, proceed }) => {
      if (device.isBroken && changes) throw systemError('EIO')
      return proceed()
    }),
  })
  const settings = settingsOf(system, device)
  const writes: string[] = []
  const fs = intercepted(
    ({ name, path, proceed }) => {
      if (name === 'rename' || name === 'unlink') writes.push(path)
      return proceed()
    },
    path => {
      if (device.unreadable && path.endsWith(device.unreadable)) throw systemError('EIO')
    },
  )
  const start = (at = system, state = fs) =>
    new Transactions(
      at,
      settings,
      new Journal(new Files(`${root}/state`, state)),
      new Originals(new Files(originalsOf(root), state)),
    )
  /** Sets these settings to one value after another. */
  const keep = async (transactions: Transactions, names: readonly string[], ...values: readonly string[]) => {
    for (const next of values) {
      const changed = settings.filter(({ name }) => names.includes(name))
      await transactions.apply(changed.map(setting => ({ setting, previous: 'old', next })))
      await transactions.keep()
    }
  }
  const first = start()
  const names = settings.map(({ name }) => name)
  await keep(first, names, 'new')
  device.isBroken = true
  t.same(await first.reset(), { settings: names.toReversed(), notUndone: names.toReversed() })
  device.isBroken = false
  writes.length = 0
  return Object.assign(device, {
    root,
    before,
    first,
    start,
    keep,
    writes,
    record: join(originalsOf(root), 'not-reset'),
  })
}

test('it is tried again with the same instance as well as after a start', async t => {
  for (const isRestarted of [false, true]) {
    const { root, before, first, start, record } = await resetInVain(t)
    t.equal(statSync(record).mode & 0o777, 0o600)
    t.same(await (isRestarted ? start() : first).resumeReset(), { settings: ['c', 'link', 'a'], notUndone: [] })
    t.same(treeOf(root), before)
    t.notOk(existsSync(record))
  }
})

test('a setting that was changed since is left out, and every other one is put back', async t => {
  const ways: Record<string, [string, (device: Awaited<ReturnType<typeof resetInVain>>) => unknown]> = {
    'a link of another target': ['link', ({ root }) => relink(join(root, 'etc/link'), 'other')],
    'the file behind a link': ['link', ({ root }) => writeFileSync(join(root, 'etc/b'), 'edited')],
    'a file in place of a link': ['link', ({ root }) => replaceBy(join(root, 'etc/link'), 'new')],
    'a removed file': ['a', ({ root }) => rmSync(join(root, 'etc/a'))],
    'changes that end where they began': ['a', ({ start, keep }) => keep(start(), ['a'], 'other', 'new')],
  }
  for (const [way, [changed, set]] of Object.entries(ways)) {
    const device = await resetInVain(t)
    await set(device)
    const settings = ['c', 'link', 'a'].filter(name => name !== changed)
    t.same(await device.start().resumeReset(), { settings, notUndone: [] }, way)
  }
})

test('of a setting one of whose files was changed since, the others are put back, and that one by the next reset', async t => {
  const both: SettingsOf = system => [
    {
      ...passive(system, 'a'),
      files: ['/etc/a', '/etc/b'],
      async write(value) {
        for (const name of ['a', 'b']) await system.writeAtomic(`/etc/${name}`, String(value))
        return true
      },
    },
  ]
  const { root, before, start } = await resetInVain(t, both)
  writeFileSync(join(root, 'etc/b'), 'edited')
  t.same(await start().resumeReset(), { settings: ['a'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'old')
  t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'edited')
  t.equal(await start().resumeReset(), undefined)
  await start().reset()
  t.same(treeOf(root), before)
})

test('a link of ours is put back, although an update has changed the file that it leads to', async t => {
  const zone: SettingsOf = system => [
    passive(system, 'a'),
    {
      ...passive(system, 'link'),
      links: ['/etc/link'],
      write: value => system.writeLink('/etc/link', value === 'new' ? 'zone' : 'b'),
    },
  ]
  const { root, before, start } = await resetInVain(t, zone)
  writeFileSync(join(root, 'etc/zone'), 'updated')
  t.same(await start().resumeReset(), { settings: ['link', 'a'], notUndone: [] })
  rmSync(join(root, 'etc/zone'))
  t.same(treeOf(root), before)
})

test('what no file holds is tried again, unless it has another value', async t => {
  for (const [then, value, isDue] of [
    ['old', 'new', true],
    ['old', 'of the new owner', false],
    [undefined, undefined, true],
    // A sound card that appears after the reset, or one that is gone for a while.
    [undefined, 'new', true],
    ['old', undefined, true],
  ] as const) {
    let present: string | undefined = then
    const volume: SettingsOf = (system, device) => {
      const { write: _, ...rest } = passive(system, 'volume')
      const read = async () => {
        if (present === undefined) throw systemError('EIO')
        return present
      }
      const activate = async (value: unknown) => {
        if (device.isBroken) throw systemError('EIO')
        if (present !== undefined) present = String(value)
      }
      return [passive(system, 'a'), { ...rest, files: [], read, activate }]
    }
    const { start } = await resetInVain(t, volume)
    present = value
    const settings = isDue ? ['volume', 'a'] : ['a']
    t.same(await start().resumeReset(), { settings, notUndone: [] }, String(value))
    t.equal(present, value === 'new' ? 'old' : value)
  }
})

test('a setting whose file cannot be replaced, nor captured, is named at each start', async t => {
  const { root, start } = await resetInVain(t)
  rmSync(join(root, 'etc/a'))
  execFileSync('mkfifo', [join(root, 'etc/a')])
  t.same(await start().reset(), { settings: ['c', 'link', 'a'], notUndone: ['a'] })
  for (const _ of [1, 2]) t.same(await start().resumeReset(), { settings: ['a'], notUndone: ['a'] })
})

test('files that something else needs by then are left alone until the next reset', async t => {
  const { root, before, start } = await resetInVain(t)
  const asked: unknown[] = []
  const isNeeded = async (...about: unknown[]) => asked.push(about) === 2
  t.same(await start().resumeReset(isNeeded), { settings: ['c', 'a'], notUndone: [] })
  t.same(asked, [
    ['a', ['/etc/a']],
    ['link', ['/etc/link']],
    ['c', ['/etc/c']],
  ])
  t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'new')
  t.equal(await start().resumeReset(), undefined)
  await start().reset()
  t.same(treeOf(root), before)
})

test('if it is stopped at any step, the next start finishes it', async t => {
  for (let [n, stopped] = [1, true]; stopped; n++) {
    const { root, before, start, record } = await resetInVain(t)
    const fs = stoppingAt(n)
    const error = await start(runningAt(root, { fs }), fs)
      .resumeReset()
      .catch(error => error)
    stopped = error instanceof Stopped
    await start().resumeReset()
    t.same(treeOf(root), before, `step ${n}`)
    t.notOk(existsSync(record))
    if (!stopped) t.ok(n > 10, `${n} steps were tried`)
  }
})

test('settings that are set are forgotten, also together with others, and in one write each', async t => {
  const { root, start, keep, writes, record } = await resetInVain(t)
  const transactions = start()
  await keep(transactions, ['c'], 'other', 'new', 'newest')
  await keep(transactions, ['a', 'c'], 'other', 'new')
  t.same(
    writes.filter(path => path === record),
    [record, record],
  )
  t.same(await start().resumeReset(), { settings: ['link'], notUndone: [] })
  for (const name of ['a', 'c']) t.equal(readFileSync(join(root, 'etc', name), 'utf8'), 'new')
})

test('a record that cannot be read now is not lost, and stands in the way of no change', async t => {
  const device = await resetInVain(t)
  const { root, before, start, keep } = device
  device.unreadable = '/not-reset'
  await t.rejects(start().resumeReset(), { code: 'EIO' })
  await keep(start(), ['c'], 'newer')
  device.unreadable = undefined
  t.same(await start().resumeReset(), { settings: ['link', 'a'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/c'), 'utf8'), 'newer')
  await start().reset()
  t.same(treeOf(root), before)
})

test('a record that makes no sense counts as none', async t => {
  const { start, record } = await resetInVain(t)
  for (const text of ['{', '[]', '{"a":1}', '{"a":{"/etc/a":1}}', Buffer.from([0xff])]) {
    writeFileSync(record, text)
    t.equal(await start().resumeReset(), undefined, String(text))
  }
})

test('fingerprints are those of every version: a record may be older than the service', t => {
  const path = '/etc/a'
  const file = { kind: 'file', mode: 0o600, bytes: Buffer.from('new') } as const
  for (const [images, value, text] of [
    [[{ path, entry: file }], undefined, '[["file","bmV3"],null]'],
    [[{ path, entry: { ...file, mode: 0o644 } }], undefined, '[["file","bmV3"],null]'],
    [[{ path, entry: { kind: 'link', target: 'b' }, behind: file }], undefined, '[["link","b"],["file","bmV3"]]'],
    [[{ path, entry: { kind: 'folder', mode: 0o755 } }], undefined, '["folder",null]'],
    [[{ path, entry: { kind: 'absent' } }], undefined, '["absent",null]'],
    [[{ path }], undefined, '[null,null]'],
    [[], { volume: 50 }, '{"volume":50}'],
    [[], undefined, ''],
  ] as const) {
    const fingerprint = createHash('sha256').update(text).digest('base64')
    t.same(fingerprintsOf(images, value), { [images[0]?.path ?? '']: fingerprint }, text)
  }
  t.end()
})

function replaceBy(at: string, text: string): void {
  rmSync(at)
  writeFileSync(at, text)
}

function relink(at: string, target: string): void {
  rmSync(at)
  symlinkSync(target, at)
}
