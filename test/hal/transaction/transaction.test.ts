import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { errorCode, HalError } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { System } from '../../../hal/os/system.ts'
import type { Setting } from '../../../hal/setting.ts'
import { intercepted, systemError, unreadable } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import { change, failureOf, rootWithFiles, setting, transact, transactionsOf } from '../support/transactions.ts'
import { treeOf } from '../support/tree.ts'

test('changes are made in their order', async t => {
  const root = rootWithFiles(t)
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
  const root = rootWithFiles(t)
  const steps: string[] = []
  const system = new System(root)
  await transact(system, [change(setting(system, 'a', steps))])
  t.same(steps, ['write a new'])
})

test('a failed change and those before it are undone in reverse order, and those after it are not begun', async t => {
  for (const failing of ['write new', 'activate new']) {
    const root = rootWithFiles(t)
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
    t.match(error, { message: 'c refused', setting: 'c', notUndone: [], cause: { message: /failed/ } })
    t.same(
      steps.slice(steps.indexOf(`${failing.replace(' ', ' c ')}`) + 1),
      ['activate c old', 'activate link old', 'activate a old'],
      'the old values are activated, the last one first',
    )
    t.notOk(steps.some(step => step.includes(' d ')))
    t.same(treeOf(root), before, 'and not a byte is different')
  }
})

test('if the files of a setting cannot be captured, nothing is begun', async t => {
  const root = rootWithFiles(t)
  const steps: string[] = []
  const fs = unreadable(path => path.endsWith('/b'))
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
  t.same(steps, [], 'not of any setting')
  t.same(treeOf(root), before)
})

test('a change that is over is not undone once more with a later one that fails', async t => {
  for (const end of ['keep', 'undo'] as const) {
    const root = rootWithFiles(t)
    let isFailing = false
    const fs = unreadable(path => isFailing && path.endsWith('/b'))
    const system = runningAt(root, { fs })
    const steps: string[] = []
    const settings = ['a', 'b'].map(name => setting(system, name, steps))
    const transactions = transactionsOf(system, settings)
    await transactions.apply(settings.slice(0, 1).map(change))
    await transactions[end]()
    writeFileSync(join(root, 'etc/a'), 'by hand')
    isFailing = true
    steps.length = 0
    t.match(await failureOf(transactions.apply(settings.slice(1).map(change))), { setting: 'b', notUndone: [] }, end)
    t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'by hand')
    t.same(steps, [])
  }
})

test('a setting is told whether its files have changed, and the caller whether any has', async t => {
  const root = rootWithFiles(t)
  const system = runningAt(root)
  const told: boolean[] = []
  const activate = async (_value: unknown, _previous: unknown, isRewritten: boolean) => void told.push(isRewritten)
  const [a, b] = ['a', 'b'].map(name => ({ ...setting(system, name), activate })) as [Setting, Setting]
  const { write: _, ...volume } = { ...a, name: 'volume', files: [] }
  const transactions = transactionsOf(system, [a, b, volume])
  for (const [next, changed, isChanged, are] of [
    ['old', [a, b], false, [false, false]],
    ['new', [a], true, [true]],
    ['new', [a, b], true, [false, true]],
    ['new', [b, volume], false, [false, false]],
  ] as const) {
    told.length = 0
    t.equal(await transactions.apply(changed.map(setting => ({ setting, previous: 'old', next }))), isChanged)
    t.same(told, are)
    await transactions.keep()
  }
})

test('settings that cannot be undone are named, and the rest is undone', async t => {
  const root = rootWithFiles(t)
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
  t.same(error.notUndone, ['d', 'link', 'a'], 'settings with a failed command, and the one with a failed file')
  t.equal(readFileSync(join(root, 'etc/a'), 'utf8'), 'old')
  t.equal(readFileSync(join(root, 'etc/b'), 'utf8'), 'new')
  t.throws(() => readFileSync(join(root, 'etc/c')), { code: 'ENOENT' })
})

test('a setting that cannot be written is not written', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const system = new System(root)
  const { write: _, ...readOnly } = setting(system, 'a')
  await transact(system, [change(readOnly)])
  t.same(treeOf(root), before)
})

test('if the journal cannot be made durable, nothing is begun', async t => {
  const root = rootWithFiles(t)
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

test('a change that cannot be kept is undone, because the next start would undo it', async t => {
  const root = rootWithFiles(t)
  const before = treeOf(root)
  const system = new System(root)
  const settings = [setting(system, 'a')]
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

test('an undo does not touch what is as it was: it may be on a read-only file system', async t => {
  const root = rootWithFiles(t)
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
    ...setting(system, 'linked'),
    async write(value) {
      await system.writeLink('/etc/linked', `../usr/${value}`)
      throw new HalError('COMMAND_FAILED', 'write failed')
    },
  }
  t.match(await failureOf(transact(system, [change(linked)])), { setting: 'linked', notUndone: [] })
  t.same(treeOf(root), before)
})
