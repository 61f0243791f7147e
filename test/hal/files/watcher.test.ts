import { EventEmitter } from 'node:events'
import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { Files } from '../../../hal/files/files.ts'
import { type FileSystem, KERNEL, type Watch } from '../../../hal/files/kernel.ts'
import { FolderWatcher } from '../../../hal/files/watcher.ts'
import { systemError } from '../support/file-system.ts'

const DEADLINE_MS = 5_000

function newFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Whether a condition becomes true before the deadline. */
async function comesTrue(condition: () => boolean): Promise<boolean> {
  for (const end = performance.now() + DEADLINE_MS; performance.now() < end; await sleep(2))
    if (condition()) return true
  return condition()
}

const cases: Record<string, { prepare?: (folder: string) => void; change: (folder: string) => void }> = {
  'a write': {
    prepare: folder => writeFileSync(join(folder, 'a/b/file'), 'old'),
    change: folder => appendFileSync(join(folder, 'a/b/file'), 'new'),
  },
  'a creation': { change: folder => writeFileSync(join(folder, 'a/b/file'), '') },
  'a removal': {
    prepare: folder => writeFileSync(join(folder, 'a/b/file'), ''),
    change: folder => rmSync(join(folder, 'a/b/file')),
  },
  'another file renamed over it': {
    prepare: folder => {
      writeFileSync(join(folder, 'a/b/file'), 'old')
      writeFileSync(join(folder, 'a/b/new'), 'new')
    },
    change: folder => renameSync(join(folder, 'a/b/new'), join(folder, 'a/b/file')),
  },
  'a new link': { change: folder => symlinkSync('elsewhere', join(folder, 'a/b/file')) },
  'a folder that appears with the file in it': {
    prepare: folder => {
      rmSync(join(folder, 'a/b'), { recursive: true })
      mkdirSync(join(folder, 'new'))
      writeFileSync(join(folder, 'new/file'), '')
    },
    change: folder => renameSync(join(folder, 'new'), join(folder, 'a/b')),
  },
  'several folders that appear at once': {
    prepare: folder => rmSync(join(folder, 'a'), { recursive: true }),
    change: folder => {
      mkdirSync(join(folder, 'a/b'), { recursive: true })
      writeFileSync(join(folder, 'a/b/file'), '')
    },
  },
  'a folder that is replaced': {
    prepare: folder => {
      mkdirSync(join(folder, 'new'))
      writeFileSync(join(folder, 'new/file'), 'new')
    },
    change: folder => {
      renameSync(join(folder, 'a/b'), join(folder, 'old'))
      renameSync(join(folder, 'new'), join(folder, 'a/b'))
    },
  },
  'a folder that is moved away': {
    prepare: folder => writeFileSync(join(folder, 'a/b/file'), 'old'),
    change: folder => renameSync(join(folder, 'a/b'), join(folder, 'old')),
  },
  'a folder that is removed': {
    prepare: folder => writeFileSync(join(folder, 'a/b/file'), 'old'),
    change: folder => rmSync(join(folder, 'a/b'), { recursive: true }),
  },
}

test('each kind of change is reported, and the next change after it', async t => {
  for (const [what, { prepare, change }] of Object.entries(cases)) {
    const folder = newFolder(t)
    mkdirSync(join(folder, 'a/b'), { recursive: true })
    prepare?.(folder)
    let told = 0
    const stop = new FolderWatcher().watch(join(folder, 'a/b/file'), () => told++)
    change(folder)
    t.ok(await comesTrue(() => told > 0), what)
    // A late report of the first change must not pass for one of the second, so each attempt writes again.
    let writes = 0
    const isHeard = async () => {
      mkdirSync(join(folder, 'a/b'), { recursive: true })
      rmSync(join(folder, 'a/b/file'), { force: true })
      const before = told
      writeFileSync(join(folder, 'a/b/file'), `${writes++}`)
      return comesTrue(() => told > before)
    }
    for (let round = 0; round < 3; round++) t.ok(await isHeard(), `a write after ${what}`)
    stop()
  }
})

test('a folder that disappears and reappears is watched every time', async t => {
  const folder = newFolder(t)
  let told = 0
  const stop = new FolderWatcher().watch(join(folder, 'a/b/file'), () => told++)
  for (let round = 0; round < 5; round++) {
    for (const change of [
      () => mkdirSync(join(folder, 'a')),
      () => mkdirSync(join(folder, 'a/b')),
      () => writeFileSync(join(folder, 'a/b/file'), ''),
      () => rmSync(join(folder, 'a'), { recursive: true }),
    ]) {
      const before = told
      change()
      t.ok(await comesTrue(() => told > before), `round ${round}: ${change}`)
    }
  }
  stop()
})

test('only the watched file is reported, and nothing after the stop', async t => {
  const folder = newFolder(t)
  const watcher = new FolderWatcher()
  const told: string[] = []
  const watch = (name: string) => watcher.watch(join(folder, name), () => told.push(name))
  const stops = [watch('a'), watch('b'), watch('*')]
  // The kernel reports in order: after the last change no earlier one is still to come.
  writeFileSync(join(folder, 'b'), '')
  writeFileSync(join(folder, 'ab'), '')
  writeFileSync(join(folder, 'a'), '')
  t.ok(await comesTrue(() => told.includes('a')))
  t.ok(told.indexOf('b') < told.indexOf('a'))
  t.ok(told.filter(name => name === '*').length >= 3, 'an asterisk stands for any name')

  stops[0]?.()
  told.length = 0
  writeFileSync(join(folder, 'a'), 'new')
  writeFileSync(join(folder, 'b'), 'new')
  t.ok(await comesTrue(() => told.includes('b')))
  t.notOk(told.includes('a'), 'a stopped watch reports nothing')

  for (const stop of stops) stop()
  told.length = 0
  const again = watch('c')
  for (const name of ['a', 'b', 'c']) writeFileSync(join(folder, name), 'newest')
  t.ok(await comesTrue(() => told.includes('c')))
  t.same([...new Set(told)], ['c'], 'a later watch does')
  again()
})

test('stopping while a folder is missing leaves nothing behind', async t => {
  const folder = newFolder(t)
  const watcher = new FolderWatcher()
  const told: string[] = []
  watcher.watch(join(folder, 'a/b/file'), () => told.push('stopped'))()
  const stop = watcher.watch(join(folder, 'a/b/file'), () => told.push('running'))
  mkdirSync(join(folder, 'a/b'), { recursive: true })
  t.ok(await comesTrue(() => told.length > 0))
  t.same([...new Set(told)], ['running'])
  stop()
})

test('a link is watched, and the file behind it in another folder', async t => {
  const root = newFolder(t)
  for (const path of ['etc', 'usr/lib', 'run']) mkdirSync(join(root, path), { recursive: true })
  writeFileSync(join(root, 'usr/lib/file'), 'old')
  symlinkSync('/usr/lib/file', join(root, 'etc/file'))
  const changes: Record<string, () => void> = {
    'the file': () => writeFileSync(join(root, 'usr/lib/file'), 'new'),
    'a file renamed over it': () => {
      writeFileSync(join(root, 'usr/lib/next'), 'next')
      renameSync(join(root, 'usr/lib/next'), join(root, 'usr/lib/file'))
    },
    'the link': () => {
      symlinkSync('/run/file', join(root, 'etc/next'))
      renameSync(join(root, 'etc/next'), join(root, 'etc/file'))
    },
  }
  for (const [what, change] of Object.entries(changes)) {
    let told = 0
    const stop = new Files(root).watch('/etc/file', () => told++)
    // The change is repeated until the watch has begun.
    t.ok(
      await comesTrue(() => {
        change()
        return told > 0
      }),
      what,
    )
    stop()
  }
})

test('a watch that is stopped before it begins reports nothing', async t => {
  const root = newFolder(t)
  const files = new Files(root)
  const told: string[] = []
  files.watch('/file', () => told.push('stopped'))()
  const stop = files.watch('/file', () => told.push('running'))
  let text = 0
  t.ok(
    await comesTrue(() => {
      writeFileSync(join(root, 'file'), `${text++}`)
      return told.length > 0
    }),
  )
  t.same([...new Set(told)], ['running'])
  stop()
})

/** Watches of folders that a test tells of changes, in the order in which they were opened. */
function fakeWatches(missing: (folder: string) => boolean = () => false) {
  const opened: { readonly folder: string; readonly emitter: EventEmitter; isOpen: boolean }[] = []
  const watch: FileSystem['watch'] = folder => {
    if (missing(folder)) throw systemError('ENOENT')
    const emitter = new EventEmitter()
    const one = { folder, emitter, isOpen: true }
    opened.push(one)
    const close = () => {
      one.isOpen = false
    }
    return Object.assign(emitter, { close }) as unknown as Watch
  }
  const open = () => opened.filter(({ isOpen }) => isOpen).map(({ folder }) => folder)
  const tell = (folder: string, ...args: readonly ['change' | 'error', ...unknown[]]) => {
    for (const one of [...opened]) if (one.isOpen && one.folder === folder) one.emitter.emit(...args)
  }
  const emit = (folder: string, event: 'change' | 'rename', name: string | null) => tell(folder, 'change', event, name)
  const lose = (folder: string) => tell(folder, 'error', systemError('ENOSPC'))
  return { fs: { ...KERNEL, watch }, opened, open, emit, lose }
}

test('a folder has one watch, which ends with the last that needs it', t => {
  const { fs, opened, open, emit } = fakeWatches()
  const watcher = new FolderWatcher(fs)
  const told: string[] = []
  const watch = (path: string) => watcher.watch(path, () => told.push(path))
  const stops = [watch('/etc/a'), watch('/etc/b'), watch('/run/c')]
  // An attribute of the folder itself, and a file that comes or goes, leave the watch as it is.
  emit('/etc', 'change', 'etc')
  t.same([...new Set(told.splice(0))], ['/etc/a', '/etc/b'])
  for (const event of ['change', 'rename'] as const) emit('/etc', event, 'a')
  stops.push(watch('/etc/d'))
  t.same(told, ['/etc/a', '/etc/a'])
  t.same(open(), ['/etc', '/run'])
  for (const [n, left] of [
    [0, ['/etc', '/run']],
    [1, ['/etc', '/run']],
    [2, ['/etc']],
    [3, []],
  ] as const) {
    stops[n]?.()
    t.same(open(), left)
  }
  stops.push(watch('/etc/a'))
  t.same(open(), ['/etc'])
  t.equal(opened.length, 3)
  for (const stop of stops) stop()
  t.same(open(), [])
  t.end()
})

test('a change without a name may be of any file', t => {
  const { fs, emit } = fakeWatches()
  const told: string[] = []
  for (const path of ['/etc/a', '/etc/b', '/etc/*']) new FolderWatcher(fs).watch(path, () => told.push(path))
  emit('/etc', 'change', null)
  t.same([...new Set(told)], ['/etc/a', '/etc/b', '/etc/*'])
  t.end()
})

test('a folder that is replaced has a new watch for all of its files, which outlives the old one', t => {
  const { fs, opened, open, emit } = fakeWatches()
  const watcher = new FolderWatcher(fs)
  const told: string[] = []
  const stops = ['/etc/a', '/etc/b'].map(path => watcher.watch(path, () => told.push(path)))
  emit('/etc', 'rename', 'etc')
  t.same(told.splice(0), ['/etc/a', '/etc/b'])
  t.same(open(), ['/etc'])
  t.equal(opened.length, 2)
  stops.push(watcher.watch('/etc/c', () => told.push('/etc/c')))
  for (const name of ['a', 'b', 'c']) emit('/etc', 'change', name)
  t.same(told, ['/etc/a', '/etc/b', '/etc/c'])
  t.equal(opened.length, 2)
  for (const stop of stops) stop()
  t.same(open(), [])
  t.end()
})

test('a watch that is lost is closed, and the next one opens another', t => {
  const { fs, opened, open, emit, lose } = fakeWatches()
  const watcher = new FolderWatcher(fs)
  let told = 0
  const stop = watcher.watch('/etc/a', () => told++)
  lose('/etc')
  t.same(open(), [])
  const next = watcher.watch('/etc/a', () => told++)
  t.same(open(), ['/etc'])
  stop()
  t.same(open(), ['/etc'], 'the old one does not close it')
  const third = watcher.watch('/etc/b', () => told++)
  t.equal(opened.length, 2, 'or make it forgotten')
  emit('/etc', 'change', 'a')
  t.equal(told, 1)
  next()
  third()
  t.same(open(), [])
  t.end()
})

test('without any watch, changes go unreported', t => {
  const { fs, opened } = fakeWatches(() => true)
  t.doesNotThrow(new FolderWatcher(fs).watch('/etc/deep/file', () => t.fail('nothing is known')))
  t.doesNotThrow(new Files('/', fs).watch('/etc/file', () => t.fail('nothing is known')))
  t.same(opened, [])
  t.end()
})

test('the nearest folder is watched until the next one appears, with a single watch', t => {
  const missing = new Set(['/a', '/a/b'])
  const { fs, open, emit } = fakeWatches(folder => missing.has(folder))
  let told = 0
  const stop = new FolderWatcher(fs).watch('/a/b/file', () => told++)
  t.same(open(), ['/'])
  emit('/', 'rename', 'other')
  t.equal(told, 0)
  missing.delete('/a')
  emit('/', 'rename', 'a')
  t.same(open(), ['/a'])
  missing.delete('/a/b')
  emit('/a', 'rename', 'b')
  t.same(open(), ['/a/b'])
  for (let n = 0; n < 3; n++) emit('/a/b', 'change', 'file')
  t.equal(told, 5)
  stop()
  t.same(open(), [])
  t.end()
})

test('one that is told may stop another, which is then told nothing', t => {
  for (const path of ['/etc/file', '/etc/missing/file']) {
    const { fs, open, emit } = fakeWatches(folder => folder === '/etc/missing')
    const files = new Files('/', { ...fs, lstat: () => undefined })
    const told: string[] = []
    const stops = ['first', 'second'].map(name =>
      files.watch(path, () => {
        told.push(name)
        for (const stop of stops) stop()
      }),
    )
    emit('/etc', 'rename', null)
    emit('/etc', 'rename', null)
    t.same(told, ['first'], path)
    t.same(open(), [], path)
  }
  t.end()
})

test('a watch follows its link to another place, and leaves the old one', async t => {
  const root = newFolder(t)
  for (const name of ['etc', 'a', 'b']) mkdirSync(join(root, name))
  const { fs, opened, open, emit } = fakeWatches()
  const files = new Files(root, fs)
  const below = () =>
    open()
      .map(folder => folder.slice(root.length))
      .sort()
  const link = async (target: string) => {
    rmSync(join(root, 'etc/file'), { force: true })
    symlinkSync(target, join(root, 'etc/file'))
    // Where folders lead is known for a turn of the event loop.
    await setImmediate()
    emit(join(root, 'etc'), 'rename', 'file')
  }
  let told = 0
  symlinkSync('/a/file', join(root, 'etc/file'))
  const stop = files.watch('/etc/file', () => told++)
  t.same(below(), ['/a', '/etc'])
  for (let n = 1; n <= 3; n++) {
    emit(join(root, 'a'), 'change', 'file')
    t.equal(told, n)
  }
  t.equal(opened.length, 2)
  await link('/b/file')
  t.same(below(), ['/b', '/etc'])
  emit(join(root, 'a'), 'change', 'file')
  t.equal(told, 4)
  emit(join(root, 'b'), 'change', 'file')
  t.equal(told, 5)
  await link('/a/file')
  t.same(below(), ['/a', '/etc'])
  await link('file')
  t.same(below(), ['/etc'], 'a loop')
  stop()
  t.same(below(), [])
  stop()
  t.same(below(), [])
})

test('a path that cannot be followed is watched where it led before', async t => {
  const root = newFolder(t)
  mkdirSync(join(root, 'etc'))
  const { fs, opened, open, emit } = fakeWatches()
  const files = new Files(root, fs)
  let told = 0
  const stop = files.watch('/etc/file', () => told++)
  renameSync(join(root, 'etc'), join(root, 'old'))
  symlinkSync('etc', join(root, 'etc'))
  await setImmediate()
  emit(join(root, 'etc'), 'change', 'file')
  t.same(open(), [join(root, 'etc')])
  emit(join(root, 'etc'), 'change', 'file')
  t.equal(told, 2)
  stop()
  t.equal(opened.length, 1)
  await t.resolves(files.recover('/etc/file'))
  t.doesNotThrow(files.watch('/etc/file', () => told++))
  t.equal(opened.length, 1)
})
