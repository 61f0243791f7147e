/** How far a journal found at a start is believed: it may be torn, of another version, or planted. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import * as Type from 'typebox/type'
import { HalError } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { System } from '../../../hal/os/system.ts'
import type { Setting, Undo } from '../../../hal/setting.ts'
import { network } from '../../../hal/settings/network/network.ts'
import { Journal } from '../../../hal/transaction/journal.ts'
import { deviceRoot } from '../../support/device.ts'
import { intercepted, systemError, unreadable } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import {
  change,
  failureOf,
  passive,
  rootWithFiles,
  setting,
  transact,
  transactionsOf,
} from '../support/transactions.ts'
import { changedPaths, newRoot, treeOf } from '../support/tree.ts'

const FILE = { kind: 'file', mode: 0o644, size: 3 }
const IMAGE = { path: '/etc/a', entry: FILE }
const UNDO = { setting: 'a', previous: 'old', next: 'new', images: [IMAGE] }

/** A journal of these undos, with the content of their files. */
function journalOf(undos: unknown, content = 'was', version: unknown = 1): string {
  return `${JSON.stringify({ version, undos })}\n${content}`
}

const withEntry = (entry: object, content = '') =>
  journalOf([{ ...UNDO, images: [{ path: '/etc/a', entry }] }], content)
const withPath = (path: unknown) => journalOf([{ ...UNDO, images: [{ path, entry: FILE }] }])

const TOO_LARGE = 1024 * 1024 + 1

/** By the reason that is given. */
const NOT_JOURNALS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'it has no first line': {
    'an empty file': '',
    'no line end': journalOf([UNDO]).split('\n', 1).join(),
    'a torn line': journalOf([UNDO]).slice(0, 20),
    'an array of undos with absolute paths of the host': JSON.stringify([
      { ...UNDO, images: [{ at: '/etc/a', kind: 'file', bytes: 'd2Fz', mode: 0o644 }] },
    ]),
    'brackets without end': '['.repeat(4_000_000),
  },
  'it is not JSON': {
    'an empty line': '\n',
    'half a line': `${journalOf([UNDO]).slice(0, 20)}\n`,
    'brackets in a line': `${'['.repeat(500_000)}\n`,
  },
  'its version or shape is unknown': {
    'an array': '[]\n',
    'an object': '{}\n',
    null: 'null\n',
    'a string': '"x"\n',
    'an undo of nothing': '[{"setting":"a","images":[null]}]\n',
    'another version': journalOf([UNDO], 'was', 2),
    'no list of undos': journalOf({ 0: UNDO }),
    'an unknown property': journalOf([{ ...UNDO, owner: 0 }]),
    'no previous value': journalOf([{ ...UNDO, previous: undefined }]),
    'an unknown kind': withEntry({ kind: 'device' }),
    'a negative size': withEntry({ ...FILE, size: -3 }),
    'a size that is no integer': withEntry({ ...FILE, size: 2.5 }),
    'a size over the limit': withEntry({ ...FILE, size: TOO_LARGE }, 'x'.repeat(TOO_LARGE)),
    'a set-user-ID bit': withEntry({ ...FILE, mode: 0o4755 }, 'was'),
    'a negative mode': withEntry({ ...FILE, mode: -1 }, 'was'),
    'an empty link target': withEntry({ kind: 'link', target: '' }),
    'a link target with a NUL': withEntry({ kind: 'link', target: 'a\0b' }),
    'a link target over PATH_MAX': withEntry({ kind: 'link', target: 'x'.repeat(4096) }),
    'something behind a file': journalOf([{ ...UNDO, images: [{ ...IMAGE, behind: { kind: 'absent' } }] }]),
    'a path that is no string': withPath(['/etc/a']),
  },
  'it is empty': { 'no undos': journalOf([], '') },
  'it is not complete': {
    'too little content': journalOf([UNDO], 'wa'),
    'too much content': journalOf([UNDO], 'wass'),
  },
  'it changes something that is not a setting, or is read-only': {
    'an unknown setting': journalOf([{ ...UNDO, setting: 'z' }]),
    'a setting named like a property of objects': journalOf([{ ...UNDO, setting: 'constructor' }]),
    'a setting that is only read': journalOf([{ ...UNDO, setting: 'readOnly' }]),
    'nothing but unknown settings': journalOf(
      [
        { ...UNDO, setting: 'y', images: [] },
        { ...UNDO, setting: 'z', images: [] },
      ],
      '',
    ),
  },
  'it has no file for its setting': { 'no file': journalOf([{ ...UNDO, images: [] }], '') },
  'a file in it does not belong to its setting': {
    'a file of another setting': withPath('/etc/b'),
    'a file of no setting': withPath('/etc/passwd'),
    'another way to write its path': withPath('/etc/../etc/a'),
    'a path out of the root': withPath('/../../../../etc/a'),
    'a relative path': withPath('etc/a'),
    'one of two files that is of another setting': journalOf(
      [{ ...UNDO, images: [IMAGE, { ...IMAGE, path: '/etc/b' }] }],
      'waswas',
    ),
  },
  'a value in it does not fit its setting': {
    'a value that no file holds': journalOf([{ ...UNDO, setting: 'volume', previous: 7, images: [] }], ''),
  },
}

/** Settings `a`, `b` and one without files on a running system, whose `activate` fails the test, and one that is only read. */
function settingsOf(t: Test, system: System): readonly Setting[] {
  const { write: _, ...readOnly } = passive(system, 'readOnly')
  const activate = async () => void t.fail('activated')
  const { write: __, ...volume } = { ...setting(system, 'volume'), files: [], activate }
  return [...['a', 'b'].map(name => ({ ...setting(system, name), activate })), volume, readOnly]
}

const shaped = (values: object) => ({ ...UNDO, setting: 'b', ...values, images: [{ ...IMAGE, path: '/etc/b' }] })

/** The setting `b` of a later version, whose values have another shape. */
function laterShape(
  system: System,
  activate: (value: unknown, previous: unknown, isRewritten: boolean) => void,
): Setting {
  const b = setting(system, 'b')
  return {
    ...b,
    schema: Type.Object({ text: Type.String(), isLater: Type.Boolean() }, { additionalProperties: false }),
    read: async () => ({ text: await b.read(), isLater: true }),
    activate: async (...activated) => activate(...activated),
  }
}

test('a file that is not a journal of this device is set aside, and nothing in it is done', async t => {
  for (const [why, texts] of Object.entries(NOT_JOURNALS))
    for (const [what, text] of Object.entries(texts)) {
      const root = rootWithFiles(t)
      const before = treeOf(join(root, 'etc'))
      writeFileSync(join(root, 'state/journal'), text)
      const system = runningAt(root)
      const transactions = transactionsOf(system, settingsOf(t, system))
      await t.rejects(
        transactions.recover(),
        { code: 'UNREADABLE', message: `the file is not a journal: ${why}; it was set aside as journal.bad` },
        what,
      )
      t.same(treeOf(join(root, 'etc')), before, `${what}: nothing has changed`)
      t.ok(
        readFileSync(join(root, 'state/journal.bad'), 'utf8') === text,
        `${what}: it is kept for a person to look at`,
      )
      t.equal(await transactions.recover(), undefined, `${what}: once`)
      await transact(system, [change(setting(system, 'a'))])
      t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'new', `${what}: the next change works`)
      t.notOk(existsSync(join(root, 'state/journal')))
    }
})

test('the same journal with a shape, setting, file and values that fit is done', async t => {
  const root = rootWithFiles(t)
  writeFileSync(join(root, 'state/journal'), journalOf([UNDO]))
  const system = runningAt(root)
  t.same(await transactionsOf(system, [setting(system, 'a')]).recover(), { settings: ['a'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'was')
  t.notOk(existsSync(join(root, 'state/journal')))
})

test('values of another shape keep no file from being put back, and are read from the files instead', async t => {
  for (const [what, values] of Object.entries({
    'a member less': { previous: { text: 'was' }, next: { text: 'new' } },
    'only before': { previous: 7, next: { text: 'trial', isLater: true } },
    'only after': { previous: { text: 'was', isLater: true }, next: null },
  })) {
    const root = rootWithFiles(t)
    writeFileSync(join(root, 'etc/b'), 'trial')
    writeFileSync(join(root, 'state/journal'), journalOf([UNDO, shaped(values)], 'waswas'))
    const system = runningAt(root)
    const steps: unknown[] = []
    const b = laterShape(system, (...activated) => void steps.push(activated))
    const warnings: string[] = []
    const transactions = transactionsOf(system, [setting(system, 'a'), b], undefined, what => warnings.push(what))
    t.same(await transactions.recover(), { settings: ['b', 'a'], notUndone: [] }, what)
    for (const name of ['a', 'b']) t.equal(readFileSync(join(root, 'etc', name), 'utf8'), 'was', what)
    t.same(steps, [[{ text: 'was', isLater: true }, { text: 'trial', isLater: true }, true]], what)
    t.same(warnings, [], what)
    t.same(readdirSync(join(root, 'state')), [], what)
  }
})

test('a value of another shape that could not be put back into use is put back later', async t => {
  const root = rootWithFiles(t)
  writeFileSync(join(root, 'etc/b'), 'trial')
  writeFileSync(join(root, 'state/journal'), journalOf([shaped({ previous: { text: 'was' }, next: { text: 'new' } })]))
  const system = runningAt(root)
  let isBroken = true
  const steps: unknown[] = []
  const b = laterShape(system, (...activated) => {
    if (isBroken) throw new HalError('COMMAND_FAILED', 'activate failed')
    steps.push(activated)
  })
  const transactions = transactionsOf(system, [b])
  t.same(await transactions.recover(), { settings: ['b'], notUndone: ['b'] })
  isBroken = false
  t.same(await transactions.retry(), { settings: ['b'], notUndone: [], changed: [] })
  t.same(steps, [[{ text: 'was', isLater: true }, { text: 'trial', isLater: true }, true]])
})

test('an undo that only another version can do is left out, and the others are done', async t => {
  for (const [why, undo] of [
    ['it changes something that is not a setting, or is read-only', { ...UNDO, setting: 'later' }],
    ['it changes something that is not a setting, or is read-only', { ...UNDO, setting: 'readOnly' }],
    ['a value in it does not fit its setting', { ...UNDO, setting: 'volume', previous: 7, images: [] }],
  ] as const) {
    const root = rootWithFiles(t)
    const etc = treeOf(join(root, 'etc'))
    writeFileSync(join(root, 'state/journal'), journalOf([undo, UNDO], 'was'.repeat(undo.images.length + 1)))
    const system = runningAt(root)
    const warnings: string[] = []
    const settings = [setting(system, 'a'), ...settingsOf(t, system).slice(1)]
    const start = () => transactionsOf(system, settings, undefined, what => warnings.push(what))
    t.same(await start().recover(), { settings: ['a'], notUndone: [] })
    t.same(warnings, [`the journal of an unfinished change: the undo of ${undo.setting} is left out: ${why}`])
    t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'was')
    t.same(changedPaths(etc, treeOf(join(root, 'etc'))), ['/a'], 'and nothing else has changed')
    t.equal(await start().recover(), undefined, 'once')
    t.same(readdirSync(join(root, 'state')), [])
  }
})

test('a journal that is set aside replaces the one before, whatever it is', async t => {
  const root = rootWithFiles(t)
  const at = join(root, 'state/journal')
  for (const make of [
    () => writeFileSync(at, 'first'),
    () => mkdirSync(at),
    () => execFileSync('mkfifo', [at]),
    () => symlinkSync('journal', at),
    () => {
      writeFileSync(at, '')
      truncateSync(at, 1024 ** 4)
    },
    () => writeFileSync(at, 'last'),
  ]) {
    make()
    const system = runningAt(root)
    await t.rejects(transactionsOf(system, []).recover(), { message: /it was set aside/ }, String(make))
    t.notOk(existsSync(at))
  }
  t.equal(readFileSync(join(root, 'state/journal.bad'), 'utf8'), 'last')
})

test('a disk that is read-only does not stop a start', async t => {
  const root = rootWithFiles(t)
  writeFileSync(join(root, 'state/journal'), '{}\n')
  const fs = intercepted(call => {
    if (call.changes) throw systemError('EROFS')
    return call.proceed()
  })
  const transactions = transactionsOf(new System(root), [], new Files(`${root}/state`, fs))
  await t.rejects(transactions.recover(), { message: /it could not be set aside: read-only file system \(EROFS\)$/ })
})

test('a disk that cannot be read now keeps its journal', async t => {
  const root = rootWithFiles(t)
  writeFileSync(join(root, 'state/journal'), journalOf([UNDO]))
  const fs = unreadable(() => true)
  await t.rejects(transactionsOf(new System(root), [], new Files(`${root}/state`, fs)).recover(), { code: 'EIO' })
  t.ok(existsSync(join(root, 'state/journal')))
})

test('a planted journal changes nothing outside of the root, and no file of others', async t => {
  const outside = newRoot(t)
  writeFileSync(join(outside, 'etc/a'), 'of the host')
  writeFileSync(join(outside, 'etc/shadow'), 'secret')
  const untouched = treeOf(outside)
  const link = (target: string) => ({ path: '/etc/a', entry: { kind: 'link', target } })
  for (const [what, plant, images, content] of [
    ['a link out of the root', undefined, [{ ...link(`${outside}/etc/shadow`), behind: FILE }], 'was'],
    ['dots', undefined, [{ ...link(`../../../../../../..${outside}/etc/shadow`), behind: FILE }], 'was'],
    ['a removal behind a link', undefined, [{ ...link(`${outside}/etc/a`), behind: { kind: 'absent' } }], ''],
    [
      'a folder that is a link out of the root',
      (root: string) => {
        rmSync(join(root, 'etc'), { recursive: true })
        symlinkSync(join(outside, 'etc'), join(root, 'etc'))
      },
      [IMAGE],
      'was',
    ],
    [
      'a hard link',
      (root: string) => {
        rmSync(join(root, 'etc/a'))
        linkSync(join(outside, 'etc/shadow'), join(root, 'etc/a'))
      },
      [IMAGE],
      'was',
    ],
  ] as const) {
    const root = rootWithFiles(t)
    plant?.(root)
    writeFileSync(join(root, 'state/journal'), journalOf([{ ...UNDO, images }], content))
    const system = new System(root)
    await transactionsOf(system, [setting(system, 'a')]).recover()
    // The names outside; a hard link is counted in its inode.
    t.same(treeOf(outside), untouched, what)
  }
})

test('the journal of a root that was moved is done where the root is now', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(join(root, 'etc'))
  const system = new System(root)
  const names = ['a', 'link', 'c']
  await transactionsOf(
    system,
    names.map(name => setting(system, name)),
  ).apply(names.map(name => change(setting(system, name))))
  const changed = treeOf(join(root, 'etc'))

  const moved = join(newRoot(t), 'moved')
  renameSync(root, moved)
  mkdirSync(join(root, 'etc'), { recursive: true })
  for (const name of ['a', 'b', 'c']) writeFileSync(join(root, 'etc', name), 'of another')
  const other = treeOf(root)
  t.notSame(changed, before)

  const there = new System(moved)
  t.same(
    await transactionsOf(
      there,
      names.map(name => setting(there, name)),
    ).recover(),
    { settings: ['c', 'link', 'a'], notUndone: [] },
  )
  t.same(treeOf(join(moved, 'etc')), before)
  t.same(treeOf(root), other, 'and not where it was')
})

test('the largest journal that is written can be read, and a byte more is refused', async t => {
  const MIB = 1024 * 1024
  const journal = new Journal(new Files(join(rootWithFiles(t), 'state')), 'journal', MIB)
  const undo = (value: string, sizes: readonly number[]): Undo => ({
    ...UNDO,
    previous: value,
    images: sizes.map(size => ({
      path: '/etc/a',
      entry: { kind: 'file', mode: 0o644, bytes: Buffer.alloc(size, 'x') },
    })),
  })
  const head = JSON.stringify({ version: 1, undos: [undo('', [])] }).length
  const longest = 'x'.repeat(512 * 1024 - head - 1)
  const halves = [MIB / 2, MIB / 2]
  for (const [value, sizes] of [
    [longest, []],
    ['', halves],
  ] as const) {
    await journal.open([undo(value, sizes)])
    t.same(await journal.read(), [undo(value, sizes)])
  }
  for (const [message, value, sizes] of [
    ['its values are larger than 512 KiB', `${longest}x`, []],
    ['its files are larger than 1 MiB', '', [...halves, 1]],
  ] as const) {
    await t.rejects(journal.open([undo(value, sizes)]), { code: 'UNREADABLE', message })
    t.same(await journal.read(), [undo('', halves)], 'and the one before it stays')
  }
})

test('a change whose values the journal does not take is refused before it is begun', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const system = new System(root)
  const large = { ...change(setting(system, 'a')), next: 'x'.repeat(600_000) }
  t.match(await failureOf(transact(system, [large])), {
    setting: 'the journal',
    notUndone: [],
    cause: { message: 'its values are larger than 512 KiB' },
  })
  t.same(treeOf(root), before)
})

test('every kind of file is put back by the next start', async t => {
  const root = rootWithFiles(t)
  const at = (name: string) => join(root, 'etc', name)
  writeFileSync(at('bytes'), Buffer.from([0, 10, 0xff, 0xfe]), { mode: 0o600 })
  mkdirSync(at('folder'), { mode: 0o700 })
  symlinkSync('nowhere', at('dangling'))
  symlinkSync('loop', at('loop'))
  writeFileSync(at('large'), 'x'.repeat(1024 * 1024))
  const names = ['bytes', 'folder', 'dangling', 'loop', 'large', 'link', 'new']
  const before = treeOf(join(root, 'etc'))
  const system = new System(root)
  const settings = names.map(name => setting(system, name))
  await transactionsOf(system, settings).apply(settings.map(change))
  for (const name of names) t.equal(await system.readText(`/etc/${name}`), 'new')
  t.same((await transactionsOf(system, settings).recover())?.notUndone, [])
  t.same(treeOf(join(root, 'etc')), before)
})

test('an interface that is not connected at the next start has its file put back, too', async t => {
  const root = deviceRoot(t)
  mkdirSync(join(root, 'state'))
  const file = '/etc/systemd/network/10-receiverd-eth9.network'
  const system = new System(root)
  const settings = [network(system)]
  await settings[0]?.unavailable?.()
  const value = await settings[0]?.read()
  const undo = { setting: 'network', previous: value, next: value }
  const journal = (path: string) => journalOf([{ ...undo, images: [{ path, entry: FILE }] }])
  writeFileSync(join(root, 'state/journal'), journal(file))
  t.same(await transactionsOf(system, settings).recover(), { settings: ['network'], notUndone: [] })
  t.equal(readFileSync(join(root, file), 'utf8'), 'was')
  for (const path of [
    '/etc/systemd/network/10-other.network',
    '/etc/systemd/network/10-receiverd-/../../passwd.network',
    `/x${file}`,
    `${file}\n`,
  ]) {
    writeFileSync(join(root, 'state/journal'), journal(path))
    await t.rejects(transactionsOf(system, settings).recover(), { message: /does not belong to its setting/ }, path)
  }
})
