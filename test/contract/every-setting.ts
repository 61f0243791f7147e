import { type Test, test } from 'tap'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { isWritable, type Setting } from '../../hal/setting.ts'
import type { Subject, WritableSubject } from './subject.ts'
import { VALUES } from './values.ts'

/** Holds every setting that has a value without the running system to a contract. */
export function everyStoredSetting(contract: (t: Test, subject: Subject) => Promise<void>): void {
  // Another root lacks values that no file holds.
  for (const setting of registry(new System('/nowhere')))
    if (!isWritable(setting) || setting.write) test(setting.name, { jobs: 1 }, t => contract(t, subjectOf(setting)))
}

/** Holds every setting that `isMeant` selects to a contract for settings that can be changed. */
export function everyWritableSetting(
  isMeant: (setting: Setting) => boolean,
  contract: (t: Test, subject: WritableSubject) => Promise<void>,
): void {
  for (const setting of registry(new System('/nowhere'))) {
    if (!isMeant(setting)) continue
    const { values, ...subject } = subjectOf(setting)
    test(setting.name, { jobs: 1 }, async t => {
      if (values) await contract(t, { ...subject, values })
      else t.fail(`${setting.name} can be written: give it two values in test/contract/values.ts`)
    })
  }
}

function subjectOf({ name }: Setting): Subject {
  return { name, values: VALUES[name], settings: registry }
}
