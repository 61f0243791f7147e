import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { test } from 'tap'
import { isUnreadable } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { KERNEL } from '../../../hal/files/kernel.ts'
import { Root, realRoot } from '../../../hal/files/root.ts'
import { systemError } from '../support/file-system.ts'
import { newRoot, treeOf } from '../support/tree.ts'

test('a link is followed as the system under the root would, and never out of it', async t => {
  const root = newRoot(t)
  const outside = join(root, '../outside')
  const files = new Files(root)
  mkdirSync(join(root, 'etc/deep/er'), { recursive: true })
  writeFileSync(join(root, 'etc/target'), 'inside')
  for (const [path, target] of [
    ['etc/absolute', '/etc/target'],
    ['etc/relative', 'target'],
    ['etc/dots', '../../../../../../../../etc/target'],
    ['etc/deep/er/up', '../../target'],
    ['etc/chain', 'absolute'],
    ['etc/folder', '/etc/deep/..'],
    ['etc/slashes', '//etc//./target'],
  ] as const) {
    symlinkSync(target, join(root, path))
    const through = path === 'etc/folder' ? '/etc/folder/target' : `/${path}`
    t.equal(await files.readText(through), 'inside', `${path} is read`)
    await files.writeAtomic(through, `by ${path}`)
    t.equal(readFileSync(join(root, 'etc/target'), 'utf8'), `by ${path}`, `${path} is written through`)
    t.equal(readlinkSync(join(root, path)), target, `${path} is still a link`)
    writeFileSync(join(root, 'etc/target'), 'inside')
  }
  symlinkSync(outside, join(root, 'etc/out'))
  await files.writeAtomic('/etc/out', 'still inside')
  t.notOk(existsSync(outside), 'nothing is written outside')
  t.equal(readFileSync(join(root, outside), 'utf8'), 'still inside')
  t.equal(await files.readText('/../../etc/target'), 'inside', 'the path itself does not lead out')
})

test('a link that is part of a loop cannot be read, and a write replaces it', async t => {
  for (const [name, links] of Object.entries({
    'to itself': [['etc/a', 'a']],
    'of two links': [
      ['etc/a', '/etc/b'],
      ['etc/b', 'a'],
    ],
    'that grows': [['etc/a', 'a/a/a']],
  } as const)) {
    const root = newRoot(t)
    const files = new Files(root)
    for (const [path, target] of links) symlinkSync(target, join(root, path))
    const before = treeOf(root)
    t.ok(isUnreadable(await files.readText('/etc/a').catch(error => error)), `a loop ${name}`)
    await t.resolves(files.recover('/etc/a'), `does not stop a start: a loop ${name}`)
    const image = await files.capture('/etc/a')
    await files.writeAtomic('/etc/a', 'text')
    t.equal(await files.readText('/etc/a'), 'text', `replaced: a loop ${name}`)
    await files.restore(image)
    t.same(treeOf(root), before, `put back: a loop ${name}`)
  }
})

test('a path resolves to a place without links, also if nothing is there yet', t => {
  const root = newRoot(t)
  symlinkSync('/data', join(root, 'var'))
  symlinkSync('/../../outside', join(root, 'etc/out'))
  const at = new Root(root)
  t.equal(at.resolve('/var/lib/receiverd'), join(root, 'data/lib/receiverd'))
  t.equal(at.resolve('/etc/out'), join(root, 'outside'))
  t.equal(at.resolveParent('/etc/out'), join(root, 'etc/out'))
  t.equal(at.resolve('/'), root)
  for (const path of ['/etc/deep/file', '/etc/./deep//file', '//etc/deep/../deep/./file', '/etc/deep/x/../file'])
    t.equal(at.resolve(path), join(root, 'etc/deep/file'), path)
  for (const path of ['/etc/deep/', '/etc/deep/.', '/etc/deep//', '/etc/deep/x/..', '/../etc/deep/'])
    t.equal(at.resolve(path), join(root, 'etc/deep'), path)
  for (const path of ['/..', '/etc/..', '/etc/../..', '/.']) t.equal(at.resolve(path), root, path)
  t.equal(new Root('/').resolve('/'), '/')
  t.end()
})

test('a root has one real path, however it is written', t => {
  const root = newRoot(t)
  symlinkSync('/', join(root, 'slash'))
  symlinkSync(root, join(root, 'self'))
  writeFileSync(join(root, 'file'), '')
  for (const path of ['/', '//', '/etc/..', join(root, 'slash'), `${root}/slash/`]) t.equal(realRoot(path), '/', path)
  for (const path of [root, `${root}/`, join(root, 'self'), `${root}/etc/../`]) t.equal(realRoot(path), root, path)
  t.throws(() => realRoot(join(root, 'nowhere')), { code: 'ENOENT' })
  const noFolder = { code: 'UNREADABLE', message: 'it is not a folder' }
  t.throws(() => realRoot(join(root, 'file')), noFolder)
  t.throws(() => realRoot(root, { ...KERNEL, lstat: () => undefined }), noFolder, 'it was removed meanwhile')
  t.end()
})

test('a path that ends in no name leads to the same file, and not out of the root', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  writeFileSync(join(root, 'etc/file'), 'inside')
  symlinkSync('/etc/file', join(root, 'etc/link'))
  for (const path of ['/etc/file/', '/etc/link/', '/etc/link/.']) {
    t.equal(await files.readText(path), 'inside', path)
    t.equal((await files.readStart(path, 2))?.toString(), 'in', path)
  }
})

test('40 links are followed, as on Linux, and no more', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  writeFileSync(join(root, 'etc/0'), 'text')
  for (let n = 1; n <= 41; n++) symlinkSync(`${n - 1}`, join(root, `etc/${n}`))
  t.equal(await files.readText('/etc/40'), 'text')
  await t.rejects(files.readText('/etc/41'), {
    code: 'UNREADABLE',
    message: 'the path has too many symbolic links',
  })
})

test('a link is not replaced because the disk fails', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'etc/target'), 'old')
  symlinkSync('target', join(root, 'etc/link'))
  const before = treeOf(root)
  let fails = true
  const files = new Files(root, {
    ...KERNEL,
    lstat(path) {
      if (!fails || !path.endsWith('/target')) return KERNEL.lstat(path)
      fails = false
      throw systemError('EIO')
    },
  })
  await t.rejects(files.writeAtomic('/etc/link', 'new'), { code: 'EIO' })
  t.same(treeOf(root), before)
})

test('a folder that becomes a link is followed, and one that was a link is not', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  for (const name of ['a', 'b']) {
    mkdirSync(join(root, name))
    writeFileSync(join(root, name, 'file'), name)
  }
  symlinkSync('a', join(root, 'link'))
  t.equal(await files.readText('/link/file'), 'a')
  await setImmediate()
  rmSync(join(root, 'link'))
  symlinkSync('b', join(root, 'link'))
  t.equal(await files.readText('/link/file'), 'b')
})
