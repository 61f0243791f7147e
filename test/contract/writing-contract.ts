import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Setting } from '../../hal/setting.ts'
import { TransactionFailed } from '../../hal/transaction/transaction.ts'
import { changedPaths, leftoversIn, type Tree, treeOf } from '../hal/support/tree.ts'
import { DAMAGES, isRepairable, putInPlace } from './damage.ts'
import { change, Devices, misfits, open, runSteps, type WritableSubject } from './subject.ts'

/** systemctl(1) leaves anything but its own links alone, and fails. */
const MADE_BY_SYSTEMCTL = /^\/etc\/systemd\/system\//

/** Rules for writing settings with files: see hal/setting.ts. */
export async function writingContract(t: Test, subject: WritableSubject): Promise<void> {
  const devices = new Devices(t)
  const [first, second] = subject.values

  await runSteps(t, {
    'what is written is read': async t => {
      const root = devices.receiver()
      const { setting } = open(subject, root)
      t.notSame(await setting.read(), first, 'the first value is new')
      t.notSame(first, second)
      for (const value of [first, second, first]) {
        t.same(misfits(setting, value), [])
        t.same((await setting.check?.(value, await setting.read())) ?? [], [], 'the check accepts it')
        const before = treeOf(root)
        const isRewritten = await setting.write?.(value)
        t.equal(isRewritten, changedPaths(before, treeOf(root)).length > 0, 'write returns whether it changed a file')
        t.same(await setting.read(), value)
        t.same(await open(subject, root).setting.read(), value, 'by another process as well')
      }
      t.same(leftoversIn(root), [])
    },

    'writing the same value again touches no file': async t => {
      const root = devices.receiver()
      const { setting } = open(subject, root)
      for (const value of [first, second]) {
        await setting.write?.(value)
        const before = inodesOf(root)
        t.equal(await setting.write?.(value), false)
        t.same(inodesOf(root), before)
      }
    },

    'only its files change': async t => {
      const root = devices.receiver()
      const { setting } = open(subject, root)
      for (const value of [first, second]) {
        const before = treeOf(root)
        await setting.read()
        const { files } = setting
        await setting.write?.(value)
        t.same(foreignChanges(files, before, treeOf(root)), [])
      }
      const empty = devices.empty()
      const { setting: anew } = open(subject, empty)
      if (await anew.unavailable?.()) return
      await anew.write?.(first)
      t.same(await anew.read(), first, 'on an empty root as well')
      t.same(foreignChanges(anew.files, {}, treeOf(empty)), [])
    },

    'a check has no side effects, and a transaction does what a write does': async t => {
      const [root, other] = [devices.receiver(), devices.receiver()]
      const before = treeOf(root)
      const { setting } = open(subject, root)
      await setting.check?.(first, await setting.read())
      t.same(treeOf(root), before)
      await change(open(subject, root), first)
      await open(subject, other).setting.write?.(first)
      t.same(treeOf(root), treeOf(other))
    },

    'a write repairs whatever is in place of its files, or changes nothing': async t => {
      for (const path of await filesOf(subject, devices.receiver()))
        for (const damage of DAMAGES) {
          const root = devices.receiver()
          putInPlace(root, path, damage, devices.folder)
          const before = treeOf(root)
          const error = await change(open(subject, root), first).catch(error => error)
          const mayRefuse = !isRepairable(damage) || MADE_BY_SYSTEMCTL.test(path)
          if (error === undefined) t.same(await open(subject, root).setting.read(), first, `${damage} at ${path}`)
          else if (!mayRefuse || !(error instanceof TransactionFailed)) t.fail(`${damage} at ${path}`, { error })
          else
            t.same([changedPaths(before, treeOf(root)), error.notUndone], [[], []], `${damage} at ${path} is refused`)
          t.same(leftoversIn(root), [])
        }
    },
  })
}

/** The list of files may depend on the hardware. */
async function filesOf(subject: WritableSubject, root: string): Promise<Setting['files']> {
  const { setting } = open(subject, root)
  await setting.unavailable?.()
  return setting.files
}

function foreignChanges(files: readonly string[], before: Tree, after: Tree): readonly string[] {
  return changedPaths(before, after).filter(path => !files.includes(path))
}

function inodesOf(root: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.keys(treeOf(root)).map(path => {
      const { ino, mtimeMs, ctimeMs } = lstatSync(join(root, path))
      return [path, `${ino} ${mtimeMs} ${ctimeMs}`]
    }),
  )
}
