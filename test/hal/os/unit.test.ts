import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { test } from 'tap'
import { System } from '../../../hal/os/system.ts'
import { isUnitEnabled, isUnitInstalled } from '../../../hal/os/unit.ts'

const UNIT = 'a.service'

test('a unit is enabled by a link of any target, unless it is masked', async t => {
  const root = t.testdir({ etc: { systemd: { system: {} } }, usr: { lib: { systemd: { system: {} } } } })
  const system = new System(root)
  const folder = `${root}/etc/systemd/system`
  t.notOk(await isUnitInstalled(system, UNIT))
  t.notOk(await isUnitEnabled(system, UNIT))
  writeFileSync(`${root}/usr/lib/systemd/system/${UNIT}`, '')
  t.ok(await isUnitInstalled(system, UNIT))
  t.notOk(await isUnitEnabled(system, UNIT))
  for (const target of ['multi-user.target.wants', 'kiosk.target.wants', 'graphical.target.requires']) {
    mkdirSync(`${folder}/${target}`)
    symlinkSync(`/usr/lib/systemd/system/${UNIT}`, `${folder}/${target}/${UNIT}`)
    t.ok(await isUnitEnabled(system, UNIT), target)
    symlinkSync('/dev/null', `${folder}/${UNIT}`)
    t.notOk(await isUnitEnabled(system, UNIT), `${target}, masked`)
    rmSync(`${folder}/${UNIT}`)
    rmSync(`${folder}/${target}`, { recursive: true })
  }
  mkdirSync(`${folder}/multi-user.target.wants`)
  writeFileSync(`${folder}/multi-user.target.wants/${UNIT}`, '')
  t.notOk(await isUnitEnabled(system, UNIT), 'a file that is no link')
})
