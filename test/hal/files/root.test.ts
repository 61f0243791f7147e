import { existsSync, mkdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { isUnreadable } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { Root, realRoot } from '../../../hal/files/root.ts'
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
  t.throws(() => realRoot(join(root, 'file')), { code: 'UNREADABLE', message: 'it is not a folder' })
  t.end()
})
