import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import type { Interface } from '../../../../hal/settings/network/schema.ts'
import { device, ETH0, withChange } from './support.ts'

test('the file in force is the first that applies to the interface', async t => {
  const { root, value, put } = await device(t, 'bare-arm64')
  const address = async () => (await value()).eth0?.address
  const file = (match: string, octet: number) => `[Match]\n${match}\n[Network]\nAddress=192.0.2.${octet}/24\n`
  put('/run/systemd/network/40-run.network', file('Name=eth*', 1))
  t.equal(await address(), '192.0.2.1/24', 'before the file that begins with 80')
  put('/etc/systemd/network/30-other.network', file('Name=wlan*', 2))
  t.equal(await address(), '192.0.2.1/24', 'not a file for another interface')
  put('/etc/systemd/network/40-run.network', file('Name=eth0', 3))
  t.equal(await address(), '192.0.2.3/24', 'in /etc rather than in /run')
  put('/etc/systemd/network/40-run.network.d/a.conf', '[Network]\nAddress=\nAddress=192.0.2.4/24\n')
  t.equal(await address(), '192.0.2.4/24', 'with what a drop-in adds')
  put('/etc/systemd/network/20-driver.network', file('Driver=fec', 5))
  t.equal(await address(), '192.0.2.4/24', 'not a file whose conditions cannot be determined')
  put('/run/systemd/netif/links/2', 'NETWORK_FILE=/etc/systemd/network/20-driver.network\n')
  t.equal(await address(), '192.0.2.5/24', 'unless networkd names it')
  rmSync(join(root, 'etc/systemd/network'), { recursive: true })
  mkdirSync(join(root, 'etc/systemd/network'))
  symlinkSync('/dev/null', join(root, 'etc/systemd/network/40-run.network'))
  t.equal(await address(), '', 'not a masked file')
  rmSync(join(root, 'usr/lib/systemd/network'), { recursive: true })
  t.match(await value(), { eth0: { method: 'dhcp', address: '', gateway: '', dns: [] } }, 'no file')
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

test('our file keeps what else the file in force says about the interface', async t => {
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
    'but not what it would set otherwise',
  )
})

test('where a file of others takes precedence, a change is refused', async t => {
  const { setting, value, put } = await device(t, 'x86-box')
  const previous = await value()
  const refused = async (name: string, change: Partial<Interface> = { dns: ['203.0.113.9'] }) =>
    (await setting.check?.(withChange(previous, name, change), previous)) ?? []
  t.match(await refused('enp1s0'), [
    {
      pointer: '/enp1s0',
      detail: 'set by 10-netplan-enp1s0.network, which precedes 10-receiverd-enp1s0.network',
    },
  ])
  t.same(await refused('enp2s0'), [])
  put('/etc/systemd/network/05-driver.network', '[Match]\nDriver=igc\n[Network]\nDHCP=yes\n')
  t.match(
    await refused('enp2s0'),
    [{ pointer: '/enp2s0', detail: /05-driver.network/ }],
    'also if it may apply to the interface',
  )
})

test('where our own file would not come into force, a change is refused', async t => {
  const { root, setting, value, put } = await device(t, 'bare-arm64')
  const previous = await value()
  const next = withChange(previous, 'eth0', { dns: ['192.0.2.1'] })
  put(ETH0, '[Match]\nName=eth1\n[Network]\nDHCP=yes\n')
  t.match(await setting.check?.(next, previous), [{ pointer: '/eth0', detail: /for another interface/ }])
  rmSync(join(root, ETH0))
  symlinkSync('/dev/null', join(root, ETH0))
  t.match(await setting.check?.(next, previous), [{ pointer: '/eth0', detail: /is masked/ }])
})
