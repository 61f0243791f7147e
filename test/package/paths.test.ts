/** The sandbox of the service lets every setting write its files. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { registry } from '../../hal/registry.ts'
import { runningAt } from '../hal/support/setting-device.ts'
import { deviceRoot } from '../support/device.ts'

const unit = readFileSync(join(REPOSITORY, 'build/package/receiverd.service'), 'utf8')
/** systemd.exec(5): lists of paths, each with a `-` if it may be missing. */
const writable = Array.from(unit.matchAll(/^ReadWritePaths=(.*)$/gm), ([, list = '']) => list.split(/\s+/))
  .flat()
  .map(path => path.replace(/^[-+]+/, ''))

t.test('the files of every setting are under ReadWritePaths= of the unit', async t => {
  // The kernel's host name is written as an attribute, which is not in `files`.
  t.ok(writable.includes('/proc/sys/kernel/hostname'))
  for (const setting of registry(runningAt(deviceRoot(t)))) {
    await setting.unavailable?.()
    await setting.read().catch(() => undefined)
    if (setting.write) t.ok(setting.files.length > 0, `${setting.name} has files`)
    for (const file of setting.files)
      t.ok(
        writable.some(path => file.startsWith(`${path}/`) || file === path),
        `${setting.name}: add ${file} to ReadWritePaths= of build/package/receiverd.service`,
      )
  }
})
