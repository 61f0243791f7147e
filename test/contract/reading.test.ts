import { test } from 'tap'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { deviceRoot } from '../support/device.ts'
import { everyStoredSetting } from './every-setting.ts'
import { readingContract } from './reading-contract.ts'
import { VALUES } from './values.ts'

test('names are unique, and what a setting depends on precedes it', t => {
  const settings = registry(new System(deviceRoot(t)))
  const names = settings.map(setting => setting.name)
  t.equal(new Set(names).size, names.length)
  for (const { name, dependsOn = [], embeds, isEmbeddedStale } of settings) {
    t.equal(embeds === undefined, isEmbeddedStale === undefined, `${name}: embeds and isEmbeddedStale belong together`)
    for (const other of [...dependsOn, ...(embeds?.(VALUES[name]?.[1]) ?? [])])
      t.ok(names.includes(other) && names.indexOf(other) < names.indexOf(name), `${name} after ${other}`)
  }
  t.end()
})

everyStoredSetting(readingContract)
