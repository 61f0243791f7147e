/** What a reset could not put back: a later start tries again, unless somebody has changed it since. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { Files } from '../../../hal/files/files.ts'
import { Journal } from '../../../hal/transaction/journal.ts'
import { fingerprintsOf } from '../../../hal/transaction/not-reset.ts'
import { Originals } from '../../../hal/transaction/originals.ts'
import { Transactions } from '../../../hal/transaction/transaction.ts'
import { intercepted, systemError } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import { change, passive, rootWithFiles } from '../support/transactions.ts'
import { originalsOf, treeOf } from '../support/tree.ts'

/**
 * A device on which a, link (to b) and c were changed, and whose reset could put none of them back. `fails` selects paths that
 * cannot be read.
 */
async function resetInVain(t: Test, fails: (path: string) => boolean = () => false) {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  let isFull = false
  const system = runningAt(root, {
    fs: intercepted(({ changes, proceed }) => {
      if (isFull && changes) throw systemError('ENOSPC')
      return proceed()
    }),
  })
  const settings = ['a', 'link', 'c'].map(name => passive(system, name))
  const writes: string[] = []
  const fs = intercepted(
    ({ name, path, proceed }) => {
      if (name === 'rename' || name === 'unlink') writes.push(path)
      return proceed()
    },
    path => {
      if (fails(path)) throw systemError('EIO')
    },
  )
  const start = () =>
    new Transactions(
      system,
      settings,
      new Journal(new Files(`${root}/state`)),
      new Originals(new Files(originalsOf(root), fs)),
    )
  const keep = async (transactions: Transactions, names: readonly string[], ...values: readonly string[]) => {
    for (const next of values) {
      const changes = settings.filter(({ name }) => names.includes(name))
      await transactions.apply(changes.map(setting => ({ setting, previous: 'new', next })))
      await transactions.keep()
    }
  }
  const first = start()
  await first.apply(settings.map(change))
  await first.keep()
  isFull = true
  t.same(await first.reset(), { settings: ['c', 'link', 'a'], notUndone: ['c', 'link', 'a'] })
  isFull = false
  writes.length = 0
  const record = join(originalsOf(root), 'not-reset')
  return { root, before, start, keep, first, settings, writes, record }
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
  const device = () => resetInVain(t)
  for (const [way, changed, set] of [
    ['a link of another target', 'link', ({ root }) => relink(join(root, 'etc/link'), 'other')],
    ['the file behind a link', 'link', ({ root }) => writeFileSync(join(root, 'etc/b'), 'edited')],
    ['a file in place of a link', 'link', ({ root }) => replaceBy(join(root, 'etc/link'), 'new')],
    ['a removed file', 'a', ({ root }) => rmSync(join(root, 'etc/a'))],
    ['changes that end where they began', 'a', ({ start, keep }) => keep(start(), ['a'], 'other', 'new')],
  ] as [string, string, (device: Awaited<ReturnType<typeof resetInVain>>) => unknown][]) {
    const { start, ...rest } = await device()
    await set({ start, ...rest })
    const settings = ['c', 'link', 'a'].filter(name => name !== changed)
    t.same(await start().resumeReset(), { settings, notUndone: [] }, way)
  }
})

test('settings that are set together with others are forgotten, in one write', async t => {
  const { root, start, keep, writes, record } = await resetInVain(t)
  const transactions = start()
  await keep(transactions, ['c', 'a'], 'other', 'new', 'newest', 'new')
  t.same(writes, [record])
  t.same(await start().resumeReset(), { settings: ['link'], notUndone: [] })
  for (const name of ['a', 'c']) t.equal(readFileSync(join(root, 'etc', name), 'utf8'), 'new')
})

test('a record that cannot be read now is not lost', async t => {
  let isFailing = false
  const { root, before, start, record } = await resetInVain(t, path => isFailing && path.endsWith('/not-reset'))
  isFailing = true
  await t.rejects(start().resumeReset(), { code: 'EIO' })
  isFailing = false
  t.ok(existsSync(record))
  await start().resumeReset()
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
