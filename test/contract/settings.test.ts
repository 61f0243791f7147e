import { test } from 'tap'
import { registry } from '../../hal/index.ts'
import { System } from '../../hal/system.ts'
import { deviceRoot } from '../support/device.ts'
import { type GoodValues, settingContract } from './setting-contract.ts'

/** Two good values of every setting that can be written. */
const VALUES: Readonly<Record<string, GoodValues>> = {
  hostname: ['lobby', 'meeting-room-5.example.org'],
  deviceName: ['Großer Saal "7" \\ $HOME 🎬', 'Lobby'],
  timezone: ['Asia/Tokyo', 'America/New_York'],
  locale: ['nl_BE.UTF-8', 'C.UTF-8'],
  ntp: [
    { enabled: false, servers: ['ntp.example.net', '192.0.2.1', '2001:db8::1'] },
    { enabled: true, servers: [] },
  ],
  airplay: [
    { enabled: false, name: 'Großer Saal "7" 🎬', access: 'pin', maxResolution: '1280x720' },
    { enabled: true, name: '', access: 'open', maxResolution: '' },
  ],
}
/** Those that no file holds: a root alone has none of them. */
const OF_THE_RUNNING_SYSTEM = ['audio']

test('names are unique, and what a setting depends on comes before it', t => {
  const settings = registry(new System(deviceRoot(t)))
  const names = settings.map(setting => setting.name)
  t.equal(new Set(names).size, names.length)
  for (const { name, dependsOn = [], follows } of settings)
    for (const other of [...dependsOn, ...(follows?.(VALUES[name]?.[1]) ?? [])])
      t.ok(names.includes(other) && names.indexOf(other) < names.indexOf(name), `${name} after ${other}`)
  t.end()
})

for (const { name } of registry(new System('/nowhere')))
  if (!OF_THE_RUNNING_SYSTEM.includes(name)) test(name, { jobs: 1 }, t => settingContract(t, name, VALUES[name]))
