import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { Files } from '../../../hal/files/files.ts'
import { FolderWatcher } from '../../../hal/files/watcher.ts'

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
