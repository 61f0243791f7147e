/** Changes that cannot be torn, and so need no journal. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'tap'
import { Files } from '../../../hal/files/files.ts'
import { System } from '../../../hal/os/system.ts'
import { intercepted, stoppingAt, systemError } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import { change, failureOf, passive, rootWithFiles, setting, transactionsOf } from '../support/transactions.ts'
import { treeOf } from '../support/tree.ts'

test('a change that cannot be torn has no journal; every other one has it before its first write', async t => {
  const activate = async () => undefined
  for (const [what, isJournalled, isKept, names, rest] of [
    ['one file', false, true, ['a'], {}],
    ['a new file', false, true, ['c'], {}],
    ['one file, on trial', true, undefined, ['a'], {}],
    ['a file and its link', true, true, ['link'], {}],
    ['a file in place of a folder', true, true, ['folder'], {}],
    ['two settings', true, true, ['a', 'b'], {}],
    ['two files', true, true, ['a'], { files: ['/etc/a', '/etc/b'] }],
    ['something to activate', true, true, ['a'], { activate }],
    ['what no file holds', true, true, ['volume'], {}],
    ['a file, and what no file holds', true, true, ['a', 'volume'], {}],
  ] as const) {
    const root = rootWithFiles(t)
    mkdirSync(join(root, 'etc/folder'))
    const calls: string[] = []
    const fs = intercepted(call => {
      if (call.changes) calls.push(call.path.includes('/state/') ? 'journal' : 'file')
      return call.proceed()
    })
    const system = runningAt(root, { fs })
    const { write: _, ...volume } = { ...passive(system, 'volume'), files: [], activate }
    const settings = names.map(name => (name === 'volume' ? volume : { ...passive(system, name), ...rest }))
    const transactions = transactionsOf(system, settings, new Files(`${root}/state`, fs))
    // The first `keep` also removes a journal of an earlier run.
    await transactions.keep()
    calls.length = 0
    await transactions.apply(settings.map(change), isKept)
    await transactions.keep()
    t.equal(calls[0], isJournalled ? 'journal' : 'file', what)
    t.equal(calls.includes('journal'), isJournalled)
    for (const path of settings.flatMap(({ files }) => files.slice(0, 1)))
      t.equal(readFileSync(join(root, path), 'utf8'), 'new')
    t.equal(await transactionsOf(system, settings).recover(), undefined, 'nothing is left')
  }
})

test('one file without activation costs two fsyncs', async t => {
  const root = rootWithFiles(t)
  let syncs = 0
  const fs = intercepted(call => {
    if (call.name === 'file.sync') syncs++
    return call.proceed()
  })
  const system = runningAt(root, { fs })
  const a = passive(system, 'a')
  const transactions = transactionsOf(system, [a], new Files(`${root}/state`, fs))
  // The first `keep` also removes a journal of an earlier run.
  await transactions.keep()
  syncs = 0
  await transactions.apply([change(a)], true)
  await transactions.keep()
  t.equal(syncs, 2, 'of the file and of its folder')
})

test('without a journal too, a failed change is undone', async t => {
  for (const isBroken of [false, true]) {
    const root = rootWithFiles(t)
    const before = treeOf(root)
    let renames = 0
    const fs = intercepted(call => {
      if (call.name === 'rename' && call.path.endsWith('/a') && ++renames === 2 && isBroken) throw systemError('EIO')
      return call.proceed()
    })
    const system = new System(root, { fs })
    const failing = passive(system, 'a', [], step => step === 'write new')
    const transactions = transactionsOf(system, [failing])
    const error = await failureOf(transactions.apply([change(failing)], true))
    t.match(error, { setting: 'a', notUndone: isBroken ? ['a'] : [] })
    // The failed undo is in a journal now, for the next start.
    t.match(
      await transactionsOf(system, [failing]).recover(),
      isBroken ? { settings: ['a'], notUndone: [] } : undefined,
    )
    t.same(treeOf(root), before)
  }
})

test('a change without a journal keeps the journal of what could not be undone before', async t => {
  const root = rootWithFiles(t)
  const system = runningAt(root)
  let isBroken = true
  const b = setting(system, 'b', [], step => isBroken && step.startsWith('activate'))
  const a = passive(system, 'a')
  const transactions = transactionsOf(system, [a, b])
  t.match(await failureOf(transactions.apply([change(b)])), { notUndone: ['b'] })
  await transactions.apply([change(a)], true)
  await transactions.keep()
  isBroken = false
  t.same(await transactionsOf(system, [a, b]).recover(), { settings: ['b'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'new')
})

test('the removal of a journal is durable before the next change goes without one', async t => {
  const root = rootWithFiles(t)
  const journal = join(root, 'state/journal')
  /** Whether it would be there after a power cut: its folder is as it was last synced. */
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
  const a = passive(system, 'a')
  const b = setting(system, 'b')
  const transactions = transactionsOf(system, [a, b], state)
  await transactions.apply([change(a), change(b)])
  t.match(await failureOf(transactions.keep()), { setting: 'the journal', notUndone: [] })
  await transactions.apply([change(a)], true)
  await transactions.keep()
  t.notOk(isDurable, 'it does not come back to undo what was kept since')
})

test('a mounted file, which is overwritten in place, is whole after a failure and a stop in its undo', async t => {
  const text = 'of some length, so that half of it is seen'
  for (const refused of ['file.write', 'file.truncate', 'file.sync'])
    for (let at = 1; at <= 40; at++) {
      const root = rootWithFiles(t)
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
      const a = passive(system, 'a')
      const transactions = transactionsOf(system, [a], new Files(`${root}/state`, fs))
      await t.rejects(transactions.apply([{ setting: a, previous: text, next: 'new' }], true))
      const next = new System(root)
      for (const path of a.files) await next.recover(path)
      await transactionsOf(next, [setting(next, 'a')]).recover()
      const standing = readFileSync(path, 'utf8')
      t.ok(['new', text].includes(standing), `${refused} fails, stopped at call ${at}: ${standing}`)
    }
})
