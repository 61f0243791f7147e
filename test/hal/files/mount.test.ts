/** Files on mounts of their own, and disks that are full or read-only: real ones, where mount(8) is allowed. */
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { Files } from '../../../hal/files/files.ts'
import { NEEDS_ROOT } from '../../support/needs.ts'
import type { ErrorCode } from '../support/file-system.ts'
import { mount } from '../support/mount.ts'
import { changedPaths, leftoversIn, newRoot, treeOf } from '../support/tree.ts'

test('a mounted file is overwritten in place', { skip: NEEDS_ROOT }, async t => {
  const root = newRoot(t)
  const source = join(root, 'source')
  const at = join(root, 'etc/file')
  writeFileSync(source, 'the old text, which is longer', { mode: 0o640 })
  writeFileSync(at, 'below')
  if (!mount(t, at, '--bind', source)) return
  const files = new Files(root)
  const { ino } = statSync(at)
  const image = await files.capture('/etc/file')
  for (const text of ['new', '', 'x'.repeat(50_000)]) {
    await files.writeAtomic('/etc/file', text)
    t.equal(readFileSync(source, 'utf8'), text)
  }
  t.equal(statSync(at).ino, ino, 'the same file')
  t.equal(statSync(at).mode & 0o777, 0o640)
  await files.writeAtomic('/etc/file', 'secret', 0o600)
  t.equal(statSync(source).mode & 0o777, 0o600, 'a given mode is applied')
  await files.restore(image)
  t.equal(readFileSync(source, 'utf8'), 'the old text, which is longer')
  t.equal(statSync(source).mode & 0o777, 0o640)
  t.same(leftoversIn(root), [])
  await t.rejects(files.writeLink('/etc/file', 'target'), { code: 'EBUSY' }, 'a link cannot take its place')
  t.same(leftoversIn(root), [])
})

test('a file that is mounted read-only is refused', { skip: NEEDS_ROOT }, async t => {
  const root = newRoot(t)
  const at = join(root, 'etc/file')
  writeFileSync(join(root, 'source'), 'old')
  writeFileSync(at, 'below')
  if (!mount(t, at, '--bind', join(root, 'source'))) return
  execFileSync('mount', ['-o', 'remount,bind,ro', at])
  await t.rejects(new Files(root).writeAtomic('/etc/file', 'new'), { code: 'EROFS' })
  t.equal(readFileSync(at, 'utf8'), 'old')
  t.same(leftoversIn(root), [])
})

test('a full disk and a read-only one refuse a write, and nothing changes', { skip: NEEDS_ROOT }, async t => {
  const root = newRoot(t)
  const etc = join(root, 'etc')
  if (!mount(t, etc, '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs')) return
  writeFileSync(join(etc, 'file'), 'old', { mode: 0o640 })
  const files = new Files(root)
  const before = treeOf(root)
  await t.rejects(files.writeAtomic('/etc/file', 'x'.repeat(100_000)), { code: 'ENOSPC' }, 'too much for the disk')
  t.same(treeOf(root), before)

  t.throws(() => writeFileSync(join(etc, 'filler'), 'x'.repeat(100_000)), { code: 'ENOSPC' })
  const full = treeOf(root)
  await t.rejects(files.writeAtomic('/etc/file', 'new'), { code: 'ENOSPC' }, 'a disk that is full')
  t.same(treeOf(root), full)
  rmSync(join(etc, 'filler'))

  execFileSync('mount', ['-o', 'remount,ro', etc])
  for (const refused of [
    () => files.writeAtomic('/etc/file', 'new'),
    () => files.writeAtomic('/etc/new/file', 'new'),
    () => files.writeLink('/etc/link', 'new'),
  ])
    await t.rejects(refused(), { code: 'EROFS' satisfies ErrorCode })
  t.equal(await files.readText('/etc/file'), 'old')
  t.same(changedPaths(before, treeOf(root)), [])
})
