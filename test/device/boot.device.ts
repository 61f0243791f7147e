/**
 * The booted image, from its first second on: proven from outside by its API and its screen, and from inside by the system's own
 * tools. PROOF=1 also runs the bench for boards, cuts the power while a device mirrors, and has the watchdog restart it.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import type { JsonObject } from '../../src/json.ts'
import { NO_RIG } from '../rig/available.ts'
import { startRig } from '../rig/rig.ts'
import { eventually } from '../support/eventually.ts'
import { NEEDS_PROOF } from '../support/needs.ts'
import { DISK_BYTES } from './boards.ts'
import { CERTIFICATE_MS, factoryDisk, Machine, OUTSIDE_PORT } from './machine.ts'
import { mirrors } from './mirroring.ts'
import { startNameServer } from './name-server.ts'

const BENCH = join(REPOSITORY, 'build/out/bench-board.cjs')
interface Interface {
  method: string
  addresses: string[]
}

const run = promisify(execFile)
/** The interface on the host that leads to the device's second network. */
const LAN = `rd-lan-${process.pid % 10_000}`
const NO_LAN = NO_RIG || (!existsSync('/dev/net/tun') && 'there is no /dev/net/tun')
const device = new Machine(factoryDisk(), NO_LAN ? {} : { lan: LAN })
t.setTimeout(60 * 60_000)
/** Limit of an idle minute of the service, in starts of Node, however slow the emulator is. */
const MAX_STARTS = 1.5
/**
 * The same limit in wakes of the event loop. V8's threads wake only while it works: a dozen times for each collection, within
 * 10 ms.
 */
const MAX_WAKES = 40
/** Writes a line to the log, durably, and looks for it, which fails if it is not there. */
const WITNESS = 'logger --tag witness before; journalctl --sync'
const WITNESSED = 'journalctl --quiet --identifier=witness --output cat | grep before'

const curl = async (...args: string[]) => (await run('curl', ['-sS', '--max-time', '30', ...args])).stdout
const pinned = (pin: string, path: string, ...args: string[]) =>
  curl('--insecure', '--pinnedpubkey', `sha256//${pin}`, ...args, `https://${device.address}${path}`)

/** The pin and the fingerprint, once there is a certificate. */
async function certificate(): Promise<{ readonly pin: string; readonly fingerprint: string }> {
  const text = await eventually(
    () => device.receiverd('key', 'show', '--verbose').catch(() => undefined),
    CERTIFICATE_MS,
  )
  const [, pin = ''] = /sha256\/\/([\w+/]{43}=)/.exec(text) ?? []
  const [, fingerprint = ''] = /(([0-9A-F]{2}:){31}[0-9A-F]{2})/.exec(text) ?? []
  return { pin, fingerprint }
}

/** The configuration of the interface that leads to the host, and its name. */
async function wired(): Promise<readonly [name: string, value: Interface]> {
  const interfaces = (await device.system()).value.network as Record<string, { method: string; addresses: string[] }>
  const found = Object.entries(interfaces).find(([, { addresses }]) => addresses.includes('10.0.2.15/24'))
  if (!found) throw new Error(`no interface has the address that QEMU gives: ${JSON.stringify(interfaces)}`)
  return found
}

/** As it comes out of its box. */
let factory: { readonly etc: readonly string[]; readonly name: string }

/**
 * The files and links of /etc with their modes, owners and contents. The certificate and the announcement, which each start
 * makes again, have tests of their own; they may be half written now.
 */
async function etc(): Promise<readonly string[]> {
  const find = 'find . ! -path "./receiverd/tls/*" ! -path "./avahi/services/*receiverd.service*"'
  const names = `${find} ! -type d -printf '%p %y %m %U:%G %l\\n'`
  return (await device.shell(`cd /etc && { ${names}; ${find} -type f -exec sha256sum {} +; } | sort`)).split('\n')
}

t.test('the first boot', async t => {
  const bootS = await device.boot()
  t.comment(`${bootS.toFixed(1)} s from power-on to the first answer`)
  await device.untilStarted()
  t.equal(await device.shell('systemctl list-units --failed --no-legend'), '')
  t.equal(await device.shell('journalctl --quiet --boot --unit receiverd --priority warning --output cat'), '')
  t.match(await device.shell('systemctl status receiverd'), /Status: "http:\S+, 0 streams and held polls"/)
  t.match(
    await device.shell('systemd-analyze security --no-pager receiverd | tail -n 1'),
    /level for receiverd.service: 1\.\d OK/,
  )
  t.match(await device.shell('systemd-analyze cat-config systemd/system.conf'), /^RuntimeWatchdogSec=15$/m)
  t.equal(
    (await device.shell('systemctl show --property RuntimeWatchdogUSec --value')).trim(),
    '1min',
    'of the emulator',
  )
  t.equal(await device.shell('cd /proc/sys/kernel; cat panic softlockup_panic watchdog_thresh'), '10\n1\n60\n')
  t.match(await device.shell('cat /usr/share/doc/receiverd/THIRD-PARTY'), /^typebox /m)
  t.equal((await device.shell('stat -c %a:%U /var/lib/receiverd/api-key')).trim(), '600:root')
  const mounts = await device.shell('findmnt --noheadings --list --output TARGET,FSTYPE,OPTIONS')
  for (const mount of ['/ ext4 ro', '/data ext4 rw', '/etc overlay rw', '/var overlay rw', '/boot/firmware vfat ro'])
    t.match(mounts.replace(/ +/g, ' '), new RegExp(`^${mount},`, 'm'))
  const systemd = await device.shell('journalctl --quiet --boot --output cat --priority warning _PID=1')
  t.equal(systemd.replace(/^.*test-(shell|api).*\n/gm, ''), '', 'systemd has nothing to complain of')
  factory = { etc: await etc(), name: (await device.shell('hostname')).trim() }
})

t.test('the disk is its own, with two systems of the same size, and data in between', async t => {
  const { partitiontable } = JSON.parse(await device.shell('sfdisk --json /dev/receiver/disk'))
  const [boot, a, b, data] = partitiontable.partitions
  t.not(partitiontable.id, '0x52435652')
  t.equal(a.start, boot.start + boot.size)
  t.equal(data.start, a.start + a.size)
  t.equal(b.start, data.start + data.size)
  t.equal(b.size, a.size)
  t.ok((DISK_BYTES / 512 - b.start - b.size) * 512 <= 2 * 1024 ** 2, 'up to the end of the disk')
  const bytes = Number(await device.shell('df --output=size --block-size=1 /data | tail -1'))
  t.ok(bytes > 0.9 * data.size * 512, `${bytes} bytes of ${data.size * 512}`)
  t.match(await device.shell('rauc status --output-format=json'), /"booted":"A","boot_primary":"rootfs.0"/)
})

t.test('its screen, and a device that mirrors', t => mirrors(t, device))

t.test('its log is that of the journal, and its status that of the kernel', async t => {
  let [text, messages] = ['', '-']
  // There may be a line between the two.
  for (let looks = 0; text !== messages && looks < 5; looks++) {
    messages = await device.shell('journalctl --quiet --unit receiverd --output cat --lines 20')
    const answer = await device.fetch('/logs?unit=receiverd.service&lines=20', { headers: { Accept: 'text/plain' } })
    text = (await answer.text()).replaceAll(/^\S+Z receiverd\.service \w+: /gm, '')
  }
  t.same(text.split('\n'), messages.split('\n'))
  const status = (await (await device.fetch('/status')).json()) as { memory: { totalBytes: number }; bootedAt: string }
  t.match(await device.readFile('/proc/meminfo'), `${status.memory.totalBytes / 1024} kB`)
  const bootedAt = Number(await device.shell('sed -n "s/^btime //p" /proc/stat'))
  t.ok(Math.abs(Date.parse(status.bootedAt) / 1000 - bootedAt) <= 2, status.bootedAt)
})

t.test('a client that knows the pin reaches the device, and nobody reaches the API without TLS', async t => {
  const { pin } = await certificate()
  const answer = await eventually(() => pinned(pin, '/api/v1/health').catch(() => undefined), CERTIFICATE_MS)
  t.match(JSON.parse(answer), { status: 'ok' })
  const system = await pinned(pin, '/api/v1/system', '-H', `Authorization: Bearer ${device.key}`)
  t.match(JSON.parse(system), { hostname: /^receiver-/ })
  await t.rejects(pinned(Buffer.alloc(32).toString('base64'), '/'), /public key does not match/)
  t.match(await curl('-i', `http://${device.address}/`), /^HTTP\/1\.1 308 [\s\S]*^Location: https:\/\//m)
  await t.rejects(curl(`http://${device.address}:${OUTSIDE_PORT}/api/v1/health`))
  const names = await eventually(async () => {
    const names = await device.certifiedNames()
    return names.includes('IP Address:10.0.2.15') && names
  }, CERTIFICATE_MS)
  t.match(names, /DNS:receiver-[0-9a-f]{6}, DNS:receiver-[0-9a-f]{6}\.local/)
})

t.test('another machine of the network finds it by avahi, and reaches it by its pin', { skip: NO_LAN }, async t => {
  const files = {
    '/etc/systemd/network/10-lan.network':
      '[Match]\nName=lan0\n[Network]\nAddress=192.168.77.1/24\nDHCPServer=yes\n[DHCPServer]\nEmitRouter=no\nEmitDNS=no\n',
  }
  const neighbour = await startRig(t, { files })
  await run('ip', ['link', 'set', LAN, 'netns', `${neighbour.pid}`, 'name', 'lan0'])
  // The interface would disappear with the neighbor's network, and the emulator would fail at its next reset.
  const back = ['ip', 'link', 'set', 'lan0', 'netns', `${process.pid}`, 'name', LAN]
  t.teardown(() => run('nsenter', ['--target', `${neighbour.pid}`, '--net', ...back]))
  const { value } = await device.system()
  const found = await eventually(async () => {
    const all: { name: string; url: string; pin: string }[] = JSON.parse(
      await neighbour.receiverd('discover', '--json'),
    )
    return all.find(({ name, url }) => name === value.deviceName && url.startsWith('https://192.168.77.'))
  }, CERTIFICATE_MS)
  const { pin } = await certificate()
  t.match(found, { pin, model: (value.hardware as JsonObject).model })
  const answer = ['-H', `Authorization: Bearer ${device.key}`, `${found.url}api/v1/system`]
  const curl = ['curl', '-sS', '--max-time', '60', '--insecure', '--pinnedpubkey']
  const system = await run('nsenter', [
    '--target',
    `${neighbour.pid}`,
    '--net',
    ...curl,
    `sha256//${found.pin}`,
    ...answer,
  ])
  t.equal(JSON.parse(system.stdout).deviceName, value.deviceName)
  const names = await neighbour.shell(`avahi-browse --resolve --parsable --terminate _https._tcp`)
  // avahi-browse(1) prints a space as a decimal escape.
  const name = String(value.deviceName).replaceAll(' ', '\\\\032')
  t.match(names, new RegExp(`^=;lan0;IPv4;${name};.*;192\\.168\\.77\\.\\d+;443;`, 'm'))
})

t.test('operations: an answer before the reboot; a factory reset after changes to every setting', async t => {
  const restartsBy = async (name: string) => {
    await device.restartsBy(async () => {
      t.equal((await device.fetch(`/operations/${name}`, { method: 'POST' })).status, 202)
    })
    // In an emulator, commands time out while other units are still starting.
    await device.untilStarted()
  }
  const { value } = await device.system()
  const { key } = device
  const [name] = await wired()
  const first = await certificate()
  const changes: readonly JsonObject[] = [
    { hostname: 'changed', deviceName: 'Changed', timezone: 'Asia/Tokyo', locale: 'POSIX' },
    { ntp: { enabled: false, servers: ['192.0.2.7'] } },
    { network: { [name]: { dns: ['192.0.2.53'] } } },
    { moderation: { approval: 'moderator', timeoutS: 60 } },
    { ssh: { enabled: false } },
    { airplay: { name: 'Changed', access: 'pin', enabled: false } },
    { display: Object.fromEntries(Object.keys(value.display ?? {}).map(output => [output, { rotation: 90 }])) },
    { audio: { volume: 1 } },
    { timezone: 'UTC', ntp: { enabled: true } },
  ]
  for (const change of changes) {
    if (Object.keys(change).some(setting => value[setting] === undefined)) continue
    const answer = await device.patch(change)
    const refusal = answer.ok ? '' : `: ${await answer.text()}\n${await device.state()}`
    t.equal(answer.status, 200, `${JSON.stringify(change)}${refusal}`)
  }
  t.notSame(await etc(), factory.etc)

  // `make test` has every state that a restart finds.
  if (!NEEDS_PROOF) await restartsBy('reboot')
  t.equal((await device.system()).value.hostname, 'changed')
  const renewed = await eventually(async () => {
    const renewed = await certificate()
    return renewed.fingerprint !== first.fingerprint && renewed
  }, CERTIFICATE_MS)
  t.equal(renewed.pin, first.pin, 'another name, another certificate, the same pin')
  await device.shell(`${WITNESS}; ${WITNESSED}`)
  await restartsBy('factory-reset')
  await t.rejects(device.shell(WITNESSED), /failed/, 'its log is gone')
  const reset = await etc()
  const onlyIn = (lines: readonly string[], others: readonly string[]) =>
    lines.filter(line => !others.includes(line)).join('\n')
  t.equal(onlyIn(factory.etc, reset), '', `missing in /etc: ${onlyIn(factory.etc, reset)}`)
  t.equal(onlyIn(reset, factory.etc), '', `new in /etc: ${onlyIn(reset, factory.etc)}`)
  t.not(device.key, key)
  t.equal((await device.fetchAs(key)).status, 401)
  t.equal((await device.system()).value.deviceName, factory.name)
  await device.untilStarted()
  await eventually(async () => (await certificate()).pin !== first.pin, CERTIFICATE_MS)
  t.pass('the certificate has another key')
})

t.test('the network, by networkctl', async t => {
  const [name, eth] = await wired()
  t.match(eth, { present: true, up: true, method: 'dhcp' })
  const stream = await device.stream()
  const answer = await device.patch({
    network: { [name]: { method: 'static', address: '10.0.2.15/24', gateway: '10.0.2.2', dns: ['192.0.2.53'] } },
  })
  t.equal(answer.status, 200)
  t.match((await stream.event())?.data, { network: { [name]: { method: 'static', address: '10.0.2.15/24' } } })
  const status = await device.shell(`networkctl status ${name}`)
  t.match(status, `10-receiverd-${name}.network`)
  t.match(status, /Gateway: 10\.0\.2\.2/)
  t.match(status, /DNS: 192\.0\.2\.53/)
  t.equal((await device.patch({ ntp: { servers: ['192.0.2.7'] } })).status, 200)
  t.match(await device.shell('timedatectl show-timesync --property SystemNTPServers'), '192.0.2.7')
  await startNameServer(t, 'time.example', '192.0.2.123')
  t.equal((await device.patch({ network: { [name]: { dns: ['10.0.2.2'] } } })).status, 200)
  await eventually(async () => (await device.shell('getent ahostsv4 time.example || true')).startsWith('192.0.2.123 '))
  t.pass('names are asked of the server that the API has set')
  await device.shell(`rm /etc/systemd/network/10-receiverd-${name}.network && networkctl reload`)
  await stream.eventWhere(
    ({ network }) => (network as Record<string, Interface> | undefined)?.[name]?.method === 'dhcp',
  )
  t.pass('a reload by networkctl is an event')
  const saw = (isAdded: boolean) =>
    stream.eventWhere(
      ({ network }) =>
        (network as Record<string, Interface> | undefined)?.[name]?.addresses.includes('192.0.2.99/32') === isAdded,
    )
  await device.shell(`ip address add 192.0.2.99/32 dev ${name}`)
  await saw(true)
  await device.shell(`ip address del 192.0.2.99/32 dev ${name}`)
  await saw(false)
  t.pass('a change by ip is an event')
  stream.close()
})

t.test('sound, by amixer', async t => {
  await eventually(async () => (await device.system()).value.audio !== undefined, 60_000)
  const answer = await device.patch({ audio: { volume: 40, muted: false } })
  t.equal(answer.status, 200)
  const { audio } = (await answer.json()) as { audio: { volume: number } }
  t.match(await device.shell('amixer -M sget Master'), `[${audio.volume}%]`)
  const stream = await device.stream()
  await device.shell('amixer -q -M sset Master 80%')
  const volumeIn = ({ audio }: JsonObject) => (audio as { volume: number } | undefined)?.volume ?? 0
  await stream.eventWhere(data => Math.abs(volumeIn(data) - 80) < 5)
  t.pass('a change by amixer is an event')

  const driver = '/sys/bus/pci/drivers/snd_hda_intel'
  const card = (await device.shell(`basename ${driver}/0000:*`)).trim()
  await device.shell(`echo ${card} > ${driver}/unbind`)
  await stream.eventWhere(data => volumeIn(data) === 0 && 'audio' in data)
  await device.shell(`echo ${card} > ${driver}/bind`)
  await stream.eventWhere(data => volumeIn(data) > 0)
  t.pass('a sound card that goes, and one that comes, is an event')
  stream.close()
})

t.test('idle means idle', async t => {
  const usage = async () => {
    // The status of the process, and of its first thread, with the second in which it was read: a command takes seconds here.
    const status = await device.shell(
      'cat /proc/$(systemctl show --property MainPID --value receiverd)/status /proc/uptime',
    )
    const count = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1])
    return {
      anonymous: count('RssAnon') / 1024,
      file: count('RssFile') / 1024,
      cpuMs: Number((await device.shell('systemctl show --property CPUUsageNSec --value receiverd')).trim()) / 1e6,
      wakes: count('voluntary_ctxt_switches'),
      second: Number(/^(\d+\.\d+) \d+\.\d+$/m.exec(status)?.[1]),
    }
  }
  const cpuMsOfNode = async () => {
    const seconds = await device.shell(`bash -c "TIMEFORMAT='%U %S'; time node -e 0"`)
    return seconds.split(' ').reduce((sum, part) => sum + Number(part) * 1_000, 0)
  }
  const least = { starts: Number.POSITIVE_INFINITY, wakes: Number.POSITIVE_INFINITY }
  // In the first minute, garbage of the tests before this one is collected. The emulator's clock also counts the host's other
  // work, and the service reacts to changes of the network. All of these can only add.
  for (let n = 0; n < 4 && (least.starts >= MAX_STARTS || least.wakes > MAX_WAKES); n++) {
    const before = await usage()
    await sleep(60_000)
    const after = await usage()
    const minutes = (after.second - before.second) / 60
    const cpuMs = (after.cpuMs - before.cpuMs) / minutes
    const wakes = (after.wakes - before.wakes) / minutes
    const nodeMs = await cpuMsOfNode()
    t.comment(
      `anonymous ${after.anonymous.toFixed(1)} MiB, file ${after.file.toFixed(1)} MiB; in a minute ` +
        `${cpuMs.toFixed(0)} ms of the emulator's CPU, its commands included, and ${wakes.toFixed(0)} wakes; ` +
        `a start of node takes ${nodeMs.toFixed(0)} ms of it`,
    )
    t.ok(after.anonymous < 64, 'memory')
    least.starts = Math.min(least.starts, cpuMs / nodeMs)
    least.wakes = Math.min(least.wakes, wakes)
  }
  t.ok(least.starts < MAX_STARTS, `CPU: ${least.starts.toFixed(2)} starts of node`)
  t.ok(least.wakes <= MAX_WAKES, `${least.wakes.toFixed(0)} wakes`)
})

t.test('the bench for boards runs there', { skip: NEEDS_PROOF }, async t => {
  await device.upload(BENCH, '/tmp/bench-board.cjs')
  const table = await device.shell('node /tmp/bench-board.cjs --quick', 15 * 60_000)
  t.comment(table)
  t.match(table, 'its absolute figures are not those of a board')
  const [, delivered, of] = /(\d+) of (\d+) events delivered/.exec(table) ?? []
  t.equal(delivered, of)
})

t.test('a device that hangs is restarted by its watchdog', { skip: NEEDS_PROOF }, async t => {
  t.match(await device.shell('wdctl /dev/watchdog0'), /i6300ESB/)
  await device.shell(WITNESS)
  const began = performance.now()
  await device.restartsBy(async () => {
    // Freezes systemd.
    await device.shell('echo 1 >/sys/fs/cgroup/init.scope/cgroup.freeze')
  })
  t.comment(`it answers again after ${((performance.now() - began) / 1000).toFixed(0)} s`)
  t.equal((await device.system()).value.hostname, (await device.shell('hostname')).trim())
  t.ok(await device.shell(WITNESSED), 'the log has what came before')
})

t.test('off', async () => device.cutPower())
