import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  lstatSync,
  mkdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { isUnreadable } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { type FileSystem, KERNEL } from '../../../hal/files/kernel.ts'
import { NEEDS_ROOT } from '../../support/needs.ts'
import { systemError, tracked } from '../support/file-system.ts'
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

test('names are sorted, in whatever order the disk has them', async t => {
  const names = ['b', 'B', 'a10', 'é', 'a9', '.c']
  const files = new Files('/', { ...KERNEL, readdir: () => [...names] })
  t.same(await files.list('/etc'), ['.c', 'B', 'a10', 'a9', 'b', 'é'])
})

test('a large file is read piece by piece, from anywhere', async t => {
  const root = t.testdir({ large: 'ab'.repeat(400_000), empty: '', folder: {} })
  const { fs, open } = tracked()
  const files = new Files(root, fs)
  const textFrom = async (path: string, from: number) => {
    const pieces: Buffer[] = []
    const file = await files.openLarge(path)
    for await (const piece of file?.chunks(from) ?? []) pieces.push(piece)
    file?.close()
    return { count: pieces.length, text: Buffer.concat(pieces).toString() }
  }
  const large = await files.openLarge('/large')
  t.equal(large?.bytes, 800_000)
  const whole = await textFrom('/large', 0)
  t.ok(whole.count > 1)
  t.equal(whole.text, 'ab'.repeat(400_000))
  t.equal((await textFrom('/large', 799_999)).text, 'b')
  t.equal((await textFrom('/large', 800_000)).text, '')
  t.equal((await textFrom('/empty', 0)).text, '')
  t.equal(await files.openLarge('/none'), undefined)
  await t.rejects(files.openLarge('/folder'), { code: 'UNREADABLE' })
  for await (const _ of large?.chunks(0) ?? []) break
  large?.close()
  t.equal(open.size, 0, 'it is closed, also when the rest is not wanted')
})

test('a large file stays the same under another name, and one that changes is not read on', async t => {
  const root = t.testdir({ large: 'ab'.repeat(400_000), next: 'cd'.repeat(400_000) })
  const at = join(root, 'large')
  const opened = async () => {
    const file = await new Files(root).openLarge('/large')
    if (!file) throw new Error('there is no file')
    t.teardown(() => file.close())
    return file
  }
  const textOf = async (chunks: AsyncIterable<Buffer>) => {
    const pieces: Buffer[] = []
    for await (const piece of chunks) pieces.push(piece)
    return Buffer.concat(pieces).toString()
  }
  const old = await opened()
  renameSync(join(root, 'next'), at)
  t.equal(await textOf(old.chunks(0)), 'ab'.repeat(400_000))
  const removed = await opened()
  rmSync(at)
  t.equal(await textOf(removed.chunks(799_998)), 'cd')

  const refusal = { code: 'UNREADABLE', message: 'the file has changed since it was opened' }
  for (const [what, text] of [
    ['shorter', 'ef'.repeat(200_000)],
    ['empty', ''],
    ['longer', 'ef'.repeat(500_000)],
    ['rewritten', 'ef'.repeat(400_000)],
  ] as const) {
    writeFileSync(at, 'ab'.repeat(400_000))
    utimesSync(at, 1, 1)
    const file = await opened()
    const chunks = file.chunks(0)
    await chunks.next()
    writeFileSync(at, text)
    await t.rejects(textOf(chunks), refusal, what)
    await t.rejects(textOf(file.chunks(0)), refusal, `${what}, from the start`)
  }
})

test('nothing but a file is read: no folder, FIFO, socket or device', async t => {
  const root = newRoot(t)
  const at = (name: string) => join(root, 'etc', name)
  mkdirSync(at('folder'))
  execFileSync('mkfifo', [at('fifo')])
  const server = createServer().listen(at('socket'))
  t.teardown(() => server.close())
  await once(server, 'listening')
  const names = ['folder', 'fifo', 'socket']
  if (!NEEDS_ROOT) execFileSync('mknod', [at(names[names.push('device') - 1] ?? ''), 'c', '1', '3'])
  const files = new Files(root)
  const refusal = /^the file is not a regular file$/
  for (const name of names) {
    symlinkSync(name, at(`${name}-link`))
    for (const path of [`/etc/${name}`, `/etc/${name}-link`]) {
      await refusesToRead(t, files.readText(path), path, refusal)
      await refusesToRead(t, files.readStart(path, 1), path, refusal)
      await refusesToRead(t, files.openLarge(path), path, refusal)
      t.equal(await files.readForEdit(path), undefined, path)
      if (name !== 'folder') await refusesToRead(t, files.capture(path), path, refusal)
    }
  }
})

test('a FIFO is closed again', async t => {
  const root = newRoot(t)
  execFileSync('mkfifo', [join(root, 'etc/fifo')])
  const { fs, open } = tracked()
  const files = new Files(root, fs)
  for (const read of [files.readText('/etc/fifo'), files.readStart('/etc/fifo', 1), files.openLarge('/etc/fifo')])
    await refusesToRead(t, read, 'a FIFO', /^the file is not a regular file$/)
  t.equal(open.size, 0)
})

test('only a file that is not there counts as none', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'etc/file'), 'text')
  symlinkSync('file', join(root, 'etc/link'))
  mkdirSync(join(root, 'etc/folder'))
  const reads: Record<string, (files: Files, path: string) => Promise<unknown>> = {
    text: (files, path) => files.readText(path),
    start: (files, path) => files.readStart(path, 4),
    large: async (files, path) => (await files.openLarge(path))?.close(),
    edit: (files, path) => files.readForEdit(path),
    list: (files, path) => files.list(path),
    capture: (files, path) => files.capture(path),
  }
  for (const code of ['EIO', 'EACCES', 'EMFILE'] as const)
    for (const [what, read] of Object.entries(reads))
      for (const path of ['/etc/file', '/etc/link', '/etc/folder'])
        for (const call of ['open', 'lstat', 'readlink', 'readdir', 'read', 'fstat'] as const) {
          // Only the first call fails: the file must not be tried again either.
          let failed = false
          const once = (...args: unknown[]) => {
            if (failed || String(args[0]).endsWith('/etc')) return Reflect.apply(KERNEL[call], KERNEL, args)
            failed = true
            throw systemError(code)
          }
          const { fs, open } = tracked({ [call]: once })
          const result = await read(new Files(root, fs), path).then(
            () => undefined,
            error => error.code,
          )
          if (failed) t.equal(result, code, `${what} of ${path}: ${call}`)
          t.equal(open.size, 0, `${what} of ${path}: ${call}: all is closed`)
        }
})

test('a file may change while it is read', async t => {
  const root = newRoot(t)
  const at = join(root, 'etc/file')
  for (const [size, real] of [
    [0, 10],
    [0, 9000],
    [10, 4095],
    [4095, 4096],
    [4096, 5000],
    [5000, 5001],
    [5000, 12_000],
    [5000, 3000],
    [10, 3],
  ] as const) {
    const text = Array.from({ length: real }, (_, n) => n % 7).join('')
    writeFileSync(at, text)
    const { fs, open } = tracked({ fstat: file => Object.assign(KERNEL.fstat(file), { size }) })
    const files = new Files(root, fs)
    t.equal(await files.readText('/etc/file'), text, `${real} bytes, and ${size} before`)
    t.equal((await files.readStart('/etc/file', 5))?.length, Math.min(size, real, 5))
    t.equal(open.size, 0)
  }
  const large = await new Files(root).openLarge('/etc/file')
  rmSync(at)
  mkdirSync(at)
  let looks = 0
  const removed = new Files(root, {
    ...KERNEL,
    lstat: path => (path === at && ++looks > 1 ? undefined : KERNEL.lstat(path)),
  })
  t.equal(await removed.readForEdit('/etc/file'), undefined, 'a folder that is removed while it is looked at')
  t.equal(looks > 1, true)
  rmdirSync(at)
  const kept: Buffer[] = []
  for await (const piece of large?.chunks(0) ?? []) kept.push(piece)
  t.equal(Buffer.concat(kept).toString(), '012', 'one that is open is there until it is closed')
  large?.close()
  const gone = new Files(root, { ...KERNEL, lstat: () => lstatSync('/proc/self/status') })
  t.same((await gone.capture('/etc/file')).entry, { kind: 'absent' })
})

test('a read costs few calls: there are hundreds of them at a start', async t => {
  const root = newRoot(t)
  const calls: string[] = []
  const noting = (name: 'lstat' | 'open' | 'read' | 'fstat') => ({
    [name]: (...args: unknown[]) => {
      calls.push(name === 'lstat' ? `lstat ${String(args[0]).slice(root.length)}` : name)
      return Reflect.apply(KERNEL[name], KERNEL, args)
    },
  })
  const fs = { ...KERNEL, ...noting('lstat'), ...noting('open'), ...noting('read'), ...noting('fstat') }
  const files = new Files(root, fs)
  const own = ['open', 'fstat', 'read']
  for (const size of [0, 1, 4095, 4096, 5000]) writeFileSync(join(root, `etc/.${size}`), 'x'.repeat(size))
  for (const size of [0, 1, 4095, 4096, 5000]) await files.readText(`/etc/.${size}`)
  t.same(calls, ['lstat /etc', ...[0, 1, 4095, 4096, 5000].flatMap(() => own)], 'one look at the folder')
  await setImmediate()
  calls.length = 0
  await files.readText('/etc/.1')
  t.same(calls, ['lstat /etc', ...own], 'which may have changed later')
  calls.length = 0
  await files.readStart('/etc/.1', 1)
  t.same(calls, ['lstat /etc/.1', ...own], 'a link there would be followed first')
  calls.length = 0
  await files.exists('/etc/.1')
  t.same(calls, ['lstat /etc/.1'], 'only a link is followed')
  calls.length = 0
  await new Files('/', fs).readText('/proc/self/status')
  t.equal(calls.filter(call => call === 'read').length, 2, 'a file without a size is not read byte by byte')
})

test('what is at a path is told without reading it', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  writeFileSync(join(root, 'etc/file'), 'text')
  utimesSync(join(root, 'etc/file'), 1, 2)
  for (const [name, target] of Object.entries({ link: 'file', dangling: 'nowhere', loop: 'loop' }))
    symlinkSync(target, join(root, 'etc', name))
  for (const [path, exists, size] of [
    ['/etc/file', true, 4],
    ['/etc', true, undefined],
    ['/etc/link', true, undefined],
    ['/etc/dangling', false, undefined],
    ['/etc/loop', true, undefined],
    ['/etc/nothing', false, undefined],
    ['/etc/file/below', false, undefined],
  ] as const) {
    t.equal(await files.exists(path), exists, path)
    t.equal(await files.size(path), size, path)
    t.equal((await files.modifiedAt(path)) !== undefined, exists || path === '/etc/dangling', path)
  }
  t.equal(await files.modifiedAt('/etc/file'), 2000)
})

test('the space is that of the file system that holds the root', async t => {
  const root = newRoot(t)
  const asked: string[] = []
  const fs = (isReadOnly: boolean): FileSystem => ({
    ...KERNEL,
    statfs(path) {
      asked.push(path)
      return { bsize: 512, blocks: 100, bavail: 7 }
    },
    isReadOnly(path) {
      asked.push(path)
      return isReadOnly
    },
  })
  for (const readOnly of [false, true])
    t.same(await new Files(root, fs(readOnly)).space(), { totalBytes: 51_200, availableBytes: 3584, readOnly })
  t.same(asked, [root, root, root, root])
  t.equal((await new Files(root).space()).readOnly, false)
  t.equal(KERNEL.isReadOnly(join(root, 'nothing')), false)
})

test('a file that is too large to be edited is not taken for none', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'etc/file'), 'x'.repeat(1024 * 1024))
  symlinkSync('file', join(root, 'etc/link'))
  t.equal((await new Files(root).readForEdit('/etc/link'))?.length, 1024 * 1024)
  appendFileSync(join(root, 'etc/file'), 'x')
  for (const path of ['/etc/file', '/etc/link'])
    await refusesToRead(t, new Files(root).readForEdit(path), path, /^the file is larger than 1024 KiB$/)
})
