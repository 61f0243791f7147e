import { statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import type { Interface, Interfaces } from '../../../../hal/settings/network/schema.ts'
import { deviceRoot } from '../../../support/device.ts'
import { startTestService } from '../../../support/service.ts'
import { apply } from '../../support/apply.ts'
import { device, ETH0, withChange } from './support.ts'

const GOOD: readonly (readonly [change: Partial<Interface>, what: string])[] = [
  [{ method: 'static', address: '192.0.2.10/24' }, 'only an address'],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1' }, 'with a gateway'],
  [{ method: 'static', address: '192.0.2.10/31', gateway: '192.0.2.11' }, 'two hosts'],
  [{ method: 'static', address: '10.255.255.255/7', gateway: '11.0.0.0' }, 'within a network'],
  [{ method: 'static', address: '2001:db8::10/64', gateway: '2001:db8::1' }, 'IPv6'],
  [{ method: 'static', address: '2001:db8::10/64', gateway: 'fe80::1' }, 'a router with a link-local address'],
  [{ method: 'static', address: '2001:db8::10/127', gateway: '2001:db8::11' }, 'two hosts with IPv6'],
  [{ method: 'static', address: '2001:DB8::10/128' }, 'a single host'],
  [
    { method: 'static', address: '192.0.2.10/24', dns: ['192.0.2.2', '2001:db8::2', '8.8.8.8'] },
    'servers of both families',
  ],
  [{ dns: ['192.0.2.2'] }, 'servers in addition to DHCP'],
]

const BAD: readonly (readonly [change: Partial<Interface>, pointer: string, detail: RegExp])[] = [
  [{ method: 'static' }, '/eth0/address', /required with the method static/],
  [{ method: 'static', address: '192.0.2.10' }, '/eth0/address', /an address with its prefix length/],
  [{ method: 'static', address: '192.0.2.10/33' }, '/eth0/address', /an address with its prefix length/],
  [{ method: 'static', address: '192.0.2.300/24' }, '/eth0/address', /an address with its prefix length/],
  [{ method: 'static', address: 'fe80::1%eth0/64' }, '/eth0/address', /an address with its prefix length/],
  [{ method: 'static', address: '192.0.2.10/24\nDHCP=yes' }, '/eth0/address', /an address with its prefix length/],
  [{ method: 'static', address: '192.0.2.10/0' }, '/eth0/address', /prefix length must not be 0/],
  [{ method: 'static', address: '192.0.2.0/24' }, '/eth0/address', /network itself/],
  [{ method: 'static', address: '192.0.2.255/24' }, '/eth0/address', /broadcast/],
  [{ method: 'static', address: '255.255.255.255/32' }, '/eth0/address', /broadcast/],
  [{ method: 'static', address: '224.0.0.5/24' }, '/eth0/address', /multicast/],
  [{ method: 'static', address: '127.0.0.2/8' }, '/eth0/address', /loopback/],
  [{ method: 'static', address: '0.0.0.0/24' }, '/eth0/address', /unspecified/],
  [{ method: 'static', address: '2001:db8::/64' }, '/eth0/address', /anycast/],
  [{ method: 'static', address: 'ff02::5/64' }, '/eth0/address', /multicast/],
  [{ method: 'static', address: '::1/128' }, '/eth0/address', /loopback/],
  [{ method: 'static', address: '::/64' }, '/eth0/address', /unspecified/],
  [{ method: 'static', address: '::ffff:192.0.2.10/120' }, '/eth0/address', /IPv4-mapped/],
  [
    { method: 'static', address: '192.0.2.10/24', gateway: 'router' },
    '/eth0/gateway',
    /must be an IPv4 or IPv6 address/,
  ],
  [
    { method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1/24' },
    '/eth0/gateway',
    /must be an IPv4 or IPv6 address/,
  ],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '192.0.3.1' }, '/eth0/gateway', /not in the network/],
  [{ method: 'static', address: '192.0.2.10/24', gateway: 'fe80::1' }, '/eth0/gateway', /not in the network/],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.0' }, '/eth0/gateway', /network itself/],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.255' }, '/eth0/gateway', /broadcast/],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.10' }, '/eth0/gateway', /interface itself/],
  [{ method: 'static', address: '192.0.2.10/32', gateway: '192.0.2.1' }, '/eth0/gateway', /not in the network/],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '127.0.0.1' }, '/eth0/gateway', /loopback/],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '224.0.0.1' }, '/eth0/gateway', /multicast/],
  [{ method: 'static', address: '2001:db8::10/64', gateway: '2001:db8:0:1::1' }, '/eth0/gateway', /not in the network/],
  [{ method: 'static', address: '2001:db8::10/64', gateway: '192.0.2.1' }, '/eth0/gateway', /not in the network/],
  [{ method: 'static', address: '2001:db8::10/64', gateway: '2001:db8::' }, '/eth0/gateway', /anycast/],
  [{ method: 'static', address: '2001:db8::10/64', gateway: 'ff02::2' }, '/eth0/gateway', /multicast/],
  [{ method: 'static', address: '2001:db8::10/64', gateway: '2001:db8:0::10' }, '/eth0/gateway', /interface itself/],
  [{ address: '192.0.2.10/24' }, '/eth0/address', /must be empty unless the method is static/],
  [{ gateway: '192.0.2.1' }, '/eth0/gateway', /must be empty unless the method is static/],
  [{ dns: ['ns.example.net'] }, '/eth0/dns/0', /must be an IPv4 or IPv6 address/],
  [{ dns: ['192.0.2.1', '192.0.2.1'] }, '/eth0/dns/1', /^duplicate$/],
  [{ dns: ['2001:db8::1', '2001:DB8:0::1'] }, '/eth0/dns/1', /^duplicate$/],
  [{ dns: ['127.0.0.53'] }, '/eth0/dns/0', /loopback/],
  [{ dns: ['::1'] }, '/eth0/dns/0', /loopback/],
  [{ dns: ['239.0.0.1'] }, '/eth0/dns/0', /multicast/],
  [{ dns: ['0.0.0.0'] }, '/eth0/dns/0', /unspecified/],
  [{ method: 'static', address: '192.0.2.10/24', dns: ['192.0.2.255'] }, '/eth0/dns/0', /broadcast/],
  [{ dns: Array.from({ length: 9 }, (_, at) => `192.0.2.${at + 1}`) }, '/eth0/dns', /not have more than 8 items/],
  [{ present: false }, '/eth0/present', /^read-only$/],
  [{ mac: '00:00:00:00:00:01' }, '/eth0/mac', /^read-only$/],
  [{ up: false }, '/eth0/up', /^read-only$/],
  [{ addresses: [] }, '/eth0/addresses', /^read-only$/],
]

test('valid values are accepted, written and read back', async t => {
  for (const [change, what] of GOOD) {
    const { root, system, setting, value } = await device(t, 'bare-arm64')
    const previous = await value()
    const next = withChange(previous, 'eth0', change)
    t.same(await setting.check?.(next, previous), [], what)
    await apply(system, setting, previous, next)
    t.match((await value()).eth0, change, what)
    t.equal(statSync(join(root, ETH0)).mode & 0o777, 0o644)
    const { mtimeMs, ino } = statSync(join(root, ETH0))
    await setting.write?.(next)
    t.match(statSync(join(root, ETH0)), { mtimeMs, ino }, 'the same again writes nothing')
  }
})

test('invalid values are refused, each with its pointer', async t => {
  const { setting, value } = await device(t, 'bare-arm64')
  const previous = await value()
  for (const [change, pointer, detail] of BAD) {
    const refusals = (await setting.check?.(withChange(previous, 'eth0', change), previous)) ?? []
    t.same(refusals.length, 1, JSON.stringify(change))
    t.match(refusals[0], { pointer, detail }, JSON.stringify(change))
  }
})

test('the address of another interface is refused', async t => {
  const { setting, value } = await device(t, 'raspberry-pi-4')
  const previous = await value()
  const refused = async (next: Interfaces) => (await setting.check?.(next, previous)) ?? []
  const leased = withChange(previous, 'wlan0', { method: 'static', address: '192.0.2.21/25' })
  t.match(await refused(leased), [{ pointer: '/wlan0/address', detail: 'eth0 already has this address' }])
  const moved = withChange(leased, 'eth0', { method: 'static', address: '192.0.2.22/24' })
  t.same(await refused(moved), [], 'unless the other interface gives it up')
  const both = withChange(leased, 'eth0', { method: 'static', address: '192.0.2.21/24' })
  t.match(await refused(both), [{ pointer: '/eth0/address' }, { pointer: '/wlan0/address' }])
})

test('over HTTP: a member is patched, an unknown name is refused, and the answer to GET can be sent back', async t => {
  const service = await startTestService(t, { root: deviceRoot(t, 'raspberry-pi-4') })
  const { value } = await service.system()
  t.equal((await service.patch(value)).status, 200)
  const answer = await service.patch({ network: { eth0: { method: 'static', address: '192.0.2.10/24' } } })
  t.equal(answer.status, 200)
  t.match(await answer.json(), { network: { eth0: { method: 'static', address: '192.0.2.10/24' }, wlan0: {} } })
  const back = await service.patch({ network: { eth0: { method: 'dhcp' } } })
  t.match(await back.json(), { network: { eth0: { method: 'dhcp', address: '' } } })
  const eth0 = (value.network as never as Interfaces).eth0
  const cases: readonly (readonly [patch: unknown, pointer: string, detail: string | RegExp])[] = [
    [{ eth9: { method: 'dhcp' } }, '/network/eth9', 'no such interface; this device has eth0'],
    [{ eth9: eth0 }, '/network/eth9', 'no such interface; this device has eth0'],
    [{ eth9: 5 }, '/network/eth9', 'no such interface; this device has eth0'],
    [{ 'a/b': {} }, '/network/a~1b', 'no such interface; this device has eth0'],
    [{ eth0: null }, '/network/eth0', 'cannot be removed'],
    [{ eth0: { mac: '' } }, '/network/eth0/mac', 'read-only'],
    [{ eth0: { mtu: 1 } }, '/network/eth0/mtu', 'unknown property'],
    [{ eth0: { method: 'bootp' } }, '/network/eth0/method', 'must be one of dhcp, static'],
    [{ eth0: { dns: null } }, '/network/eth0', /dns/],
    [{ eth0: { dns: [1] } }, '/network/eth0/dns/0', /string/],
  ]
  for (const [patch, pointer, detail] of cases) {
    const answer = await service.patch({ network: patch })
    t.equal(answer.status, 422, JSON.stringify(patch))
    const { errors } = (await answer.json()) as { errors: { pointer: string; detail: string }[] }
    t.match(
      errors.find(error => error.pointer === pointer),
      { detail },
      JSON.stringify([patch, errors]),
    )
  }
})
