import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { errorCode, isUnreadable } from '../../../hal/errors.ts'
import { type FileSystem, KERNEL } from '../../../hal/files/disk.ts'
import { Files } from '../../../hal/files/files.ts'
import {
  type Call,
  type ErrorCode,
  failingAt,
  intercepted,
  refuseRename,
  Stopped,
  stoppingAt,
  systemError,
} from '../support/file-system.ts'
import { changedPaths, leftoversIn, treeOf } from '../support/tree.ts'

const isRoot = process.getuid?.() === 0

function newRoot(t: Test): string {
  const root = mkdtempSync(join(tmpdir(), 'receiverd-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  mkdirSync(join(root, 'etc'))
  return root
}

/** Whether mount(8) does something here; what it mounted is gone after the test. */
function mount(t: Test, at: string, ...args: string[]): boolean {
  try {
    execFileSync('mount', [...args, at], { stdio: 'ignore' })
  } catch {
    t.comment('mount(8) is not allowed here')
    return false
  }
  t.teardown(() => execFileSync('umount', ['--lazy', at]))
  return true
}

const skip = isRoot ? false : 'needs root'

async function refusesToRead(t: Test, done: Promise<unknown>, what = 'unreadable', message = /./): Promise<void> {
  const error = await done.catch(error => error)
  t.ok(isUnreadable(error) && message.test(error.message), what)
}

test('a link is followed as in the system below the root, and never out of it', async t => {
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

test('a link of a loop cannot be read, and is replaced by a write', async t => {
  for (const [name, links] of Object.entries({
    'of itself': [['etc/a', 'a']],
    'of two': [
      ['etc/a', '/etc/b'],
      ['etc/b', 'a'],
    ],
    'that grows': [['etc/a', 'a/a/a']],
  } as const)) {
    const root = newRoot(t)
    const files = new Files(root)
    for (const [path, target] of links) symlinkSync(target, join(root, path))
    const before = treeOf(root)
    await refusesToRead(t, files.readText('/etc/a'), name)
    await t.resolves(files.recover('/etc/a'), `a start gets over it, ${name}`)
    const images = await files.capture('/etc/a')
    await files.writeAtomic('/etc/a', 'text')
    t.equal(await files.readText('/etc/a'), 'text', name)
    for (const image of images) await files.restore(image)
    t.same(treeOf(root), before, `put back, ${name}`)
  }
})

test('what is no text of a bounded length is refused', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  const at = join(root, 'etc/file')
  const fifo = () => execFileSync('mkfifo', [at])
  for (const [make, expected, what] of [
    [() => writeFileSync(at, 'x'.repeat(65_536)), 'x'.repeat(65_536), '64 KiB'],
    [() => writeFileSync(at, 'x'.repeat(65_537)), /larger than 64 KiB/, '64 KiB and a byte'],
    [() => writeFileSync(at, 'x'.repeat(4095)), 'x'.repeat(4095), 'a byte less than is read at a time'],
    [() => writeFileSync(at, 'x'.repeat(4096)), 'x'.repeat(4096), 'as much as is read at a time'],
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
    t.equal(
      await files.readForEdit('/etc/file'),
      expected instanceof RegExp ? undefined : expected,
      `${what}, to be edited`,
    )
    rmSync(at, { recursive: true, force: true })
  }
  writeFileSync(at, '')
  t.equal(await files.readText('/etc/file/below'), undefined, 'a path through a file')
  t.same(await files.list('/etc/file'), [], 'a list of a file')
})

test('a size that says nothing, as under /proc, is no way around the bound', async t => {
  const text = (await new Files('/').readText('/proc/self/status')) ?? ''
  t.match(text, /^Name:/)
  await t.rejects(new Files('/').readText('/proc/kallsyms'), { message: /larger than 64 KiB/ })
})

test('behind a link to /dev/null there is nothing to read, and no file is made of it', { skip }, async t => {
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

test('a write keeps mode and owner', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  const at = join(root, 'etc/file')
  for (const mode of [0o600, 0o640, 0o664, 0o444, 0o4755]) {
    rmSync(at, { force: true })
    writeFileSync(at, 'old')
    if (isRoot) chownSync(at, 12, 34)
    chmodSync(at, mode)
    await files.writeAtomic('/etc/file', 'new')
    const stat = statSync(at)
    t.equal(stat.mode & 0o7777, mode, mode.toString(8))
    if (isRoot) t.same([stat.uid, stat.gid], [12, 34])
    t.equal(readFileSync(at, 'utf8'), 'new')
  }
  await files.writeAtomic('/etc/file', 'new', 0o600)
  t.equal(statSync(at).mode & 0o7777, 0o600, 'a mode that is given holds, also for the same text')
})

test('a mode holds from the moment of creation, whatever the umask', async t => {
  const root = newRoot(t)
  const seen: number[] = []
  const fs = intercepted(call => {
    const result = call.proceed()
    if (call.path.includes('.receiverd-') && existsSync(call.path)) seen.push(lstatSync(call.path).mode & 0o777)
    return result
  })
  for (const umask of [0, 0o077]) {
    const before = process.umask(umask)
    try {
      await new Files(root, fs).writeAtomic(`/etc/secret-${umask}`, 'text', 0o600)
      t.equal(statSync(join(root, `etc/secret-${umask}`)).mode & 0o777, 0o600)
      await new Files(root).writeAtomic(`/etc/folder-${umask}/deep/file`, 'text')
      for (const [path, mode] of [
        ['', 0o755],
        ['/deep', 0o755],
        ['/deep/file', 0o644],
      ] as const)
        t.equal(statSync(join(root, `etc/folder-${umask}${path}`)).mode & 0o777, mode, `a new ${path || 'folder'}`)
    } finally {
      process.umask(before)
    }
  }
  t.ok(seen.length > 4, 'the temporary file was looked at')
  t.same([...new Set(seen)], [0o600], 'at every step')
})

test('each name is made durable in its folder, after what it names', async t => {
  const root = newRoot(t)
  const steps: string[] = []
  const fs = intercepted(call => {
    const name = call.path.slice(root.length).replace(/receiverd-.*/, 'receiverd-')
    if (call.changes) steps.push(`${call.name} ${name}`)
    return call.proceed()
  })
  await new Files(root, fs).writeAtomic('/etc/a/b/file', 'text')
  for (const [made, folder] of [
    ['/etc/a', '/etc'],
    ['/etc/a/b', '/etc/a'],
  ])
    t.ok(
      steps.lastIndexOf(`file.sync ${folder}`) > steps.lastIndexOf(`mkdir ${made}`),
      `${made} is durable in ${folder}`,
    )
  const written = steps.lastIndexOf('open /etc/a/b/.file.receiverd-')
  t.same(steps.slice(written), [
    'open /etc/a/b/.file.receiverd-',
    'file.write /etc/a/b/.file.receiverd-',
    'file.sync /etc/a/b/.file.receiverd-',
    'rename /etc/a/b/file',
    'file.sync /etc/a/b',
  ])
})

test('a kernel that takes a part of a write is given the rest', async t => {
  const root = newRoot(t)
  const sizes: number[] = []
  const fs = {
    ...KERNEL,
    writeSync: (file: number, bytes: Buffer, at: number) => {
      sizes.push(KERNEL.writeSync(file, bytes, at, Math.min(bytes.length - at, 4)))
      return sizes.at(-1)
    },
  } as FileSystem
  const refuse = refuseRename('EBUSY')
  for (const some of [fs, refusing(fs, refuse)]) {
    writeFileSync(join(root, 'etc/place'), 'the old text, which is longer')
    await new Files(root, some).writeAtomic('/etc/place', 'a new text')
    t.equal(readFileSync(join(root, 'etc/place'), 'utf8'), 'a new text')
  }
  t.same(sizes, [4, 4, 2, 4, 4, 2, 4, 4, 2], 'by rename, and in place')
})

test('while the disk is waited for, the process does other things', async t => {
  const root = newRoot(t)
  let isBusy = false
  let happened = 0
  const fs: FileSystem = {
    ...KERNEL,
    fsync: async file => {
      isBusy = true
      await KERNEL.fsync(file)
      isBusy = false
    },
  }
  const interval = setInterval(() => {
    if (isBusy) happened++
  })
  for (let n = 0; n < 1000 && happened === 0; n++) await new Files(root, fs).writeAtomic('/etc/place', `${n}`)
  clearInterval(interval)
  t.ok(happened > 0)
})

test('the same text is not written again', async t => {
  const root = newRoot(t)
  const files = new Files(
    root,
    intercepted(call => {
      if (call.changes) t.fail(call.name)
      return call.proceed()
    }),
  )
  writeFileSync(join(root, 'etc/file'), 'text')
  symlinkSync('file', join(root, 'etc/link'))
  await files.writeAtomic('/etc/file', 'text')
  await files.writeLink('/etc/link', 'file')
  t.equal(readFileSync(join(root, 'etc/file'), 'utf8'), 'text')
})

test('an empty folder in the place of a file or a link is replaced, a full one is not', async t => {
  for (const put of [
    (files: Files) => files.writeAtomic('/etc/place', 'text'),
    (files: Files) => files.writeLink('/etc/place', 'target'),
  ]) {
    const root = newRoot(t)
    const files = new Files(root)
    mkdirSync(join(root, 'etc/place'))
    chmodSync(join(root, 'etc/place'), 0o700)
    const before = treeOf(root)
    const [image] = await files.capture('/etc/place')
    await put(files)
    t.match(treeOf(root)['/etc/place'], /^file 644 .* text$|^link target$/)
    if (image) await files.restore(image)
    t.same(treeOf(root), before, 'put back')
    writeFileSync(join(root, 'etc/place/file'), '')
    const full = treeOf(root)
    await t.rejects(put(files), { code: 'ENOTEMPTY' })
    t.same(treeOf(root), full)
  }
})

test('what was captured is put back', async t => {
  const make: Record<string, (at: string, root: string) => void> = {
    'a file': at => writeFileSync(at, 'old', { mode: 0o600 }),
    'an empty file': at => writeFileSync(at, ''),
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
    'a removal': async (_, at) => rmSync(at, { recursive: true, force: true }),
    'nothing at all': async () => undefined,
  }
  for (const [what, prepare] of Object.entries(make))
    for (const [how, act] of Object.entries(change)) {
      const root = newRoot(t)
      const files = new Files(root)
      prepare(join(root, 'etc/place'), root)
      const before = treeOf(root)
      const images = await files.capture('/etc/place')
      await act(files, join(root, 'etc/place'))
      for (const image of images.toReversed()) await files.restore(image)
      t.same(treeOf(root), before, `${what} after ${how}`)
    }
})

test('what is not there is removed, also where there is no folder for it', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'etc/file'), 'text')
  const before = treeOf(root)
  for (const path of ['/etc/nothing', '/etc/nowhere/nothing', '/etc/file/nothing'])
    await t.resolves(new Files(root).remove(path), path)
  t.same(treeOf(root), before)
})

test('what cannot be put back is not begun with', async t => {
  const root = newRoot(t)
  execFileSync('mkfifo', [join(root, 'etc/fifo')])
  writeFileSync(join(root, 'etc/huge'), Buffer.alloc(16 * 1024 * 1024 + 1))
  const files = new Files(root)
  await refusesToRead(t, files.capture('/etc/fifo'))
  await refusesToRead(t, files.writeAtomic('/etc/fifo', 'text'))
  await t.rejects(files.capture('/etc/huge'), { message: /larger than 16384 KiB/ })
})

/** The ways to put something in a place, each with what is there before and after it. */
const ways: Record<string, { before: string; after: string; act: (files: Files) => Promise<unknown> }> = {
  'a text': { before: 'text', after: 'new text', act: files => files.writeAtomic('/etc/place', 'new text') },
  'a longer text': {
    before: 'text',
    after: 'n'.repeat(9999),
    act: files => files.writeAtomic('/etc/place', 'n'.repeat(9999)),
  },
  'an empty text': { before: 'text', after: '', act: files => files.writeAtomic('/etc/place', '') },
  'another mode': { before: 'text', after: 'text', act: files => files.writeAtomic('/etc/place', 'text', 0o600) },
}

test('a call that fails leaves the old text or the new one, and no temporary file', async t => {
  const onPlace: Record<string, (call: Call) => void> = {
    'by rename': () => undefined,
    'in place': refuseRename('EBUSY'),
  }
  for (const code of ['ENOSPC', 'EIO', 'EROFS', 'EDQUOT', 'EACCES'] as const)
    for (const [path, refuse] of Object.entries(onPlace)) {
      let n = 1
      for (let failed = true; failed; n++) {
        const root = newRoot(t)
        writeFileSync(join(root, 'etc/place'), 'text')
        const failing = failingAt(n, code, call => call.changes)
        const files = new Files(root, path === 'in place' ? refusing(failing, refuse) : failing)
        const [image] = await files.capture('/etc/place')
        failed = await files.writeAtomic('/etc/place', 'new text').then(
          () => false,
          error => errorCode(error) === code || t.fail(`another error: ${error}`),
        )
        if (failed && image) await new Files(root).restore(image)
        const text = readFileSync(join(root, 'etc/place'), 'utf8')
        t.equal(text, failed ? 'text' : 'new text', `${code} at call ${n} ${path}`)
        t.same(leftoversIn(root), [], `no leftovers of ${code} at call ${n} ${path}`)
      }
      t.ok(n > (path === 'in place' ? 10 : 6), `${n} calls ${path}`)
    }
})

/** The same file system, with renames refused as onto a mount point. */
function refusing(fs: FileSystem, refuse: (call: Call) => void): FileSystem {
  return new Proxy(fs, {
    get(_, name: keyof FileSystem) {
      if (name !== 'renameSync') return fs[name]
      return (from: string, to: string) => {
        refuse({ name: 'rename', path: to, changes: true, proceed: () => undefined, tear: () => undefined })
        fs.renameSync(from, to)
      }
    },
  })
}

test('a process that ends at any step leaves, after the next start, the old text or the new one', async t => {
  for (const code of [undefined, 'EBUSY', 'EXDEV'] as const)
    for (const [what, { before, after, act }] of Object.entries(ways)) {
      const states = new Set<string>()
      const refuse = code && refuseRename(code)
      let n = 1
      for (let stopped = true; stopped; n++) {
        const root = newRoot(t)
        writeFileSync(join(root, 'etc/place'), before)
        stopped = await act(new Files(root, stoppingAt(n, refuse))).then(
          () => false,
          error => error instanceof Stopped,
        )
        // The start after it may be interrupted just as well.
        for (let m = 1; m < n && leftoversIn(root).length > 0; m++)
          await new Files(root, stoppingAt(m, refuse)).recover('/etc/place')
        await new Files(root, stoppingAt(Number.POSITIVE_INFINITY, refuse)).recover('/etc/place')
        const text = readFileSync(join(root, 'etc/place'), 'utf8')
        const step = `${what}, step ${n}${code ? ` after ${code}` : ''}`
        if (text !== before && text !== after) t.fail(`a torn text: ${step}`, { text })
        if (!stopped) t.equal(text, after, `${what} is written in ${n - 1} steps`)
        if (leftoversIn(root).length > 0) t.fail(`leftovers: ${step}`, { leftovers: leftoversIn(root) })
        states.add(text)
      }
      t.same([...states], [...new Set([before, after])], `${what}: first the old, then the new`)
      t.ok(n > (code ? 9 : 5), `${n} steps were tried`)
    }
})

test('a process that ends while a link is made leaves the old one or the new one', async t => {
  for (let [n, stopped] = [1, true]; stopped; n++) {
    const root = newRoot(t)
    symlinkSync('old', join(root, 'etc/link'))
    stopped = await new Files(root, stoppingAt(n)).writeLink('/etc/link', 'new').then(
      () => false,
      error => error instanceof Stopped,
    )
    await new Files(root).recover('/etc/link')
    t.match(readlinkSync(join(root, 'etc/link')), stopped ? /^(old|new)$/ : /^new$/)
    t.same(leftoversIn(root), [])
  }
})

test('a write in place that was interrupted is completed where the mount is gone, too', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  for (const present of ['torn', undefined]) {
    if (present === undefined) rmSync(join(root, 'etc/place'))
    else writeFileSync(join(root, 'etc/place'), present)
    writeFileSync(join(root, 'etc/.place.receiverd-redo'), 'whole')
    await files.recover('/etc/place')
    t.equal(await files.readText('/etc/place'), 'whole')
    t.same(leftoversIn(root), [])
  }
})

test('a start gets over a disk that does not let it finish', async t => {
  for (const code of ['EROFS', 'ENOSPC', 'EIO'] as const) {
    const root = newRoot(t)
    writeFileSync(join(root, 'etc/place'), 'torn')
    writeFileSync(join(root, 'etc/.place.receiverd-redo'), 'whole')
    writeFileSync(join(root, 'etc/.place.receiverd-0123'), 'rest')
    const fs = intercepted(call => {
      if (call.changes) throw systemError(code)
      return call.proceed()
    })
    await t.resolves(new Files(root, fs).recover('/etc/place'), code)
    t.equal(leftoversIn(root).length, 2, 'and keeps the whole text')
    await new Files(root).recover('/etc/place')
    t.equal(readFileSync(join(root, 'etc/place'), 'utf8'), 'whole', 'until it can')
  }
})

test('other files are no leftovers', async t => {
  const root = newRoot(t)
  for (const name of ['.place', '.place2.receiverd-0', 'place.receiverd-0', '.placereceiverd-0', 'place'])
    writeFileSync(join(root, 'etc', name), '')
  const before = treeOf(root)
  await new Files(root).recover('/etc/place')
  t.same(treeOf(root), before)
})

test('a file that is mounted is overwritten in place', { skip }, async t => {
  const root = newRoot(t)
  const source = join(root, 'source')
  const at = join(root, 'etc/file')
  writeFileSync(source, 'the old text, which is longer', { mode: 0o640 })
  writeFileSync(at, 'below')
  if (!mount(t, at, '--bind', source)) return
  const files = new Files(root)
  const { ino } = statSync(at)
  const [image] = await files.capture('/etc/file')
  for (const text of ['new', '', 'x'.repeat(50_000)]) {
    await files.writeAtomic('/etc/file', text)
    t.equal(readFileSync(source, 'utf8'), text)
  }
  t.equal(statSync(at).ino, ino, 'the same file')
  t.equal(statSync(at).mode & 0o777, 0o640)
  await files.writeAtomic('/etc/file', 'secret', 0o600)
  t.equal(statSync(source).mode & 0o777, 0o600, 'a mode that is given holds')
  if (image) await files.restore(image)
  t.equal(readFileSync(source, 'utf8'), 'the old text, which is longer')
  t.equal(statSync(source).mode & 0o777, 0o640)
  t.same(leftoversIn(root), [])
  await t.rejects(files.writeLink('/etc/file', 'target'), { code: 'EBUSY' }, 'no link can be made of it')
  t.same(leftoversIn(root), [])
})

test('a file that is mounted read-only is refused', { skip }, async t => {
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

test('a full disk and a read-only one refuse a write, and nothing changes', { skip }, async t => {
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

test('a link is read as it is written', async t => {
  const root = newRoot(t)
  const files = new Files(root)
  writeFileSync(join(root, 'etc/file'), '')
  await files.writeLink('/etc/new/link', '../no/such//file')
  t.equal(await files.readLink('/etc/new/link'), '../no/such//file')
  t.equal(await files.readLink('/etc/nothing'), undefined)
  t.equal(await files.readLink('/etc/file/below'), undefined)
  await refusesToRead(t, files.readLink('/etc/file'))
})

test('a folder is listed in the order of bytes, and a file is known by how it begins', async t => {
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

test('an attribute of the kernel is written by one write', async t => {
  const root = newRoot(t)
  const calls: string[] = []
  const files = new Files(
    root,
    intercepted(call => {
      if (call.changes) calls.push(call.name)
      return call.proceed()
    }),
  )
  writeFileSync(join(root, 'etc/attribute'), 'old')
  await files.writeAttribute('/etc/attribute', 'new')
  t.equal(readFileSync(join(root, 'etc/attribute'), 'utf8'), 'new')
  t.same(calls, ['open', 'file.write'])
  await t.rejects(files.writeAttribute('/etc/nothing', 'new'), { code: 'ENOENT' }, 'and never made')
})
