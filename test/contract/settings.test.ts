import { test } from 'tap'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { isWritable } from '../../hal/setting.ts'
import type { JsonValue } from '../../src/json.ts'
import { deviceRoot } from '../support/device.ts'
import { runningContract } from './running-contract.ts'
import { type GoodValues, settingContract } from './setting-contract.ts'

/** The connectors of the receiver, with what can be set of the first. */
function displayOf(mode: string, rotation: number): JsonValue {
  const rates = ['1920x1080@60', '1920x1080@50', '1920x1080@30', '1920x1080@24', '1280x720@60', '1280x720@50']
  const modes = [...rates, '720x576@50', '720x480@60', '640x480@60']
  return {
    'HDMI-A-1': { present: true, monitor: 'Lobby TV', modes, mode, rotation },
    'HDMI-A-2': { present: false, monitor: '', modes: [], mode: 'preferred', rotation: 0 },
  }
}

/** The receiver's interface: its read-only members stay as they are. */
const ETH0 = {
  present: true,
  mac: 'dc:a6:32:7e:40:01',
  up: true,
  method: 'dhcp',
  address: '',
  gateway: '',
  addresses: ['192.0.2.40/24'],
}

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
  network: [
    { eth0: { ...ETH0, method: 'static', address: '192.0.2.40/24', gateway: '192.0.2.1', dns: ['192.0.2.2'] } },
    { eth0: { ...ETH0, dns: ['192.0.2.3', '2001:db8::2'] } },
  ],
  display: [displayOf('1280x720@60', 0), displayOf('preferred', 270)],
  // The nearest of the driver's 31 steps.
  audio: [
    { volume: 52, muted: true },
    { volume: 26, muted: false },
  ],
  airplay: [
    { enabled: false, name: 'Großer Saal "7" 🎬', access: 'pin', maxResolution: '1280x720' },
    { enabled: true, name: '', access: 'open', maxResolution: '' },
  ],
}
/** Those that no file holds: another root has none of them. */
const OF_THE_RUNNING_SYSTEM = ['audio']

test('names are unique, and what a setting depends on comes before it', t => {
  const settings = registry(new System(deviceRoot(t)))
  const names = settings.map(setting => setting.name)
  t.equal(new Set(names).size, names.length)
  for (const { name, dependsOn = [], embeds } of settings)
    for (const other of [...dependsOn, ...(embeds?.(VALUES[name]?.[1]) ?? [])])
      t.ok(names.includes(other) && names.indexOf(other) < names.indexOf(name), `${name} after ${other}`)
  t.end()
})

for (const setting of registry(new System('/nowhere'))) {
  const { name } = setting
  const values = VALUES[name]
  if (!OF_THE_RUNNING_SYSTEM.includes(name)) test(name, { jobs: 1 }, t => settingContract(t, name, values))
  if (isWritable(setting))
    test(`${name} of the running system`, { jobs: 1 }, async t => {
      if (!values) throw new Error(`${name} can be written: it needs two good values in the table above`)
      await runningContract(t, name, values)
    })
}
