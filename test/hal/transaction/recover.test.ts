/** A start that finds the journal of an earlier run. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { HalError } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import type { System } from '../../../hal/os/system.ts'
import type { Setting } from '../../../hal/setting.ts'
import { intercepted, systemError, unreadable } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import { change, failureOf, passive, rootWithFiles, setting, transactionsOf } from '../support/transactions.ts'
import { treeOf } from '../support/tree.ts'

/** A setting whose value is the text of two files. */
function pair(system: System): Setting {
  const [a, b] = [passive(system, 'a'), passive(system, 'b')]
  return {
    ...a,
    name: 'pair',
    files: [...a.files, ...b.files],
    read: async () => `${await a.read()} ${await b.read()}`,
    async write(value) {
      const [one, two] = String(value).split(' ')
      const isChanged = [await a.write?.(one), await b.write?.(two)]
      return isChanged.includes(true)
    },
  }
}

test('a change that was applied and not kept is undone by the next start, once', async t => {
  const root = rootWithFiles(t)
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

test('each start tries again what could not be undone, whatever was changed in between', async t => {
  const root = rootWithFiles(t)
  const system = runningAt(root)
  let isBroken = true
  const settings = [setting(system, 'a'), setting(system, 'b', [], step => isBroken && step === 'activate old')]
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

test('however often the undo of a setting fails, the journal goes back to what was there first', async t => {
  const root = rootWithFiles(t)
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

test('settings that were set again since are not undone', async t => {
  const root = rootWithFiles(t)
  const system = runningAt(root)
  let isBroken = true
  const settings = ['a', 'b', 'c'].map(name => setting(system, name, [], step => isBroken && step === 'activate old'))
  const [left, set] = [settings.slice(0, 2), settings.slice(1)]
  await transactionsOf(system, settings).apply(left.map(change))
  const second = transactionsOf(system, settings)
  t.match(await second.recover(), { notUndone: ['b', 'a'] })
  isBroken = false
  await second.apply(left.map(change))
  t.same(await transactionsOf(system, settings).recover(), { settings: ['b', 'a'], notUndone: [] }, 'unless not kept')
  await second.apply(set.map(change))
  await second.keep()
  t.same(await transactionsOf(system, settings).recover(), { settings: ['a'], notUndone: [] })
  t.same(
    ['a', 'b', 'c'].map(name => readFileSync(join(root, 'etc', name), 'utf8')),
    ['old', 'new', 'new'],
  )
})

test('a file that could not be put back is not confirmed by a change of another one of its setting', async t => {
  for (const [what, next, one] of [
    ['another value', 'trial new', 'old'],
    ['the value that could not be taken back', 'trial old', 'trial'],
    ['a value of its own', 'other old', 'other'],
  ] as const)
    for (const undoneBy of ['retry', 'recover'] as const) {
      const root = rootWithFiles(t)
      let isBroken = false
      const fs = intercepted(({ name, path, proceed }) => {
        if (isBroken && name === 'rename' && path.endsWith('/a')) throw systemError('ENOSPC')
        return proceed()
      })
      const system = runningAt(root, { fs })
      const setting = pair(system)
      const transactions = transactionsOf(system, [setting])
      await transactions.apply([{ setting, previous: 'old old', next: 'trial old' }])
      isBroken = true
      t.same((await transactions.undo()).notUndone, ['pair'])
      isBroken = false
      await transactions.apply([{ setting, previous: 'trial old', next }])
      await transactions.keep()
      await (undoneBy === 'retry' ? transactions : transactionsOf(system, [setting]))[undoneBy]()
      const [, two] = next.split(' ')
      t.equal(await setting.read(), `${one} ${two}`, `${what}, ${undoneBy}`)
      t.notOk(existsSync(join(root, 'state/journal')), what)
    }
})

test('a file of two settings that was changed through one of them is not put back for the other', async t => {
  for (const undoneBy of ['retry', 'recover'] as const) {
    const root = rootWithFiles(t)
    const system = runningAt(root)
    let isBroken = true
    const own = setting(system, 'a', [], step => isBroken && step === 'activate old')
    const a: Setting = { ...own, files: [...own.files, '/etc/b'] }
    const b = setting(system, 'b')
    const transactions = transactionsOf(system, [a, b])
    await transactions.apply([change(a)])
    t.same((await transactions.undo()).notUndone, ['a'])
    await transactions.apply([change(b)])
    await transactions.keep()
    isBroken = false
    const next = undoneBy === 'retry' ? transactions : transactionsOf(system, [a, b])
    t.match(await next[undoneBy](), { settings: ['a'], notUndone: [] }, 'the rest is undone')
    t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'old')
    t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'new', undoneBy)
    t.notOk(existsSync(join(root, 'state/journal')))
  }
})

test('a setting whose only file was changed through another setting is no longer undone', async t => {
  const root = rootWithFiles(t)
  const system = runningAt(root)
  const b = setting(system, 'b')
  const a = { ...setting(system, 'b', [], step => step === 'activate old'), name: 'a' }
  const transactions = transactionsOf(system, [a, b])
  await transactions.apply([change(a)])
  t.same((await transactions.undo()).notUndone, ['a'])
  await transactions.apply([change(b)])
  await transactions.keep()
  t.equal(await transactionsOf(system, [a, b]).recover(), undefined)
  t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'new')
})

test('a file that is as before is not put into use again once its setting has been changed', async t => {
  const root = rootWithFiles(t)
  const system = runningAt(root)
  let isBroken = true
  const steps: unknown[] = []
  const setting: Setting = {
    ...pair(system),
    async activate(value) {
      if (isBroken && value === 'old old') throw new HalError('COMMAND_FAILED', 'activate failed')
      steps.push(value)
    },
  }
  const transactions = transactionsOf(system, [setting])
  await transactions.apply([{ setting, previous: 'old old', next: 'trial old' }])
  t.same((await transactions.undo()).notUndone, ['pair'])
  isBroken = false
  steps.length = 0
  await transactions.apply([{ setting, previous: 'old old', next: 'old new' }])
  await transactions.keep()
  t.same(transactions.left, [])
  t.equal(await transactionsOf(system, [setting]).recover(), undefined)
  t.same(steps, ['old new'])
})

test('a setting whose earlier change could not be undone goes back to before that, and stays there', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  let renames = 0
  const fs = intercepted(({ name, path, proceed }) => {
    // The first undo of the first change.
    if (name === 'rename' && path.endsWith('/a') && ++renames === 2) throw systemError('ENOSPC')
    return proceed()
  })
  const system = runningAt(root, { fs })
  const files = ['/etc/a']
  const a: Setting = { ...setting(system, 'a', [], step => step === 'activate new'), files }
  const first = transactionsOf(system, [a])
  t.match(await failureOf(first.apply([change(a)])), { notUndone: ['a'] })
  // It has this file from now on.
  files.push('/etc/c')
  await first.apply([{ setting: a, previous: 'new', next: 'newer' }])
  writeFileSync(join(root, 'etc/c'), 'newer')

  const second = transactionsOf(system, [a])
  t.same(await second.recover(), { settings: ['a'], notUndone: [] })
  await second.retry()
  t.same(treeOf(root), before)
})

test('what could not be undone is tried again, but not once somebody else has changed it', async t => {
  const root = rootWithFiles(t)
  const steps: string[] = []
  const system = runningAt(root)
  let isBroken = true
  const settings = ['a', 'b'].map(name => setting(system, name, steps, step => isBroken && step === 'activate old'))
  const transactions = transactionsOf(system, settings)
  await transactions.apply(settings.map(change))
  t.same((await transactions.undo()).notUndone, ['b', 'a'])
  t.same(await transactions.retry(), { settings: ['b', 'a'], notUndone: ['b', 'a'], changed: [] })
  t.same(transactions.left, ['a', 'b'])
  writeFileSync(join(root, 'etc/b'), 'by hand')
  isBroken = false
  steps.length = 0
  t.same(await transactions.retry(), { settings: ['a'], notUndone: [], changed: ['b'] })
  t.same(steps, ['activate a old'])
  t.same(transactions.left, [])
  t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'by hand')
  t.equal(await transactionsOf(system, settings).recover(), undefined)
})

test('what somebody else has changed stays, whatever else is undone in between', async t => {
  for (const [name, notUndone] of [
    ['a', []],
    ['b', []],
    ['b', ['b']],
  ] as const) {
    const root = rootWithFiles(t)
    const system = runningAt(root)
    let failing: readonly string[] = ['a']
    const of = (name: string) => setting(system, name, [], step => failing.includes(name) && step === 'activate old')
    const [a, b] = [of('a'), of('b')]
    const transactions = transactionsOf(system, [a, b])
    await transactions.apply([change(a)])
    t.same((await transactions.undo()).notUndone, ['a'])
    writeFileSync(join(root, 'etc/a'), 'by hand')
    failing = notUndone
    await transactions.apply([change(name === 'a' ? a : b)])
    t.same(await transactions.undo(), { settings: [name], notUndone })
    failing = []
    t.same(await transactions.retry(), { settings: notUndone, notUndone: [], changed: ['a'] })
    t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'by hand')
    t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'old')
  }
})

test('what no file holds is put back, too', async t => {
  const root = rootWithFiles(t)
  const steps: string[] = []
  const system = runningAt(root)
  const { write: _, ...volume } = { ...setting(system, 'volume', steps), files: [] }
  await transactionsOf(system, [volume]).apply([change(volume)])
  steps.length = 0
  t.same(await transactionsOf(system, [volume]).recover(), { settings: ['volume'], notUndone: [] })
  t.same(steps, ['activate volume old'])
})

test('a journal that could not be read is not replaced by a change', async t => {
  for (const isKept of [false, true]) {
    const root = rootWithFiles(t)
    const system = runningAt(root)
    const settings = [passive(system, 'a'), passive(system, 'b')]
    await transactionsOf(system, settings).apply(settings.slice(0, 1).map(change))
    let isFailing = true
    const fs = unreadable(path => isFailing && path.endsWith('/journal'))
    const transactions = transactionsOf(system, settings, new Files(`${root}/state`, fs))
    await t.rejects(transactions.recover(), { code: 'EIO' })
    t.equal(transactions.isUnread, true)
    const error = await failureOf(transactions.apply(settings.slice(1).map(change), isKept))
    t.match(error, { setting: 'the journal', notUndone: [], cause: { code: 'EIO' } })
    t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'old')
    isFailing = false
    t.same(await transactions.recover(), { settings: ['a'], notUndone: [] })
    t.equal(transactions.isUnread, false)
    await transactions.apply(settings.slice(1).map(change), isKept)
    await transactions.keep()
    t.equal(await transactionsOf(system, settings).recover(), undefined)
    t.same(
      ['a', 'b'].map(name => readFileSync(join(root, 'etc', name), 'utf8')),
      ['old', 'new'],
    )
  }
})

test('a failed undo is not forgotten while the journal cannot be written', async t => {
  const root = rootWithFiles(t)
  let refused: readonly string[] = []
  const fs = intercepted(({ changes, path, proceed }) => {
    if (changes && refused.some(name => path.includes(name))) throw systemError('EROFS')
    return proceed()
  })
  const system = runningAt(root, { fs })
  const settings = ['a', 'b'].map(name => setting(system, name))
  const transactions = transactionsOf(system, settings, new Files(`${root}/state`, fs))
  await transactions.apply(settings.map(change))
  refused = ['/etc/.a.', '/state/']
  t.same(await transactions.undo(), { settings: ['b', 'a'], notUndone: ['a'] })
  refused = []
  await transactions.apply(settings.slice(1).map(change))
  await transactions.keep()
  t.same(await transactionsOf(system, settings).recover(), { settings: ['a'], notUndone: [] })
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'old')
  t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'new')
})
