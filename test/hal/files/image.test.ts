import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { isUnreadable } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { intercepted, systemError } from '../support/file-system.ts'
import { newRoot, treeOf } from '../support/tree.ts'

test('a captured path is put back', async t => {
  const make: Record<string, (at: string, root: string) => void> = {
    'a file': at => writeFileSync(at, 'old', { mode: 0o600 }),
    'an empty file': at => writeFileSync(at, ''),
    'a file of 1 MiB': at => writeFileSync(at, 'x'.repeat(1024 * 1024)),
    'bytes that are no text': at => writeFileSync(at, Buffer.from([0xff, 0, 0xfe])),
    'a link': at => symlinkSync('/etc/other', at),
    'a link to a file': (at, root) => {
      writeFileSync(join(root, 'etc/other'), 'other', { mode: 0o640 })
      symlinkSync('other', at)
    },
    'a folder': at => mkdirSync(at),
    nothing: () => undefined,
  }
  const change: Record<string, (files: Files, at: string) => Promise<unknown>> = {
    'a write': files => files.writeAtomic('/etc/place', 'new', 0o644),
    'a link': files => files.writeLink('/etc/place', 'new'),
    'a write and a link': async files => {
      await files.writeAtomic('/etc/place', 'new')
      await files.writeLink('/etc/place', 'elsewhere')
    },
    'a removal': async (_, at) => rmSync(at, { recursive: true, force: true }),
    'nothing at all': async () => undefined,
  }
  for (const [what, prepare] of Object.entries(make))
    for (const [how, act] of Object.entries(change)) {
      const root = newRoot(t)
      const files = new Files(root)
      prepare(join(root, 'etc/place'), root)
      const before = treeOf(root)
      const image = await files.capture('/etc/place')
      await act(files, join(root, 'etc/place'))
      await files.restore(image)
      t.same(treeOf(root), before, `${what} after ${how}`)
    }
})

test('a file that cannot be put back cannot be captured', async t => {
  const root = newRoot(t)
  execFileSync('mkfifo', [join(root, 'etc/fifo')])
  writeFileSync(join(root, 'etc/huge'), Buffer.alloc(1024 * 1024 + 1))
  const files = new Files(root)
  t.ok(isUnreadable(await files.capture('/etc/fifo').catch(error => error)))
  t.ok(isUnreadable(await files.writeAtomic('/etc/fifo', 'text').catch(error => error)))
  await t.rejects(files.capture('/etc/huge'), {
    code: 'UNREADABLE',
    message: 'one of its files is larger than 1 MiB',
  })
})

test('an unchanged file is not touched: it may be on a read-only file system', async t => {
  const root = newRoot(t)
  const at = (name: string) => join(root, 'etc', name)
  writeFileSync(at('file'), 'x'.repeat(1_000_000))
  chmodSync(at('file'), 0o4755)
  symlinkSync('file', at('link'))
  mkdirSync(at('folder'))
  const calls: string[] = []
  const fs = intercepted(call => {
    calls.push(`${call.name} ${call.path.slice(root.length)}`)
    if (call.changes) throw systemError('EROFS')
    return call.proceed()
  })
  const files = new Files(root, fs)
  for (const name of ['file', 'link', 'folder']) {
    const image = await files.capture(`/etc/${name}`)
    await t.resolves(files.restore(image), name)
  }
  t.same(calls, [])
})

test('a link of ours is put back without what it leads to', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  writeFileSync(join(root, 'etc/file'), 'old')
  symlinkSync('file', join(root, 'etc/link'))
  const image = await files.captureLink('/etc/link')
  t.same(image, { path: '/etc/link', entry: { kind: 'link', target: 'file' } })
  t.same(await files.captureLink('/etc/nothing'), { path: '/etc/nothing', entry: { kind: 'absent' } })
  await files.writeAtomic('/etc/link', 'new')
  await files.writeLink('/etc/link', 'elsewhere')
  await files.restore(image)
  t.equal(readlinkSync(join(root, 'etc/link')), 'file')
  t.equal(await files.readText('/etc/link'), 'new')
})

test('a folder where nothing was is not removed, and that is reported', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  const image = await files.capture('/etc/place')
  mkdirSync(join(root, 'etc/place'))
  await t.rejects(files.restore(image), { code: 'EISDIR' })
})

test('a file is put back without set-ID bits, unless it has them', async t => {
  const root = newRoot(t)
  const at = join(root, 'etc/file')
  const files = new Files(root)
  writeFileSync(at, 'old')
  chmodSync(at, 0o6755)
  const image = await files.capture('/etc/file')
  await files.writeAtomic('/etc/file', 'new')
  await files.restore(image)
  t.equal(statSync(at).mode & 0o7777, 0o6755, 'kept')
  rmSync(at)
  await files.restore(image)
  t.equal(statSync(at).mode & 0o7777, 0o755, 'not given')
})

test('an image is put back under the root where it is restored, and not behind a link out of it', async t => {
  const [first, second] = [newRoot(t), newRoot(t)]
  writeFileSync(join(first, 'etc/file'), 'text')
  symlinkSync('file', join(first, 'etc/link'))
  const untouched = treeOf(first)
  const images = [await new Files(first).capture('/etc/file'), await new Files(first).capture('/etc/link')]
  rmSync(join(second, 'etc'), { recursive: true })
  symlinkSync(join(first, 'etc'), join(second, 'etc'))
  const below = join(second, first, 'etc')
  mkdirSync(below, { recursive: true })
  for (const image of images) await new Files(second).restore(image)
  t.same(treeOf(first), untouched)
  t.equal(readlinkSync(join(below, 'link')), 'file')
  t.match(treeOf(below), { '/file': / text$/ })
})
