import { readFileSync } from 'node:fs'
import { test } from 'tap'
import { type Configuration, configurationOf, editNetworkFile, matches } from '../../../hal/format/network-file.ts'

const WIRED = {
  Name: 'enp1s0',
  MACAddress: '00:11:22:aa:bb:cc',
  Type: 'ether',
  Kind: null,
  SSID: null,
} as const
const NOTHING: Configuration = { method: 'static', address: '', gateway: '', dns: [] }

test('a file applies to the interfaces that its [Match] section names', t => {
  const cases: readonly (readonly [match: string, is: boolean | undefined])[] = [
    ['', false],
    ['Name=', false],
    ['Name=*', true],
    ['Name=enp1s0', true],
    ['Name=eth0 en*', true],
    ['Name=eth0\nName=enp1s0', true],
    ['Name=enp1s0\nName=\nName=eth0', false],
    ['Name=!eth0', true],
    ['Name=!eth0 enp1s0', false],
    ['Name=!eth*\nName=wlan0', false],
    ['MACAddress=00:11:22:AA:BB:CC', true],
    ['MACAddress=00-11-22-aa-bb-cc', true],
    ['MACAddress=0011.22aa.bbcc', true],
    ['MACAddress=00:11:22:aa:bb:cd', false],
    ['Name=enp1s0\nMACAddress=00:11:22:aa:bb:cd', false],
    ['Type=ether', true],
    ['Type=wlan', false],
    ['Type=!wlan loopback', true],
    ['Type=ether\nKind=!*', true],
    ['Kind=veth', false],
    ['SSID=lobby', false],
    ['Driver=e1000e', undefined],
    ['Name=enp1s0\nDriver=e1000e', undefined],
    ['Name=eth0\nDriver=e1000e', false],
    ['Unheard=of', false],
  ]
  for (const [match, is] of cases) t.equal(matches(`[Match]\n${match}\n[Network]\nDHCP=yes\n`, WIRED), is, match)
  t.equal(matches('[Network]\nName=enp1s0\n', WIRED), false, 'without the section')
  t.end()
})

test('a configuration is read wherever it may be', t => {
  const cases: readonly (readonly [text: string, is: Partial<Configuration>])[] = [
    ['', {}],
    ['DHCP=yes', { method: 'dhcp' }],
    ['DHCP=ipv4', { method: 'dhcp' }],
    ['DHCP=True', { method: 'dhcp' }],
    ['DHCP=both', { method: 'dhcp' }],
    ['DHCP=no', {}],
    ['DHCP=yes\nDHCP=no', {}],
    ['DHCP=yes\nAddress=192.0.2.1/24\nGateway=192.0.2.2\nDNS=192.0.2.3', { method: 'dhcp', dns: ['192.0.2.3'] }],
    ['Address=192.0.2.1/24\nAddress=2001:db8::1/64', { address: '192.0.2.1/24' }],
    ['Address=192.0.2.1/24\nAddress=\nAddress=192.0.2.9/24', { address: '192.0.2.9/24' }],
    ['DNS=192.0.2.1 192.0.2.2\nDNS=192.0.2.1', { dns: ['192.0.2.1', '192.0.2.2'] }],
    ['DNS=192.0.2.1\nDNS=\nDNS=192.0.2.2', { dns: ['192.0.2.2'] }],
    ['[Address]\nPeer=192.0.2.9/24\n[Address]\nAddress=192.0.2.1/24', { address: '192.0.2.1/24' }],
    ['[Route]\nGateway=192.0.2.1', { gateway: '192.0.2.1' }],
    ['[Route]\nDestination=10.0.0.0/8\nGateway=192.0.2.1', {}],
    ['[Route]\nDestination=10.0.0.0/8\nGateway=192.0.2.1\n[Route]\nGateway=192.0.2.2', { gateway: '192.0.2.2' }],
    ['[Route]\nGateway=2001:db8::1\nDestination=::/0', { gateway: '2001:db8::1' }],
    ['[Route]\nGateway=_ipv6ra', {}],
  ]
  for (const [text, is] of cases) t.same(configurationOf(`[Network]\n${text}\n`), { ...NOTHING, ...is }, text)
  t.end()
})

const DHCP: Configuration = { method: 'dhcp', address: '', gateway: '', dns: [] }
const STATIC: Configuration = {
  method: 'static',
  address: '192.0.2.10/24',
  gateway: '192.0.2.1',
  dns: ['192.0.2.2', '2001:db8::2'],
}

test('a new file says what it is', t => {
  t.equal(
    editNetworkFile(undefined, 'eth0', STATIC),
    '# Set through receiverd.\n[Match]\nName=eth0\n\n[Network]\nAddress=192.0.2.10/24\nGateway=192.0.2.1\nDNS=192.0.2.2\nDNS=2001:db8::2\n',
  )
  t.equal(editNetworkFile('', 'eth0', DHCP), '# Set through receiverd.\n[Match]\nName=eth0\n\n[Network]\nDHCP=yes\n')
  t.end()
})

test('an edit changes what differs, and no other line', t => {
  const present =
    '# ours\n[Match]\nName=eth0\n[Link]\nMTUBytes=1400\n[Network]\nDHCP=no\nAddress=192.0.2.10/24\nAddress=192.0.2.11/24\nLLDP=yes\nGateway=192.0.2.1\nDNS=192.0.2.2\nDNS=2001:db8::2\n'
  const cases: readonly (readonly [next: Configuration, expected: string])[] = [
    [STATIC, present],
    [{ ...STATIC, dns: [] }, present.replace(/DNS=.*\n/g, '')],
    [{ ...STATIC, gateway: '' }, present.replace(/Gateway=.*\n/, '')],
    [{ ...STATIC, address: '192.0.2.12/24' }, present.replace('192.0.2.10', '192.0.2.12')],
    [{ ...STATIC, address: '192.0.2.11/24' }, present.replace('Address=192.0.2.10/24\n', '')],
    [DHCP, present.replace('DHCP=no', 'DHCP=yes').replace(/(Address|Gateway|DNS)=.*\n/g, '')],
  ]
  for (const [next, expected] of cases) {
    const edited = editNetworkFile(present, 'eth0', next)
    t.equal(edited, expected)
    t.same(configurationOf(edited), next)
    t.equal(editNetworkFile(edited, 'eth0', next), edited, 'the same again changes nothing')
  }
  t.end()
})

test('of several [Route] sections, a new gateway replaces those of the default route alone', t => {
  const head = '[Match]\nName=eth0\n[Network]\nDHCP=no\n[Address]\nAddress=192.0.2.10/24\n'
  const routes = {
    // The section of the default route is the beginning of another one.
    beginning: '[Route]\nGateway=192.0.2.1\nDestination=10.0.0.0/8\n',
    default: '[Route]\nGateway=192.0.2.1\n',
    other: '# to the lab\n[Route]\nDestination=198.51.100.0/24\nGateway=192.0.2.9\n',
  }
  for (const order of [
    ['beginning', 'default', 'other'],
    ['default', 'beginning', 'other'],
    ['other', 'beginning', 'default'],
    ['beginning', 'other', 'default', 'default'],
  ] as const) {
    const text = head + order.map(name => routes[name]).join('')
    const now = configurationOf(text)
    t.equal(now.gateway, '192.0.2.1')
    const others = order.filter(name => name !== 'default').map(name => routes[name])
    for (const gateway of ['192.0.2.2', '']) {
      const edited = editNetworkFile(text, 'eth0', { ...now, gateway })
      const line = gateway && `Gateway=${gateway}\n`
      t.equal(edited, head.replace('DHCP=no\n', `${line}DHCP=no\n`) + others.join(''), order.join())
      t.strictSame(configurationOf(edited), { ...now, gateway })
    }
  }
  t.end()
})

test('a gateway stays if that of the other family is replaced', t => {
  const head = '[Match]\nName=eth0\n[Network]\nDHCP=no\n'
  const lines = 'Address=192.0.2.10/24\nAddress=2001:db8::10/64\nGateway=192.0.2.1\nGateway=2001:db8::1\n'
  const sections = (gateway: string) =>
    `[Address]\nAddress=192.0.2.10/24\n[Address]\nAddress=2001:db8::10/64\n${gateway && `[Route]\nGateway=${gateway}\n`}[Route]\nGateway=2001:db8::1\nMetric=7\n`
  for (const gateway of ['192.0.2.254', '']) {
    const line = gateway && `Gateway=${gateway}\n`
    for (const [text, expected] of [
      [head + lines, head + lines.replace('Gateway=192.0.2.1\n', line)],
      [head + sections('192.0.2.1'), head.replace('DHCP', `${line}DHCP`) + sections('')],
    ] as const) {
      const now = configurationOf(text)
      t.equal(now.gateway, '192.0.2.1')
      const edited = editNetworkFile(text, 'eth0', { ...now, gateway })
      t.equal(edited, expected)
      t.same(configurationOf(edited), { ...now, gateway })
    }
  }
  const second = head + lines.replace(/(Address=192.*\n)(.*\n)/, '$2$1')
  const now = configurationOf(second)
  t.equal(now.gateway, '2001:db8::1', 'of the first address')
  t.equal(
    editNetworkFile(second, 'eth0', { ...now, gateway: 'fe80::1' })
      .match(/Gateway=.*/g)
      ?.join(),
    'Gateway=fe80::1,Gateway=192.0.2.1',
  )
  const other = { ...now, address: '192.0.2.11/24', gateway: '192.0.2.1' }
  t.notMatch(editNetworkFile(second, 'eth0', other), '2001:db8::1\n', 'but not one that was shown')
  t.notMatch(editNetworkFile(second, 'eth0', DHCP), 'Gateway')
  t.end()
})

test('where routes from a lease have a metric, those that are set have it, too', t => {
  const template = readFileSync('build/image/overlay/etc/systemd/network/80-wifi.network', 'utf8')
  const dhcp = editNetworkFile(undefined, 'wlan0', DHCP, template)
  const fixed = dhcp.replace('DHCP=yes', 'DHCP=no')
  const addressOf = (address: string) => `\n[Address]\nAddress=${address}\nRouteMetric=2048\n`
  const routeTo = (gateway: string) => gateway && `\n[Route]\nGateway=${gateway}\nMetric=2048\n`
  const first = editNetworkFile(dhcp, 'wlan0', { ...STATIC, dns: [] })
  t.equal(first, fixed + routeTo(STATIC.gateway) + addressOf(STATIC.address))
  t.equal(editNetworkFile(first, 'wlan0', DHCP).trimEnd(), dhcp.trimEnd(), 'they go with the method')

  // As it was written before: a change of one gives the metric to both.
  const earlier = fixed.replace('[Network]\n', `[Network]\nAddress=${STATIC.address}\nGateway=${STATIC.gateway}\n`)
  for (const changed of [{ address: '192.0.2.11/24' }, { gateway: '192.0.2.2' }]) {
    const next = { ...STATIC, dns: [], ...changed }
    t.equal(
      editNetworkFile(earlier, 'wlan0', next),
      fixed + routeTo(next.gateway) + addressOf(next.address),
      JSON.stringify(changed),
    )
  }
  t.equal(editNetworkFile(earlier, 'wlan0', { ...STATIC, dns: [] }), earlier)

  const further = '\n[Address]\nAddress=192.0.2.99/24\n'
  const lab = '\n# to the lab\n[Route]\nDestination=198.51.100.0/24\nGateway=192.0.2.9\n'
  let text = first + further + lab
  for (const [address, gateway] of [
    ['192.0.2.11/24', '192.0.2.1'],
    ['192.0.2.11/24', '192.0.2.2'],
    ['192.0.2.11/24', ''],
    ['2001:db8::10/64', 'fe80::1'],
  ] as const) {
    const next = { ...NOTHING, address, gateway }
    text = editNetworkFile(text, 'wlan0', next)
    t.same(configurationOf(text), next)
    t.equal(editNetworkFile(text, 'wlan0', next), text, 'the same again changes nothing')
    t.ok(text.includes(addressOf(address)) && text.includes(routeTo(gateway)))
    t.equal(text.match(/Metric=2048/g)?.length, gateway ? 4 : 3, 'two of them are of the template')
    t.ok(text.startsWith(fixed) && text.includes(lab), 'all else is kept')
  }
  t.match(text, further, 'also a further address')
  t.end()
})

test('a section header within a value or a comment is not one', t => {
  const text =
    '[Match]\nName=eth0\n[Network]\nDescription=a \\\n[Route]\n#[Route]\n[Route]\nGateway=192.0.2.1\n[Link]\nMTUBytes=1400\n'
  const now = configurationOf(text)
  t.equal(now.gateway, '192.0.2.1')
  t.equal(
    editNetworkFile(text, 'eth0', { ...now, gateway: '' }),
    text.replace('#[Route]\n[Route]\nGateway=192.0.2.1\n', ''),
  )
  t.end()
})

test('an address and a gateway that DHCP hid do not come back with the method static', t => {
  const left =
    '[Match]\nName=eth0\n[Network]\nDHCP=yes\nGateway=192.0.2.1\nAddress=192.0.2.99/24\n[Route]\nGateway=192.0.2.3\n'
  const next: Configuration = { ...NOTHING, address: '192.0.2.10/24' }
  const edited = editNetworkFile(left, 'eth0', next)
  t.strictSame(configurationOf(edited), next)
  t.notMatch(edited, /Gateway|192\.0\.2\.99/)
  t.equal(
    editNetworkFile(left, 'eth0', { ...DHCP, dns: ['192.0.2.2'] }),
    left.replace('DHCP=yes', 'DNS=192.0.2.2\nDHCP=yes'),
    'with DHCP they are kept: networkd adds them to the lease',
  )
  t.end()
})
