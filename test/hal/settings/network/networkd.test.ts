import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Test, test } from 'tap'
import type { Argv } from '../../../../hal/os/command.ts'
import { System } from '../../../../hal/os/system.ts'
import { network } from '../../../../hal/settings/network/network.ts'
import type { Interface } from '../../../../hal/settings/network/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { NEEDS_ROOT, needs } from '../../../support/needs.ts'
import { apply } from '../../support/apply.ts'

const NETWORKD = '/usr/lib/systemd/systemd-networkd'

/**
 * A networkd and a bus in namespaces of their own, which end with this process: the two ends of a cable, of which `eth0`
 * passes for a physical interface. A read-only /sys tells networkd not to wait for udev.
 */
const SCRIPT = `
set -e
mount -t tmpfs none /run
mount -t tmpfs none /etc/systemd/network
mkdir -p /run/dbus /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
chown -R systemd-network: /run/systemd/netif
ip link set lo up
ip link add eth0 type veth peer name far
ip link set far up
mac=$(cat /sys/class/net/eth0/address) index=$(cat /sys/class/net/eth0/ifindex)
mount -t tmpfs none /sys
mkdir -p /sys/class/net/eth0/device
cd /sys/class/net/eth0
echo 1 > type; echo up > operstate; echo $mac > address; echo $index > ifindex
cd /
mount -o remount,ro /sys
dbus-daemon --system --fork --nopidfile
${NETWORKD} &
read pid rest < /proc/self/stat
echo $pid
wait
`

/** The system of that networkd: files by /proc/PID/root, commands by nsenter(1). */
class EnteredSystem extends System {
  readonly #pid: string

  constructor(pid: string) {
    super(`/proc/${pid}/root`, { running: true })
    this.#pid = pid
  }

  /** Synchronously, as `networkInterfaces` asks the kernel: an earlier answer may be outdated. */
  override addresses(): Readonly<Record<string, readonly string[]>> {
    const links = JSON.parse(
      execFileSync('nsenter', this.#entered(['ip', '-json', 'address']), { encoding: 'utf8' }),
    ) as readonly {
      readonly ifname: string
      readonly addr_info: readonly { readonly local: string; readonly prefixlen: number }[]
    }[]
    const cidrs = links.map(({ ifname, addr_info }) => [
      ifname,
      addr_info.map(({ local, prefixlen }) => `${local}/${prefixlen}`).sort(),
    ])
    return Object.fromEntries(cidrs)
  }

  override async run(argv: Argv): Promise<string> {
    const { stdout } = await promisify(execFile)('nsenter', this.#entered(argv))
    return stdout
  }

  #entered(argv: Argv): readonly string[] {
    return ['--target', this.#pid, '--net', '--mount', ...argv]
  }
}

async function startNetworkd(t: Test): Promise<EnteredSystem | undefined> {
  if (needs(NETWORKD)) return undefined
  const child: ChildProcess = spawn(
    'unshare',
    ['--net', '--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', SCRIPT],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
  t.teardown(() => child.kill('SIGKILL'))
  child.stderr?.on('data', text => t.comment(String(text).trim()))
  const pid = await new Promise<string | undefined>(resolve => {
    child.stdout?.once('data', text => resolve(String(text).trim()))
    child.once('error', () => resolve(undefined)).once('exit', () => resolve(undefined))
  })
  if (!pid) return undefined
  const system = new EnteredSystem(pid)
  await eventually(() => system.exists('/run/systemd/netif/state'))
  await eventually(async () => (await system.run(['networkctl', 'list'])).includes('unmanaged'))
  return system
}

test('systemd-networkd does what is set', async t => {
  const system = await startNetworkd(t)
  if (!system) {
    t.pass('networkd', { skip: NEEDS_ROOT || needs(NETWORKD) || 'allow root to create namespaces' })
    return
  }
  writeFileSync(join(system.root, '/etc/systemd/network/05-void.network'), '[Network]\nDHCP=yes\n')
  writeFileSync(
    join(system.root, '/etc/systemd/network/80-all.network'),
    '[Match]\nName=*\n[Link]\nMTUBytes=1400\n[Network]\nDNS=192.0.2.9\n[Address]\nAddress=192.0.2.99/24\n[DHCPv4]\nRouteMetric=2048\n',
  )
  const setting = network(system)
  const networkctl = async () =>
    (await system.run(['networkctl', '--no-pager', 'status', 'eth0'])).replaceAll(/ +/g, ' ')
  await setting.read()
  const set = async (change: Partial<Interface>) => {
    const previous = await setting.read()
    const { eth0 } = previous
    if (!eth0) throw new Error('no eth0')
    const next = { eth0: { ...eth0, ...change } }
    t.same(await setting.check?.(next, previous), [])
    await apply(system, setting, previous, next)
    const { eth0: after } = await setting.read()
    t.match(after, change)
    return after
  }
  t.match(await setting.read(), { eth0: { present: true, up: true, method: 'static', dns: ['192.0.2.9'] } })

  const first = await set({ method: 'static', address: '192.0.2.10/24', gateway: '192.0.2.1', dns: ['192.0.2.2'] })
  t.ok(first?.addresses.includes('192.0.2.10/24'), 'in use when the change is done')
  t.match(await networkctl(), 'Network File: /etc/systemd/network/10-receiverd-eth0.network')
  t.match(await networkctl(), 'DNS: 192.0.2.2')
  t.match(await system.run(['ip', 'link', 'show', 'eth0']), 'mtu 1400', 'other settings of the link are kept')
  t.notMatch(first?.addresses, ['192.0.2.99/24'])
  const routes = await eventually(async () => {
    const text = await system.run(['ip', 'route'])
    return text.includes('default') && text
  })
  t.match(routes, /^default via 192\.0\.2\.1 dev eth0 .*metric 2048/m)
  t.match(routes, /^192\.0\.2\.0\/24 dev eth0 .*metric 2048/m)

  const second = await set({ address: '2001:db8::10/64', gateway: 'fe80::1', dns: ['2001:db8::2', '192.0.2.3'] })
  t.ok(second?.addresses.includes('2001:db8::10/64'), 'an IPv6 address')
  await eventually(async () => (await system.run(['ip', '-6', 'route', 'show', 'default'])).includes('via fe80::1'))
  t.notMatch(await system.run(['ip', '-json', 'address']), '192.0.2.10', 'and the previous one is gone')

  await set({ address: '192.0.2.4/31', gateway: '192.0.2.5', dns: [] })
  // A network of two addresses.
  await eventually(async () =>
    (await system.run(['ip', 'route', 'show', 'default'])).includes('via 192.0.2.5 dev eth0'),
  )

  t.match(await set({ method: 'dhcp', dns: ['192.0.2.2'] }), { address: '', gateway: '' })
  await eventually(async () => !(await system.run(['ip', '-json', 'address'])).includes('192.0.2.4'))
  t.match(await networkctl(), 'DNS: 192.0.2.2')
  // The file that we take to be in force is the one that networkd uses.
  writeFileSync(
    join(system.root, '/etc/systemd/network/08-mac.network'),
    '[Match]\nMACAddress=00:00:5e:00:53:01\n[Network]\nDHCP=no\n',
  )
  writeFileSync(
    join(system.root, '/etc/systemd/network/09-not.network'),
    '[Match]\nName=!eth* far\n[Network]\nDHCP=no\n',
  )
  await system.run(['networkctl', 'reload'])
  await system.run(['networkctl', 'reconfigure', 'eth0'])
  t.match(await networkctl(), 'Network File: /etc/systemd/network/10-receiverd-eth0.network')
})
