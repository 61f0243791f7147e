import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { isUnreadable } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { NEEDS_ROOT } from '../../support/needs.ts'
import { newRoot, treeOf } from '../support/tree.ts'

async function refusesToRead(t: Test, done: Promise<unknown>, what = 'unreadable', message = /./): Promise<void> {
  const error = await done.catch(error => error)
  t.ok(isUnreadable(error) && message.test(error.message), what)
}

test('only text of a bounded length is read', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  const at = join(root, 'etc/file')
  const fifo = () => execFileSync('mkfifo', [at])
  for (const [make, expected, what] of [
    [() => writeFileSync(at, 'x'.repeat(65_536)), 'x'.repeat(65_536), '64 KiB'],
    [() => writeFileSync(at, 'x'.repeat(65_537)), /larger than 64 KiB/, '64 KiB and a byte'],
    [() => writeFileSync(at, 'x'.repeat(4095)), 'x'.repeat(4095), 'a byte less than the first read takes'],
    [() => writeFileSync(at, 'x'.repeat(4096)), 'x'.repeat(4096), 'as much as the first read takes'],
    [() => writeFileSync(at, Buffer.from([0xff])), /not valid UTF-8/, 'a byte that is not UTF-8'],
    [() => writeFileSync(at, Buffer.from('é').subarray(0, 1)), /not valid UTF-8/, 'half a character'],
    [() => writeFileSync(at, '\uFEFFa'), '\uFEFFa', 'a byte-order mark, which is kept'],
    [() => writeFileSync(at, ''), '', 'an empty file'],
    [() => mkdirSync(at), /not a regular file/, 'a folder'],
    [fifo, /not a regular file/, 'a FIFO'],
    [() => undefined, undefined, 'nothing'],
    [() => symlinkSync('nowhere/at/all', at), undefined, 'a link to nothing'],
    [() => symlinkSync('/dev/null', at), undefined, 'a link to /dev/null'],
  ] as const) {
    make()
    if (expected instanceof RegExp) await refusesToRead(t, files.readText('/etc/file'), what, expected)
    else t.equal(await files.readText('/etc/file'), expected, what)
    if (!(expected instanceof RegExp)) {
      t.equal(await files.readLossless('/etc/file'), expected, `${what}, without loss`)
      t.equal(await files.readForEdit('/etc/file'), expected, `${what}, to be edited`)
    } else if (expected.test('the file is not a regular file')) {
      await refusesToRead(t, files.readLossless('/etc/file'), what, expected)
      t.equal(await files.readForEdit('/etc/file'), undefined, `${what}, to be edited`)
    }
    rmSync(at, { recursive: true, force: true })
  }
  writeFileSync(at, '')
  t.equal(await files.readText('/etc/file/below'), undefined, 'a path through a file')
  t.same(await files.list('/etc/file'), [], 'a list of a file')
})

test('the bound also holds for a file that does not know its size, as under /proc', async t => {
  const text = (await new Files('/').readText('/proc/self/status')) ?? ''
  t.match(text, /^Name:/)
  await t.rejects(new Files('/').readText('/proc/kallsyms'), { message: /larger than 64 KiB/ })
})

test('behind a link to /dev/null there is nothing to read, and it does not become a file', {
  skip: NEEDS_ROOT,
}, async t => {
  const root = newRoot(t)
  mkdirSync(join(root, 'dev'))
  execFileSync('mknod', [join(root, 'dev/null'), 'c', '1', '3'])
  symlinkSync('/dev/null', join(root, 'etc/file'))
  const files = new Files(root)
  const before = treeOf(root)
  t.equal(await files.readText('/etc/file'), undefined)
  await refusesToRead(t, files.writeAtomic('/etc/file', 'text'))
  t.same(treeOf(root), before)
})

test('a link is read as it is written', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  writeFileSync(join(root, 'etc/file'), '')
  await files.writeLink('/etc/new/link', '../no/such//file')
  t.equal(await files.readLink('/etc/new/link'), '../no/such//file')
  t.equal(await files.readLink('/etc/nothing'), undefined)
  t.equal(await files.readLink('/etc/file/below'), undefined)
  await refusesToRead(t, files.readLink('/etc/file'))
  t.equal(await files.linkTarget('/etc/new/link'), '../no/such//file')
  for (const path of ['/etc/nothing', '/etc/file/below', '/etc/file', '/etc'])
    t.equal(await files.linkTarget(path), undefined, path)
})

test('a folder is listed in byte order, and a file is recognized by how it begins', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  for (const name of ['b', 'B', 'a10', 'a9']) writeFileSync(join(root, 'etc', name), 'TZif2')
  t.same(await files.list('/etc'), ['B', 'a10', 'a9', 'b'])
  t.same(await files.list('/nothing'), [])
  t.equal(await files.beginsWith('/etc/b', 'TZif'), true)
  t.equal(await files.beginsWith('/etc/b', 'TZif22'), false)
  t.equal(await files.beginsWith('/etc/nothing', 'TZif'), false)
  await refusesToRead(t, files.beginsWith('/etc', 'TZif'))
  t.equal(await files.exists('/etc/b'), true)
  t.equal(await files.exists('/etc/nothing'), false)
})

test('a large file is read piece by piece, from anywhere', async t => {
  const root = t.testdir({ large: 'ab'.repeat(400_000), empty: '', folder: {} })
  const files = new Files(root)
  const textFrom = async (path: string, from: number) => {
    const pieces: Buffer[] = []
    for await (const piece of (await files.openLarge(path))?.chunks(from) ?? []) pieces.push(piece)
    return { count: pieces.length, text: Buffer.concat(pieces).toString() }
  }
  t.equal((await files.openLarge('/large'))?.bytes, 800_000)
  const whole = await textFrom('/large', 0)
  t.ok(whole.count > 1)
  t.equal(whole.text, 'ab'.repeat(400_000))
  t.equal((await textFrom('/large', 799_999)).text, 'b')
  t.equal((await textFrom('/large', 800_000)).text, '')
  t.equal((await textFrom('/empty', 0)).text, '')
  t.equal(await files.openLarge('/none'), undefined)
  await t.rejects(files.openLarge('/folder'), { code: 'UNREADABLE' })
})
