import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { Files } from '../../../hal/files/files.ts'
import { type FileSystem, KERNEL, O_WRONLY } from '../../../hal/files/kernel.ts'
import { type ErrorCode, intercepted, refusing, systemError } from '../support/file-system.ts'
import { newRoot, treeOf } from '../support/tree.ts'

const isRoot = process.getuid?.() === 0

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
  t.equal(await files.writeAtomic('/etc/file', 'new', 0o600), true)
  t.equal(statSync(at).mode & 0o777, 0o600, 'a given mode is applied, also for the same text')
  if (!isRoot) return
  for (const owner of [
    [12, 0],
    [0, 34],
  ] as const) {
    chownSync(at, owner[0], owner[1])
    await files.writeAtomic('/etc/file', `of ${owner}`)
    const { uid, gid } = statSync(at)
    t.same([uid, gid], owner)
  }
})

test('a mode applies from the moment of creation, whatever the umask', async t => {
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
  const replacing = [
    'open /etc/a/b/.file.receiverd-',
    'file.write /etc/a/b/.file.receiverd-',
    'file.sync /etc/a/b/.file.receiverd-',
    'rename /etc/a/b/file',
    'file.sync /etc/a/b',
  ]
  t.same(steps.slice(written), replacing)
  steps.length = 0
  await new Files(root, fs).writeAtomic('/etc/a/b/file', 'another')
  t.same(steps, replacing, 'its owner and mode are right already')

  for (const mode of [undefined, 0o600]) {
    steps.length = 0
    await new Files(root, refusing(fs, 'EBUSY')).writeAtomic('/etc/a/b/file', `in place ${mode}`, mode)
    t.same(steps, [
      'open /etc/a/b/.file.receiverd-',
      'file.write /etc/a/b/.file.receiverd-',
      'file.sync /etc/a/b/.file.receiverd-',
      'rename /etc/a/b/.file.receiverd-',
      'file.sync /etc/a/b',
      'open /etc/a/b/file',
      ...(mode === undefined ? [] : ['file.chmod /etc/a/b/file']),
      'file.write /etc/a/b/file',
      'file.truncate /etc/a/b/file',
      'file.sync /etc/a/b/file',
      'unlink /etc/a/b/.file.receiverd-',
      'file.sync /etc/a/b',
      'file.sync /etc/a/b',
    ])
  }
})

test('no file is written through a link that somebody puts in its way', async t => {
  const root = newRoot(t)
  const [other, place] = [join(root, 'etc/other'), join(root, 'etc/place')]
  writeFileSync(other, 'other')
  const planting = (at: (path: string) => boolean) =>
    intercepted(call => {
      if (call.name === 'open' && call.changes && at(call.path)) {
        rmSync(call.path, { force: true })
        symlinkSync(other, call.path)
      }
      return call.proceed()
    })
  const isTemporary = (path: string) => path.includes('.receiverd-')
  await t.rejects(new Files(root, planting(isTemporary)).writeAtomic('/etc/place', 'text'), { code: 'EEXIST' })
  writeFileSync(place, 'old')
  const mounted = refusing(
    planting(path => path === place),
    'EBUSY',
  )
  await t.rejects(new Files(root, mounted).writeAtomic('/etc/place', 'text'), { code: 'ELOOP' })
  symlinkSync(other, join(root, 'etc/attribute'))
  await t.rejects(
    new Files(
      root,
      planting(path => path.endsWith('/attribute')),
    ).writeAttribute('/etc/attribute', 'x'),
    { code: 'ENOENT' },
  )
  t.equal(readFileSync(other, 'utf8'), 'other')
})

test('a file that cannot be compared is written', async t => {
  const root = newRoot(t)
  const at = join(root, 'etc/file')
  for (const code of ['EIO', 'ENOENT'] as const) {
    writeFileSync(at, 'text')
    const { ino } = statSync(at)
    const fs: FileSystem = {
      ...KERNEL,
      open(path, flags, mode) {
        if (path === at && (flags & O_WRONLY) === 0) throw systemError(code)
        return KERNEL.open(path, flags, mode)
      },
    }
    t.equal(await new Files(root, fs).writeAtomic('/etc/file', 'text'), true)
    t.not(statSync(at).ino, ino)
  }
})

test('bytes are written as they are', async t => {
  const root = newRoot(t)
  const bytes = Buffer.from([0xff, 0, 0xc3, 0xa9, 0xed, 0xb3, 0xbf])
  await new Files(root).writeAtomic('/etc/file', new Uint8Array(bytes))
  t.same(readFileSync(join(root, 'etc/file')), bytes)
})

test('a folder that cannot be made, or made durable, is reported once and not tried again', async t => {
  for (const name of ['mkdir', 'file.chmod', 'file.sync'])
    for (const code of ['ENOSPC', 'EIO', 'EEXIST'] as const) {
      if (code === 'EEXIST' && name === 'mkdir') continue
      const root = newRoot(t)
      const steps: string[] = []
      const fs = intercepted(call => {
        if (call.name !== name) return call.proceed()
        steps.push(call.path.slice(root.length))
        if (steps.length === 1) throw systemError(code)
        return call.proceed()
      })
      await t.rejects(new Files(root, fs).writeAtomic('/etc/a/file', 'text'), { code }, name)
      t.same(steps, ['/etc/a'], name)
      await new Files(root, fs).writeAtomic('/etc/a/file', 'text')
      t.equal(readFileSync(join(root, 'etc/a/file'), 'utf8'), 'text')
    }
})

test('a root is made with its mode, and one that is there stays as it is', async t => {
  const root = newRoot(t)
  const below = join(root, 'var/lib/state')
  const files = new Files(root).elsewhere(below)
  t.equal(files.root, below)
  await files.makeRoot(0o700)
  await files.makeRoot(0o755)
  t.equal(statSync(below).mode & 0o7777, 0o700)
  t.equal(statSync(join(root, 'var/lib')).mode & 0o7777, 0o755)
  await files.writeAtomic('/file', 'text')
  t.equal(readFileSync(join(below, 'file'), 'utf8'), 'text')
  const calls: string[] = []
  const fs = intercepted(call => calls.push(call.path))
  await new Files(root, fs).elsewhere(below).remove('/file')
  t.equal(calls[0], join(below, 'file'), 'through the same calls')
})

test('when the kernel writes only a part, the rest is written too', async t => {
  const root = newRoot(t)
  const sizes: number[] = []
  const fs: FileSystem = {
    ...KERNEL,
    write: (file, bytes, offset = 0) => {
      const size = KERNEL.write(file, bytes.subarray(0, offset + 4), offset)
      sizes.push(size)
      return size
    },
  }
  for (const some of [fs, refusing(fs, 'EBUSY')]) {
    writeFileSync(join(root, 'etc/place'), 'the old text, which is longer')
    await new Files(root, some).writeAtomic('/etc/place', 'a new text')
    t.equal(readFileSync(join(root, 'etc/place'), 'utf8'), 'a new text')
  }
  t.same(sizes, [4, 4, 2, 4, 4, 2, 4, 4, 2], 'by rename, and in place')
})

test('the event loop goes on while the disk is waited for', async t => {
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

test('the same content is not written again', async t => {
  const root = newRoot(t)
  const files = new Files(
    root,
    intercepted(call => {
      if (call.changes) t.fail(call.name)
      return call.proceed()
    }),
  )
  writeFileSync(join(root, 'etc/file'), 'text')
  writeFileSync(join(root, 'etc/large'), 'x'.repeat(1_000_000))
  symlinkSync('file', join(root, 'etc/link'))
  t.equal(await files.writeAtomic('/etc/file', 'text'), false)
  t.equal(await files.writeAtomic('/etc/large', 'x'.repeat(1_000_000)), false)
  t.equal(await files.writeLink('/etc/link', 'file'), false)
  t.equal(readFileSync(join(root, 'etc/file'), 'utf8'), 'text')
})

test('a file or a link replaces an empty folder, but not a full one', async t => {
  for (const put of [
    (files: Files) => files.writeAtomic('/etc/place', 'text'),
    (files: Files) => files.writeLink('/etc/place', 'target'),
  ]) {
    const root = newRoot(t)
    const files = new Files(root)
    mkdirSync(join(root, 'etc/place'))
    chmodSync(join(root, 'etc/place'), 0o700)
    const before = treeOf(root)
    const image = await files.capture('/etc/place')
    t.equal(await put(files), true)
    t.match(treeOf(root)['/etc/place'], /^file 644 .* text$|^link target$/)
    await files.restore(image)
    t.same(treeOf(root), before, 'put back')
    writeFileSync(join(root, 'etc/place/file'), '')
    const full = treeOf(root)
    await t.rejects(put(files), { code: 'ENOTEMPTY' })
    t.same(treeOf(root), full)
  }
})

test('a removal is durable, also of what is gone already, and ends at a link', async t => {
  const root = newRoot(t)
  const steps: string[] = []
  const fs = intercepted(call => {
    steps.push(`${call.name} ${call.path.slice(root.length)}`)
    return call.proceed()
  })
  writeFileSync(join(root, 'etc/file'), 'text')
  symlinkSync('file', join(root, 'etc/link'))
  for (const name of ['link', 'link']) {
    steps.length = 0
    await new Files(root, fs).remove(`/etc/${name}`)
    t.same(steps, ['unlink /etc/link', 'open /etc', 'file.sync /etc'])
  }
  t.equal(readFileSync(join(root, 'etc/file'), 'utf8'), 'text')
  await new Files(root, fs).remove('/etc/file')
  t.same(Object.keys(treeOf(root)), ['/etc'])
})

test('to remove what is not there is no error, even if its folder is missing or read-only', async t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'etc/file'), 'text')
  mkdirSync(join(root, 'etc/folder'))
  const before = treeOf(root)
  const failing = (code: ErrorCode) =>
    intercepted(call => {
      if (call.changes) throw systemError(code)
      return call.proceed()
    })
  for (const path of ['/etc/nothing', '/etc/nowhere/nothing', '/etc/file/nothing']) {
    await t.resolves(new Files(root).remove(path), path)
    await t.resolves(new Files(root, failing('EROFS')).remove(path), `${path} on a read-only disk`)
    await t.rejects(new Files(root, failing('EIO')).remove(path), { code: 'EIO' }, `${path} on a broken disk`)
  }
  await t.rejects(
    new Files(root, failing('EROFS')).remove('/etc/file'),
    { code: 'EROFS' },
    'but of a file that is there',
  )
  await t.rejects(new Files(root).remove('/etc/folder'), { code: 'EISDIR' })
  t.same(treeOf(root), before)
})

test('a rename is durable, and replaces what has the name', async t => {
  const root = newRoot(t)
  const steps: string[] = []
  const fs = intercepted(call => {
    steps.push(`${call.name} ${call.path.slice(root.length)}`)
    return call.proceed()
  })
  writeFileSync(join(root, 'etc/file'), 'text')
  writeFileSync(join(root, 'etc/name'), 'old')
  await new Files(root, fs).rename('/etc/file', 'name')
  t.same(steps, ['rename /etc/name', 'open /etc', 'file.sync /etc'])
  t.equal(readFileSync(join(root, 'etc/name'), 'utf8'), 'text')
  t.notOk(existsSync(join(root, 'etc/file')))
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
  await t.rejects(files.writeAttribute('/etc/nothing', 'new'), { code: 'ENOENT' }, 'and is never created')
})
