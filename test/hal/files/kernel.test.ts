import { closeSync, mkdirSync, openSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { KERNEL } from '../../../hal/files/kernel.ts'
import { NEEDS_ROOT } from '../../support/needs.ts'
import { mount } from '../support/mount.ts'
import { newRoot } from '../support/tree.ts'

/** No process may have so many files open. */
const NO_FILE = 2 ** 30

test('a failure in the pool is reported', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'file'), 'text')
  const file = openSync(join(root, 'file'), 'r')
  t.teardown(() => closeSync(file))
  await t.rejects(KERNEL.fsync(NO_FILE), { code: 'EBADF' })
  await t.rejects(KERNEL.fdatasync(NO_FILE), { code: 'EBADF' })
  await t.rejects(KERNEL.writeMuch(file, Buffer.from('x')), { code: 'EBADF' }, 'it is open to be read')
  await t.resolves(KERNEL.fsync(file))
  await t.resolves(KERNEL.fdatasync(file))
})

test('only what cannot be there counts as nothing', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'file'), 'text')
  symlinkSync('file', join(root, 'link'))
  t.equal(KERNEL.lstat(join(root, 'none')), undefined)
  t.equal(KERNEL.lstat(join(root, 'file/below')), undefined)
  t.equal(KERNEL.lstat(join(root, 'link'))?.isSymbolicLink(), true)
  t.throws(() => KERNEL.lstat(join(root, 'x'.repeat(256))), { code: 'ENAMETOOLONG' })
})

test('a file system is read-only, or not', { skip: NEEDS_ROOT }, async t => {
  const root = newRoot(t)
  const at = join(root, 'mounted')
  mkdirSync(at)
  t.equal(KERNEL.isReadOnly(root), false)
  t.equal(KERNEL.isReadOnly(join(root, 'none')), false, 'what is not there')
  if (!mount(t, at, '-t', 'tmpfs', '-o', 'ro', 'tmpfs')) return
  t.equal(KERNEL.isReadOnly(at), true)
})

test('a watch does not keep the process running', async t => {
  const before = process.getActiveResourcesInfo().filter(name => name === 'FSEventWrap').length
  const watch = KERNEL.watch(newRoot(t))
  const after = process.getActiveResourcesInfo().filter(name => name === 'FSEventWrap').length
  watch.close()
  t.equal(after, before)
})
