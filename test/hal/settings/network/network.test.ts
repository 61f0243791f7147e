import { mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Test, test } from 'tap'
import type { Argv, Run } from '../../../../hal/os/command.ts'
import { type Addresses, System } from '../../../../hal/os/system.ts'
import { network } from '../../../../hal/settings/network/network.ts'
import type { Interface, Interfaces } from '../../../../hal/settings/network/schema.ts'
import { schemaErrors } from '../../../../src/validate.ts'
import { deviceRoot } from '../../../support/device.ts'
import { startTestService } from '../../../support/service.ts'
import { apply } from '../../support/apply.ts'
import { runningAt } from '../../support/setting-device.ts'

const ETH0 = '/etc/systemd/network/10-receiverd-eth0.network'

/** A device whose network was looked at once, as the service does it. */
async function device(t: Test, fixture: string, systemOf: (root: string) => System = root => new System(root)) {
  const root = deviceRoot(t, fixture)
  const system = systemOf(root)
  const setting = network(system)
  t.equal(await setting.unavailable?.(), undefined)
  const value = async () => {
    const value = await setting.read()
    t.same(schemaErrors(setting.schema, value as never, ''), [])
    return value
  }
  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return { root, system, setting, value, put }
}

/** The interfaces with some members of one of them replaced. */
function withChange(all: Interfaces, name: string, change: Partial<Interface>): Interfaces {
  const present = all[name]
  if (!present) throw new Error(`no interface ${name}`)
  return { ...all, [name]: { ...present, ...change } }
}

test('a Raspberry Pi: a wired and a wireless interface, both by DHCP', async t => {
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

test('a bare board: an interface by a file of its system, with the netmask of its lease', async t => {
  const { value } = await device(t, 'bare-arm64')
  t.match(await value(), { eth0: { method: 'dhcp', up: true, addresses: ['198.51.100.77/23'] } })
})

test('a PC: two interfaces with static addresses, one of them by netplan, and no bridge', async t => {
  const { value } = await device(t, 'x86-box')
  const { enp1s0, enp2s0, ...others } = await value()
  t.match(enp1s0, { method: 'static', address: '203.0.113.10/24', gateway: '203.0.113.1' })
  t.match(enp2s0, { method: 'static', address: '2001:db8:2::10/64', gateway: 'fe80::1', dns: ['2001:db8:2::53'] })
  t.same(others, {})
})

test('a device without networkd, or with one that has nothing to do, has no such setting', async t => {
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

test('only what is a part of the device is an interface', async t => {
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

test('what is up', async t => {
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

test('the file in force is the first that is for the interface', async t => {
  const { root, value, put } = await device(t, 'bare-arm64')
  const address = async () => (await value()).eth0?.address
  const file = (match: string, octet: number) => `[Match]\n${match}\n[Network]\nAddress=192.0.2.${octet}/24\n`
  put('/run/systemd/network/40-run.network', file('Name=eth*', 1))
  t.equal(await address(), '192.0.2.1/24', 'before the one of 80')
  put('/etc/systemd/network/30-other.network', file('Name=wlan*', 2))
  t.equal(await address(), '192.0.2.1/24', 'not one for another interface')
  put('/etc/systemd/network/40-run.network', file('Name=eth0', 3))
  t.equal(await address(), '192.0.2.3/24', 'in /etc rather than in /run')
  put('/etc/systemd/network/40-run.network.d/a.conf', '[Network]\nAddress=\nAddress=192.0.2.4/24\n')
  t.equal(await address(), '192.0.2.4/24', 'with what a drop-in adds')
  put('/etc/systemd/network/20-driver.network', file('Driver=fec', 5))
  t.equal(await address(), '192.0.2.4/24', 'not one of which nothing can be told')
  put('/run/systemd/netif/links/2', 'NETWORK_FILE=/etc/systemd/network/20-driver.network\n')
  t.equal(await address(), '192.0.2.5/24', 'unless networkd tells')
  rmSync(join(root, 'etc/systemd/network'), { recursive: true })
  mkdirSync(join(root, 'etc/systemd/network'))
  symlinkSync('/dev/null', join(root, 'etc/systemd/network/40-run.network'))
  t.equal(await address(), '', 'not one that is masked')
  rmSync(join(root, 'usr/lib/systemd/network'), { recursive: true })
  t.match(await value(), { eth0: { method: 'dhcp', address: '', gateway: '', dns: [] } }, 'none at all')
})

const GOOD: readonly (readonly [change: Partial<Interface>, what: string])[] = [
  [{ method: 'static', address: '192.0.2.10/24' }, 'an address alone'],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1' }, 'with a gateway'],
  [{ method: 'static', address: '192.0.2.10/31', gateway: '192.0.2.11' }, 'two hosts'],
  [{ method: 'static', address: '10.255.255.255/7', gateway: '11.0.0.0' }, 'inside of a network'],
  [{ method: 'static', address: '2001:db8::10/64', gateway: '2001:db8::1' }, 'IPv6'],
  [{ method: 'static', address: '2001:db8::10/64', gateway: 'fe80::1' }, 'a router by its link-local address'],
  [{ method: 'static', address: '2001:db8::10/127', gateway: '2001:db8::11' }, 'two hosts of IPv6'],
  [{ method: 'static', address: '2001:DB8::10/128' }, 'a host alone'],
  [{ method: 'static', address: '192.0.2.10/24', dns: ['192.0.2.2', '2001:db8::2', '8.8.8.8'] }, 'servers of both'],
  [{ dns: ['192.0.2.2'] }, 'servers beside DHCP'],
]

const BAD: readonly (readonly [change: Partial<Interface>, pointer: string, detail: RegExp])[] = [
  [{ method: 'static' }, '/eth0/address', /needs an address/],
  [{ method: 'static', address: '192.0.2.10' }, '/eth0/address', /length of its prefix/],
  [{ method: 'static', address: '192.0.2.10/33' }, '/eth0/address', /length of its prefix/],
  [{ method: 'static', address: '192.0.2.300/24' }, '/eth0/address', /length of its prefix/],
  [{ method: 'static', address: 'fe80::1%eth0/64' }, '/eth0/address', /length of its prefix/],
  [{ method: 'static', address: '192.0.2.10/24\nDHCP=yes' }, '/eth0/address', /length of its prefix/],
  [{ method: 'static', address: '192.0.2.10/0' }, '/eth0/address', /no network/],
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
  [{ method: 'static', address: '::ffff:192.0.2.10/120' }, '/eth0/address', /in the form of IPv6/],
  [{ method: 'static', address: '192.0.2.10/24', gateway: 'router' }, '/eth0/gateway', /no IPv4 or IPv6 address/],
  [{ method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1/24' }, '/eth0/gateway', /no IPv4 or IPv6/],
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
  [{ address: '192.0.2.10/24' }, '/eth0/address', /static alone/],
  [{ gateway: '192.0.2.1' }, '/eth0/gateway', /static alone/],
  [{ dns: ['ns.example.net'] }, '/eth0/dns/0', /no IPv4 or IPv6 address/],
  [{ dns: ['192.0.2.1', '192.0.2.1'] }, '/eth0/dns/1', /already/],
  [{ dns: ['2001:db8::1', '2001:DB8:0::1'] }, '/eth0/dns/1', /already/],
  [{ dns: ['127.0.0.53'] }, '/eth0/dns/0', /loopback/],
  [{ dns: ['::1'] }, '/eth0/dns/0', /loopback/],
  [{ dns: ['239.0.0.1'] }, '/eth0/dns/0', /multicast/],
  [{ dns: ['0.0.0.0'] }, '/eth0/dns/0', /unspecified/],
  [{ method: 'static', address: '192.0.2.10/24', dns: ['192.0.2.255'] }, '/eth0/dns/0', /broadcast/],
  [{ dns: Array.from({ length: 9 }, (_, at) => `192.0.2.${at + 1}`) }, '/eth0/dns', /at most 8/],
  [{ present: false }, '/eth0/present', /^read-only$/],
  [{ mac: '00:00:00:00:00:01' }, '/eth0/mac', /^read-only$/],
  [{ up: false }, '/eth0/up', /^read-only$/],
  [{ addresses: [] }, '/eth0/addresses', /^read-only$/],
]

test('what makes sense is taken, written and read back', async t => {
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
    t.match(statSync(join(root, ETH0)), { mtimeMs, ino }, 'once more, nothing')
  }
})

test('what makes none is refused where it stands', async t => {
  const { setting, value } = await device(t, 'bare-arm64')
  const previous = await value()
  for (const [change, pointer, detail] of BAD) {
    const refusals = (await setting.check?.(withChange(previous, 'eth0', change), previous)) ?? []
    t.same(refusals.length, 1, JSON.stringify(change))
    t.match(refusals[0], { pointer, detail }, JSON.stringify(change))
  }
})

test('from a static address to DHCP and back', async t => {
  const { root, setting, value } = await device(t, 'bare-arm64')
  const set = async (change: Partial<Interface>) => {
    const previous = await value()
    const next = withChange(previous, 'eth0', change)
    t.same(await setting.check?.(next, previous), [])
    await setting.write?.(next)
  }
  await set({ method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1', dns: ['192.0.2.2'] })
  t.match((await value()).eth0, { addresses: ['192.0.2.10/24'] })
  const path = join(root, ETH0)
  const written = readFileSync(path, 'utf8')
  t.match(written, /^# Set through receiverd\.\n\[Match\]\nName=eth0\n\n\[Network\]\n/)
  writeFileSync(path, `${written}LLDP=yes\n\n[Link]\nMTUBytes=1400\n`)
  await set({ method: 'dhcp' })
  t.match((await value()).eth0, { method: 'dhcp', address: '', gateway: '', dns: ['192.0.2.2'] })
  t.equal(
    readFileSync(path, 'utf8'),
    '# Set through receiverd.\n[Match]\nName=eth0\n\n[Network]\nDNS=192.0.2.2\nDHCP=yes\nLLDP=yes\n\n[Link]\nMTUBytes=1400\n',
  )
})

test('what else the file in force says of the interface holds on in ours', async t => {
  const { root, setting, value, put } = await device(t, 'bare-arm64')
  put(
    '/etc/systemd/network/20-site.network',
    '# of the site\n[Match]\nName=e*\nType=ether\n\n[Link]\nMTUBytes=1400\n\n[Network]\nLLDP=yes\n\n' +
      '[Address]\nAddress=192.0.2.10/24\n\n[Route]\nGateway=192.0.2.1\n\n[Route]\nDestination=198.51.100.0/24\nGateway=192.0.2.9\n',
  )
  const set = async (change: Partial<Interface>) => {
    const previous = await value()
    await setting.write?.(withChange(previous, 'eth0', change))
    t.match((await value()).eth0, change)
    return readFileSync(join(root, ETH0), 'utf8')
  }
  const head = '# Set through receiverd.\n[Match]\nName=eth0\n\n# of the site\n[Link]\nMTUBytes=1400\n\n[Network]\n'
  const route = '\n[Route]\nDestination=198.51.100.0/24\nGateway=192.0.2.9\n'
  t.equal(
    await set({ dns: ['192.0.2.53'] }),
    `${head}DNS=192.0.2.53\nLLDP=yes\n\n[Address]\nAddress=192.0.2.10/24\n\n[Route]\nGateway=192.0.2.1\n${route}`,
  )
  t.equal(
    await set({ address: '192.0.2.11/24', gateway: '192.0.2.2' }),
    `${head}Address=192.0.2.11/24\nGateway=192.0.2.2\nDNS=192.0.2.53\nLLDP=yes\n${route}`,
    'but not what is set otherwise',
  )
})

test('an address is no other interface’s', async t => {
  const { setting, value } = await device(t, 'raspberry-pi-4')
  const previous = await value()
  const refused = async (next: Interfaces) => (await setting.check?.(next, previous)) ?? []
  const leased = withChange(previous, 'wlan0', { method: 'static', address: '192.0.2.21/25' })
  t.match(await refused(leased), [{ pointer: '/wlan0/address', detail: 'eth0 has it already' }])
  const moved = withChange(leased, 'eth0', { method: 'static', address: '192.0.2.22/24' })
  t.same(await refused(moved), [], 'unless that gives it away')
  const both = withChange(leased, 'eth0', { method: 'static', address: '192.0.2.21/24' })
  t.match(await refused(both), [{ pointer: '/eth0/address' }, { pointer: '/wlan0/address' }])
})

test('a file of somebody else that comes first is not outdone', async t => {
  const { setting, value, put } = await device(t, 'x86-box')
  const previous = await value()
  const refused = async (name: string, change: Partial<Interface> = { dns: ['203.0.113.9'] }) =>
    (await setting.check?.(withChange(previous, name, change), previous)) ?? []
  t.match(await refused('enp1s0'), [
    {
      pointer: '/enp1s0',
      detail: 'set by 10-netplan-enp1s0.network, which comes before 10-receiverd-enp1s0.network',
    },
  ])
  t.same(await refused('enp2s0'), [])
  put('/etc/systemd/network/05-driver.network', '[Match]\nDriver=igc\n[Network]\nDHCP=yes\n')
  t.match(await refused('enp2s0'), [{ pointer: '/enp2s0', detail: /05-driver.network/ }], 'if only it may be for it')
})

test('a file of ours that cannot be in force is refused', async t => {
  const { root, setting, value, put } = await device(t, 'bare-arm64')
  const previous = await value()
  const next = withChange(previous, 'eth0', { dns: ['192.0.2.1'] })
  put(ETH0, '[Match]\nName=eth1\n[Network]\nDHCP=yes\n')
  t.match(await setting.check?.(next, previous), [{ pointer: '/eth0', detail: /for another interface/ }])
  rmSync(join(root, ETH0))
  symlinkSync('/dev/null', join(root, ETH0))
  t.match(await setting.check?.(next, previous), [{ pointer: '/eth0', detail: /is masked/ }])
})

test('what was unplugged stays, can be set, and comes back', async t => {
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

/** A networkd that gives the addresses soon after it was told. */
class SlowNetworkd {
  readonly commands: Argv[] = []
  present: Addresses = {}
  given: Addresses = {}
  failing = ''

  readonly systemAt = (root: string) => runningAt(root, { addresses: () => this.present, run: this.#run })

  readonly #run: Run = async argv => {
    this.commands.push(argv)
    if (argv[1] === this.failing) throw new Error(`${argv[1]} failed`)
    if (argv[1] === 'reload') setTimeout(() => Object.assign(this, { present: this.given }), 50)
    return ''
  }
}

test('networkd is told, and waited for', async t => {
  const networkd = new SlowNetworkd()
  const { root, system, setting, value } = await device(t, 'raspberry-pi-4', networkd.systemAt)
  networkd.present = { eth0: ['192.0.2.21/24'], lo: ['127.0.0.1/8'] }
  networkd.given = { eth0: ['192.0.2.10/24', 'fe80::1/64'] }
  const previous = await value()
  t.same(previous.eth0?.addresses, ['192.0.2.21/24'])
  const next = withChange(previous, 'eth0', { method: 'static', address: '192.0.2.10/24' })
  await apply(system, setting, previous, next)
  t.same(networkd.commands, [['networkctl', 'reload']])
  t.same((await value()).eth0?.addresses, ['192.0.2.10/24', 'fe80::1/64'])

  networkd.commands.length = 0
  const wireless = withChange(await value(), 'wlan0', { method: 'static', address: '198.51.100.10/24' })
  await apply(system, setting, await value(), wireless)
  t.same(networkd.commands, [['networkctl', 'reload']], 'without a carrier nothing is waited for')

  networkd.failing = 'reload'
  const before = await value()
  const refused = withChange(before, 'eth0', { dns: ['192.0.2.2'] })
  await t.rejects(apply(system, setting, before, refused))
  t.same(await value(), before, 'what was refused is undone')

  networkd.commands.length = 0
  networkd.failing = ''
  renameSync(join(root, 'sys/class/net/eth0'), join(root, 'unplugged'))
  await setting.activate?.(before, refused, true)
  t.same(networkd.commands, [['networkctl', 'reload']], 'one that was unplugged before the undo cannot fail it')
})

test('an address that does not come fails the change', async t => {
  const { root, system, setting, value } = await device(t, 'bare-arm64', new SlowNetworkd().systemAt)
  const previous = await value()
  const next = withChange(previous, 'eth0', { method: 'static', address: '192.0.2.10/24' })
  const failure = await apply(system, setting, previous, next).catch((error: unknown) => error)
  t.match(failure, { cause: { message: 'systemd-networkd did not set the address of eth0' } })
  t.throws(() => statSync(join(root, ETH0)), { code: 'ENOENT' })
})

test('over HTTP: one part is patched, a name that is not there is refused, what GET gave can be sent back', async t => {
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
    [{ eth9: { method: 'dhcp' } }, '/network/eth9', 'no such interface'],
    [{ eth9: eth0 }, '/network/eth9', 'no such interface'],
    [{ eth9: 5 }, '/network/eth9', 'no such interface'],
    [{ 'a/b': {} }, '/network/a~1b', 'no such interface'],
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

test('what others do to the files is told', async t => {
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
