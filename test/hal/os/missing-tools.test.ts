import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { missingTools } from '../../../hal/os/missing-tools.ts'
import { System } from '../../../hal/os/system.ts'

t.test('a sentence about each program that is not installed', async t => {
  const root = t.testdir({
    usr: { bin: { amixer: '', 'avahi-browse': '', udevadm: '' }, sbin: { 'avahi-daemon': '' } },
  })
  t.strictSame(await missingTools(new System(root)), [
    'ip is not installed (package iproute2): address changes by other programs are noticed late',
  ])
  writeFileSync(join(root, 'usr/bin/ip'), '')
  t.strictSame(await missingTools(new System(root)), [])
  writeFileSync(join(root, 'usr/sbin/wpa_supplicant'), '')
  t.match(await missingTools(new System(root)), [/^wpa_cli is not installed \(package wpasupplicant\): no network/])
  writeFileSync(join(root, 'usr/sbin/wpa_cli'), '')
  t.strictSame(await missingTools(new System(root)), [])
})
