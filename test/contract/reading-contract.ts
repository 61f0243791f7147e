import type { Test } from 'tap'
import type { Setting } from '../../hal/setting.ts'
import { changedPaths, treeOf } from '../hal/support/tree.ts'
import { DAMAGES, putInPlace } from './damage.ts'
import { Devices, misfits, open, runSteps, type Subject } from './subject.ts'

/** What every setting does when it is read, whatever it is: see hal/setting.ts. */
export async function readingContract(t: Test, subject: Subject): Promise<void> {
  const devices = new Devices(t)

  await runSteps(t, {
    'the value of a device and the fallback match the schema': async t => {
      const { setting } = open(subject, devices.receiver())
      t.equal(await setting.unavailable?.(), undefined)
      t.same(misfits(setting, await setting.read()), [])
      t.same(misfits(setting, await setting.fallback()), [])
      const empty = devices.empty()
      await readOrRefused(t, open(subject, empty).setting, 'an empty root')
      t.same(treeOf(empty), {}, 'reading creates nothing')
    },

    'whatever is in place of its files, reading neither hangs nor changes anything': async t => {
      const { setting: sample } = open(subject, devices.receiver())
      // The files may depend on the hardware.
      await sample.unavailable?.()
      for (const path of [...sample.files, ...(sample.sources ?? [])].filter(path => !path.includes('*')))
        for (const damage of DAMAGES) {
          const root = devices.receiver()
          putInPlace(root, path, damage, devices.folder)
          const before = treeOf(root)
          await readOrRefused(t, open(subject, root).setting, `${damage} at ${path}`)
          t.same(changedPaths(before, treeOf(root)), [])
        }
    },
  })
}

/** A value that does not match counts as unreadable (hal/setting.ts), and the fallback stands in for it. */
async function readOrRefused(t: Test, setting: Setting, what: string): Promise<void> {
  const error = await setting.read().then(
    () => undefined,
    error => error,
  )
  if (error) t.ok(error instanceof Error && error.constructor.name !== 'TypeError', `${what}: ${error.message}`)
  t.same(misfits(setting, await setting.fallback()), [], `the fallback for ${what}`)
}
