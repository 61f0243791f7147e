import { mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { System } from '../../../../hal/os/system.ts'
import { network } from '../../../../hal/settings/network/network.ts'
import { deviceRoot } from '../../../support/device.ts'
import { startTestService } from '../../../support/service.ts'
import { apply } from '../../support/apply.ts'
import { runningAt } from '../../support/setting-device.ts'
import { device, ETH0, withChange } from './support.ts'

test('a Raspberry Pi: a wired and a wireless interface, both with DHCP', async t => {
  const { value, setting } = await device(t, 'raspberry-pi-4')
  t.same(await value(), {
    eth0: {
      present: true,
      mac: 'dc:a6:32:0a:1b:2c',
      up: true,
      method: 'dhcp',
      address: '',
      gateway: '',
      dns: [],
      addresses: ['192.0.2.21/24'],
    },
    wlan0: {
      present: true,
      mac: 'dc:a6:32:0a:1b:2d',
      up: false,
      method: 'dhcp',
      address: '',
      gateway: '',
      dns: ['192.0.2.53'],
      addresses: [],
    },
  })
  t.same(setting.files, [ETH0, ETH0.replace('eth0', 'wlan0')])
})

test('a bare board: an interface configured by a file of the system image, with the netmask of its lease', async t => {
  const { value } = await device(t, 'bare-arm64')
  t.match(await value(), { eth0: { method: 'dhcp', up: true, addresses: ['198.51.100.77/23'] } })
})

test('a PC: two interfaces with static addresses, one of them set by netplan, and no bridge', async t => {
  const { value } = await device(t, 'x86-box')
  const { enp1s0, enp2s0, ...others } = await value()
  t.match(enp1s0, { method: 'static', address: '203.0.113.10/24', gateway: '203.0.113.1' })
  t.match(enp2s0, { method: 'static', address: '2001:db8:2::10/64', gateway: 'fe80::1', dns: ['2001:db8:2::53'] })
  t.same(others, {})
})

test('a device without networkd, or where networkd is not used, has no such setting', async t => {
  const why = (root: string) => network(new System(root)).unavailable?.()
  const root = deviceRoot(t, 'bare-arm64')
  rmSync(join(root, 'sys/class/net/eth0'))
  t.equal(await why(root), 'no network interface')
  rmSync(join(root, 'run/systemd/netif'), { recursive: true })
  rmSync(join(root, 'etc/systemd/system/multi-user.target.wants/systemd-networkd.service'))
  t.equal(await why(root), 'systemd-networkd is not enabled')
  rmSync(join(root, 'usr/lib/systemd/system'), { recursive: true })
  t.equal(await why(root), 'systemd-networkd is not installed')
})

test('only physical interfaces are shown', async t => {
  const { root, value, put } = await device(t, 'bare-arm64')
  const add = (name: string, type: string) => {
    put(`/sys/class/net/${name}/type`, type)
    put(`/sys/class/net/${name}/device/uevent`, '')
  }
  for (const [name, type] of [
    ['can0', '280'],
    ['p2p-wlan0-3', '1'],
    ['a*', '1'],
  ] as const)
    add(name, type)
  put('/sys/class/net/veth1/type', '1')
  t.same(Object.keys(await value()), ['eth0'])
  add('__proto__', '1')
  add('usb0', '1')
  const names = Object.keys(await value())
  t.same(names.sort(), ['__proto__', 'eth0', 'usb0'])
  t.equal(statSync(root).isDirectory(), true)
})

test('an interface is up with a carrier', async t => {
  const { value, put } = await device(t, 'bare-arm64')
  const cases: readonly (readonly [state: string, carrier: string, up: boolean])[] = [
    ['up', '1', true],
    ['down', '0', false],
    ['dormant', '1', false],
    ['lowerlayerdown', '0', false],
    ['unknown', '1', true],
    ['unknown', '0', false],
    ['unknown', '', false],
  ]
  for (const [state, carrier, up] of cases) {
    put('/sys/class/net/eth0/operstate', `${state}\n`)
    put('/sys/class/net/eth0/carrier', `${carrier}\n`)
    t.equal((await value()).eth0?.up, up, `${state} ${carrier}`)
  }
})

test('an interface that was unplugged is still shown, can be set, and comes back', async t => {
  const { root, system, setting, value } = await device(t, 'raspberry-pi-4')
  const folder = join(root, 'sys/class/net')
  renameSync(join(folder, 'wlan0'), join(root, 'unplugged'))
  const gone = await value()
  t.match(gone.wlan0, { present: false, mac: 'dc:a6:32:0a:1b:2d', up: false, dns: ['192.0.2.53'], addresses: [] })
  const next = withChange(gone, 'wlan0', { dns: [] })
  t.same(await setting.check?.(next, gone), [])
  await apply(system, setting, gone, next)
  renameSync(join(root, 'unplugged'), join(folder, 'wlan0'))
  t.match((await value()).wlan0, { present: true, dns: [] })
})

test('an interface that udev renames while the system starts is shown by its new name alone', async t => {
  const { root, put, value } = await device(t, 'bare-arm64')
  const folder = join(root, 'sys/class/net')
  put('/sys/class/net/eth0/ifindex', '2\n')
  t.same(Object.keys(await value()), ['eth0'])
  renameSync(join(folder, 'eth0'), join(folder, 'enp0s2'))
  t.same(Object.keys(await value()), ['enp0s2'])
})

test('changes of the files by others are events', async t => {
  const service = await startTestService(t, { root: deviceRoot(t, 'bare-arm64') })
  const stream = await service.stream()
  await stream.block()
  mkdirSync(service.path('etc/systemd/network'))
  writeFileSync(service.path('etc/systemd/network/20-a.network'), '[Match]\nName=eth0\n[Network]\nDNS=192.0.2.1\n')
  t.match((await stream.event())?.data, { network: { eth0: { method: 'static', dns: ['192.0.2.1'] } } })
  writeFileSync(service.path('sys/class/net/eth0/operstate'), 'down\n')
  writeFileSync(service.path('run/systemd/netif/links/2'), 'OPER_STATE=no-carrier\n')
  t.match((await stream.event())?.data, { network: { eth0: { up: false } } })
})

test('an interface may be named like a property of every object', async t => {
  const names = ['constructor', 'toString', '__proto__', 'hasOwnProperty']
  for (const isRunning of [false, true]) {
    const { root, setting, value, put } = await device(t, 'bare-arm64', root =>
      isRunning ? runningAt(root, { addresses: () => ({ eth0: ['198.51.100.77/23'] }) }) : new System(root),
    )
    for (const name of names) {
      put(`/sys/class/net/${name}/type`, '1')
      put(`/sys/class/net/${name}/device/uevent`, '')
    }
    const previous = await value()
    t.strictSame(Object.keys(previous).sort(), [...names, 'eth0'].sort())
    for (const name of names)
      t.match(Object.entries(previous).find(([key]) => key === name)?.[1], { method: 'dhcp', addresses: [] })
    t.strictSame(Object.keys(await setting.fallback()).sort(), [...names, 'eth0'].sort())

    const next = withChange(previous, 'constructor', { method: 'static', address: '192.0.2.10/24' })
    t.strictSame(await setting.check?.(next, previous), [])
    t.equal(await setting.write?.(next), true)
    if (isRunning) await setting.activate?.(next, previous, true)
    t.match((await value()).constructor, { method: 'static', address: '192.0.2.10/24' })
    t.equal(statSync(join(root, '/etc/systemd/network/10-receiverd-constructor.network')).isFile(), true)
  }
})

test('an interface that nobody knows is not looked for among the properties of every object', async t => {
  const { setting, value } = await device(t, 'bare-arm64')
  const previous = await value()
  const { eth0 } = previous
  t.ok(eth0)
  const next = { ...previous, ...(eth0 && { constructor: { ...eth0, dns: ['192.0.2.1'] } }) }
  t.strictSame(await setting.check?.(next, previous), [])
  t.equal(await setting.write?.(next), false)
})
