import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Test, test } from 'tap'
import * as Type from 'typebox/type'
import { errorCode, HalError } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { System } from '../../../hal/os/system.ts'
import type { Setting } from '../../../hal/setting.ts'
import { Journal } from '../../../hal/transaction/journal.ts'
import { type Change, TransactionFailed, Transactions } from '../../../hal/transaction/transaction.ts'
import { intercepted, stoppingAt, systemError } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import { treeOf } from '../support/tree.ts'

function newRoot(t: Test): string {
  const root = mkdtempSync(join(tmpdir(), 'receiverd-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  for (const name of ['etc', 'state']) mkdirSync(join(root, name))
  for (const name of ['a', 'b']) writeFileSync(join(root, 'etc', name), 'old', { mode: 0o640 })
  symlinkSync('b', join(root, 'etc/link'))
  return root
}

/** A setting that keeps its value in one file, and fails when it is told to. */
function setting(
  system: System,
  name: string,
  steps: string[],
  fails: (step: string) => boolean = () => false,
): Setting {
  const step = (what: string, value: unknown) => {
    steps.push(`${what} ${name} ${value}`)
    if (fails(`${what} ${value}`)) throw new HalError('COMMAND_FAILED', `${what} failed`)
  }
  return {
    name,
    schema: Type.String(),
    files: [`/etc/${name}`],
    read: async () => (await system.readText(`/etc/${name}`)) ?? '',
    fallback: async () => '',
    async write(value) {
      const isChanged = await system.writeAtomic(`/etc/${name}`, String(value))
      step('write', value)
      return isChanged
    },
    activate: async value => step('activate', value),
  }
}

/** Applies and keeps, with a journal beside the root. */
async function transact(system: System, changes: readonly Change[]): Promise<void> {
  const transactions = transactionsOf(
    system,
    changes.map(change => change.setting),
  )
  await transactions.apply(changes)
  await transactions.keep()
}

function transactionsOf(system: System, settings: readonly Setting[], state = new Files(`${system.root}/state`)) {
  return new Transactions(system, settings, new Journal(state))
}

const change = (setting: Setting): Change => ({ setting, previous: 'old', next: 'new' })

async function failureOf(done: Promise<void>): Promise<TransactionFailed> {
  const error = await done.then(
    () => undefined,
    error => error,
  )
  if (error instanceof TransactionFailed) return error
  throw new Error('expected TransactionFailed', { cause: error })
}

test('changes are made in their order', async t => {
  const root = newRoot(t)
  const steps: string[] = []
  const system = runningAt(root)
  await transact(
    system,
    ['a', 'link', 'c'].map(name => change(setting(system, name, steps))),
  )
  t.same(
    steps,
    ['a', 'link', 'c'].flatMap(name => [`write ${name} new`, `activate ${name} new`]),
  )
  for (const name of ['a', 'b', 'c']) t.equal(readFileSync(join(root, 'etc', name), 'utf8'), 'new')
})

test('under another root nothing is activated', async t => {
  const root = newRoot(t)
  const steps: string[] = []
  const system = new System(root)
  await transact(system, [change(setting(system, 'a', steps))])
  t.same(steps, ['write a new'])
})

test('the one that fails and those before it are undone in reverse, and those after it not begun', async t => {
  for (const failing of ['write new', 'activate new']) {
    const root = newRoot(t)
    const before = treeOf(root)
    const steps: string[] = []
    const system = runningAt(root)
    const changes = [
      change(setting(system, 'a', steps)),
      change(setting(system, 'link', steps)),
      change(setting(system, 'c', steps, step => step === failing)),
      change(setting(system, 'd', steps)),
    ]
    const error = await failureOf(transact(system, changes))
    t.match(error, { setting: 'c', notUndone: [], cause: { message: /failed/ } })
    t.same(
      steps.slice(steps.indexOf(`${failing.replace(' ', ' c ')}`) + 1),
      ['activate c old', 'activate link old', 'activate a old'],
      'the old values are activated, the last one first',
    )
    t.notOk(steps.some(step => step.includes(' d ')))
    t.same(treeOf(root), before, 'and not a byte is different')
  }
})

test('a setting whose files cannot be captured is not begun', async t => {
  const root = newRoot(t)
  const steps: string[] = []
  const fs = intercepted(
    call => call.proceed(),
    path => {
      if (path.endsWith('/b')) throw systemError('EIO')
    },
  )
  const system = new System(root, { fs })
  const before = treeOf(root)
  const error = await failureOf(
    transact(
      system,
      ['a', 'link'].map(name => change(setting(system, name, steps))),
    ),
  )
  t.match(error, { setting: 'link', notUndone: [] })
  t.equal(errorCode(error.cause), 'EIO')
  t.same(steps, [], 'nor is any other')
  t.same(treeOf(root), before)
})

test('what cannot be undone is named, and the rest is undone all the same', async t => {
  const root = newRoot(t)
  const steps: string[] = []
  let isBroken = false
  const fs = intercepted(call => {
    if (isBroken && call.name === 'rename' && call.path.endsWith('/b')) throw systemError('EIO')
    return call.proceed()
  })
  const system = runningAt(root, { fs })
  const error = await failureOf(
    transact(system, [
      change(setting(system, 'a', steps, step => step === 'activate old')),
      change(setting(system, 'link', steps)),
      change(setting(system, 'c', steps)),
      change(
        setting(system, 'd', steps, () => {
          isBroken = true
          return true
        }),
      ),
    ]),
  )
  t.same(error.notUndone, ['d', 'link', 'a'], 'a command, a file')
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'old')
  t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'new')
  t.throws(() => readFileSync(join(root, 'etc/c')), { code: 'ENOENT' })
})

test('a setting that cannot be written is not', async t => {
  const root = newRoot(t)
  const before = treeOf(root)
  const system = new System(root)
  const { write: _, ...readOnly } = setting(system, 'a', [])
  await transact(system, [change(readOnly)])
  t.same(treeOf(root), before)
})

test('what was applied and not kept is undone by the next start, and once', async t => {
  const root = newRoot(t)
  const before = treeOf(root)
  const steps: string[] = []
  const system = runningAt(root)
  const settings = ['a', 'link', 'c'].map(name => setting(system, name, steps))
  await transactionsOf(system, settings).apply(settings.map(change))
  t.notSame(treeOf(root), before)
  steps.length = 0
  const next = transactionsOf(system, settings)
  t.same(await next.recover(), { settings: ['c', 'link', 'a'], notUndone: [] })
  t.same(steps, ['activate c old', 'activate link old', 'activate a old'])
  t.same(treeOf(root), before)
  t.equal(await next.recover(), undefined)
})

test('without a durable journal nothing is begun', async t => {
  const root = newRoot(t)
  const before = treeOf(root)
  const steps: string[] = []
  const system = new System(root)
  const settings = [setting(system, 'a', steps)]
  const state = new Files(
    `${root}/state`,
    intercepted(call => {
      if (call.name === 'file.sync') throw systemError('ENOSPC')
      return call.proceed()
    }),
  )
  const error = await failureOf(transactionsOf(system, settings, state).apply(settings.map(change)))
  t.match(error, { setting: 'the journal', notUndone: [] })
  t.equal(errorCode(error.cause), 'ENOSPC')
  t.same(steps, [])
  t.same(treeOf(root), before)
})

test('what cannot be kept is undone: the next start would undo it', async t => {
  const root = newRoot(t)
  const before = treeOf(root)
  const system = new System(root)
  const settings = [setting(system, 'a', [])]
  const state = new Files(
    `${root}/state`,
    intercepted(call => {
      if (call.name === 'unlink') throw systemError('EROFS')
      return call.proceed()
    }),
  )
  const transactions = transactionsOf(system, settings, state)
  await transactions.apply(settings.map(change))
  const error = await failureOf(transactions.keep())
  t.match(error, { setting: 'the journal', notUndone: [] })
  rmSync(`${root}/state/journal`)
  t.same(treeOf(root), before)
})

test('what could not be undone is tried again by each start, whatever else is changed in between', async t => {
  const root = newRoot(t)
  const system = runningAt(root)
  let isBroken = true
  const settings = [setting(system, 'a', []), setting(system, 'b', [], step => isBroken && step === 'activate old')]
  await transactionsOf(system, settings).apply(settings.map(change))
  const second = transactionsOf(system, settings)
  t.same(await second.recover(), { settings: ['b', 'a'], notUndone: ['b'] })
  await second.apply(settings.slice(0, 1).map(change))
  await second.keep()
  isBroken = false
  t.same(await transactionsOf(system, settings).recover(), { settings: ['b'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'new', 'and nothing else is undone')
  t.equal(await transactionsOf(system, settings).recover(), undefined)
})

test('however often the undo of a setting fails, the journal goes back to what stood there first', async t => {
  const root = newRoot(t)
  const before = treeOf(root)
  const system = runningAt(root)
  let isBroken = true
  const settings = [setting(system, 'a', [], step => isBroken && step.startsWith('activate'))]
  const transactions = transactionsOf(system, settings)
  for (let n = 0; n < 3; n++) t.match(await failureOf(transactions.apply(settings.map(change))), { notUndone: ['a'] })
  isBroken = false
  t.same(await transactionsOf(system, settings).recover(), { settings: ['a'], notUndone: [] })
  t.same(treeOf(root), before)
})

test('what was set anew since is not undone', async t => {
  const root = newRoot(t)
  const system = runningAt(root)
  let isBroken = true
  const settings = [setting(system, 'a', [], step => isBroken && step === 'activate old')]
  await transactionsOf(system, settings).apply(settings.map(change))
  const second = transactionsOf(system, settings)
  t.match(await second.recover(), { notUndone: ['a'] })
  isBroken = false
  await second.apply(settings.map(change))
  t.equal((await transactionsOf(system, settings).recover())?.settings.length, 2, 'unless that was not kept')
  await second.apply(settings.map(change))
  await second.keep()
  t.equal(await transactionsOf(system, settings).recover(), undefined)
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'new')
})

test('a change that is whole by itself has no journal; every other has one before its first write', async t => {
  const wholeOf = (system: System, name: string, rest: Partial<Setting> = {}): Setting => {
    const { activate: _, ...whole } = setting(system, name, [])
    return { ...whole, ...rest }
  }
  const activate = async () => undefined
  for (const [what, isJournalled, isKept, names, rest] of [
    ['one file', false, true, ['a'], {}],
    ['a file that is new', false, true, ['c'], {}],
    ['one file, on trial', true, false, ['a'], {}],
    ['a file and its link', true, true, ['link'], {}],
    ['a file in the place of a folder', true, true, ['folder'], {}],
    ['two settings', true, true, ['a', 'b'], {}],
    ['two files', true, true, ['a'], { files: ['/etc/a', '/etc/b'] }],
    ['something to activate', true, true, ['a'], { activate }],
  ] as const) {
    const root = newRoot(t)
    mkdirSync(join(root, 'etc/folder'))
    const calls: string[] = []
    const fs = intercepted(call => {
      if (call.changes) calls.push(call.path.includes('/state/') ? 'journal' : 'file')
      return call.proceed()
    })
    const system = runningAt(root, { fs })
    const settings = names.map(name => wholeOf(system, name, rest))
    const transactions = transactionsOf(system, settings, new Files(`${root}/state`, fs))
    // The first one that is kept looks for a journal of an earlier run.
    await transactions.keep()
    calls.length = 0
    await transactions.apply(settings.map(change), isKept)
    await transactions.keep()
    t.equal(calls[0], isJournalled ? 'journal' : 'file', what)
    t.equal(calls.includes('journal'), isJournalled)
    for (const name of names) t.equal(readFileSync(join(root, 'etc', name), 'utf8'), 'new')
    t.equal(await transactionsOf(system, settings).recover(), undefined, 'nothing is left')
  }
})

test('without a journal, too, what fails is undone', async t => {
  for (const isBroken of [false, true]) {
    const root = newRoot(t)
    const before = treeOf(root)
    let renames = 0
    const fs = intercepted(call => {
      if (call.name === 'rename' && call.path.endsWith('/a') && ++renames === 2 && isBroken) throw systemError('EIO')
      return call.proceed()
    })
    const system = new System(root, { fs })
    const { activate: _, ...failing } = setting(system, 'a', [], step => step === 'write new')
    const transactions = transactionsOf(system, [failing])
    const error = await failureOf(transactions.apply([change(failing)], true))
    t.match(error, { setting: 'a', notUndone: isBroken ? ['a'] : [] })
    // What could not be undone has its journal now, for the next start.
    t.match(
      await transactionsOf(system, [failing]).recover(),
      isBroken ? { settings: ['a'], notUndone: [] } : undefined,
    )
    t.same(treeOf(root), before)
  }
})

test('a change without a journal leaves that of what could not be undone before', async t => {
  const root = newRoot(t)
  const system = runningAt(root)
  let isBroken = true
  const b = setting(system, 'b', [], step => isBroken && step.startsWith('activate'))
  const { activate: _, ...a } = setting(system, 'a', [])
  const transactions = transactionsOf(system, [a, b])
  t.match(await failureOf(transactions.apply([change(b)])), { notUndone: ['b'] })
  await transactions.apply([change(a)], true)
  await transactions.keep()
  isBroken = false
  t.same(await transactionsOf(system, [a, b]).recover(), { settings: ['b'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'new')
})

test('the files of a setting that is no more are put back', async t => {
  const root = newRoot(t)
  const before = treeOf(root)
  const system = runningAt(root)
  const settings = ['a', 'c'].map(name => setting(system, name, []))
  await transactionsOf(system, settings).apply(settings.map(change))
  t.same(await transactionsOf(system, []).recover(), { settings: ['c', 'a'], notUndone: [] })
  t.same(treeOf(root), before)
})

test('a journal that was removed is gone for good before another change goes without', async t => {
  const root = newRoot(t)
  const journal = join(root, 'state/journal')
  /** What a power cut would leave of it: its folder is durable as it was synced last. */
  let isDurable = false
  let isBroken = true
  const state = new Files(
    `${root}/state`,
    intercepted(call => {
      if (call.name !== 'file.sync' || call.path !== dirname(journal)) return call.proceed()
      if (isBroken && isDurable) {
        isBroken = false
        throw systemError('EIO')
      }
      isDurable = existsSync(journal)
      return call.proceed()
    }),
  )
  const system = new System(root)
  const { activate: _, ...a } = setting(system, 'a', [])
  const b = setting(system, 'b', [])
  const transactions = transactionsOf(system, [a, b], state)
  await transactions.apply([change(a), change(b)])
  t.match(await failureOf(transactions.keep()), { setting: 'the journal', notUndone: [] })
  await transactions.apply([change(a)], true)
  await transactions.keep()
  t.notOk(isDurable, 'it does not come back to undo what was kept since')
})

test('a file that is overwritten, as one that is mounted, is whole after a failure and a stop in its undo', async t => {
  const text = 'of some length, so that half of it is seen'
  for (const refused of ['file.write', 'file.truncate', 'file.sync'])
    for (let at = 1; at <= 40; at++) {
      const root = newRoot(t)
      const path = join(root, 'etc/a')
      writeFileSync(path, text)
      let hasFailed = false
      const fs = stoppingAt(at, call => {
        if (call.path !== path) return
        if (call.name === 'rename') throw systemError('EBUSY')
        if (hasFailed || call.name !== refused) return
        hasFailed = true
        call.tear()
        throw systemError('EIO')
      })
      const system = new System(root, { fs })
      const { activate: _, ...a } = setting(system, 'a', [])
      const transactions = transactionsOf(system, [a], new Files(`${root}/state`, fs))
      await t.rejects(transactions.apply([{ setting: a, previous: text, next: 'new' }], true))
      const next = new System(root)
      for (const path of a.files) await next.recover(path)
      await transactionsOf(next, [setting(next, 'a', [])]).recover()
      const standing = readFileSync(path, 'utf8')
      t.ok(['new', text].includes(standing), `${refused} fails, stopped at call ${at}: ${standing}`)
    }
})

test('what stands as it was is not touched by an undo: it may be on a read-only file system', async t => {
  const root = newRoot(t)
  mkdirSync(join(root, 'usr'))
  for (const name of ['old', 'new']) writeFileSync(join(root, 'usr', name), name)
  symlinkSync('../usr/old', join(root, 'etc/linked'))
  const before = treeOf(root)
  const fs = intercepted(call => {
    if (call.changes && call.path.startsWith(join(root, 'usr'))) throw systemError('EROFS')
    return call.proceed()
  })
  const system = new System(root, { fs })
  const linked: Setting = {
    ...setting(system, 'linked', []),
    async write(value) {
      await system.writeLink('/etc/linked', `../usr/${value}`)
      throw new HalError('COMMAND_FAILED', 'write failed')
    },
  }
  t.match(await failureOf(transact(system, [change(linked)])), { setting: 'linked', notUndone: [] })
  t.same(treeOf(root), before)
})
