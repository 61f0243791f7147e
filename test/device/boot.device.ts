/** The booted image, from its first second on: proven from outside by its API, and from inside by the system's own tools. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import type { JsonObject } from '../../src/json.ts'
import { sessionsOf } from '../e2e/sessions.ts'
import { endToEnd } from '../e2e/suite.ts'
import { eventually } from '../support/eventually.ts'
import { type Follower, follow, get } from './clients.ts'
import { factoryDisk, Machine } from './machine.ts'
import { startNameServer } from './name-server.ts'

/** The same program as a package of the next version. */
const NEXT = join(REPOSITORY, 'build/out/next/receiverd.deb')
const BENCH = join(REPOSITORY, 'build/out/bench-board.cjs')
const device = new Machine(factoryDisk())
t.setTimeout(30 * 60_000)
/** What an idle minute of the service may cost, in starts of Node: however slow the emulator is. */
const MAX_STARTS = 3

t.test('the first boot', async t => {
  const bootS = await device.boot()
  t.comment(`${bootS.toFixed(1)} s from power-on to the first answer`)
  t.equal((await device.shell('systemctl is-system-running --wait')).trim(), 'running')
  t.equal(await device.shell('systemctl list-units --failed --no-legend'), '')
  t.equal(await device.shell('journalctl --quiet --boot --unit receiverd --priority warning --output cat'), '')
  t.match(await device.shell('systemctl status receiverd'), /Status: "http:\S+, 0 streams and held polls"/)
  t.match(
    await device.shell('systemd-analyze security --no-pager receiverd | tail -n 1'),
    /level for receiverd.service: 1\.\d OK/,
  )
  t.equal((await device.shell('stat -c %a:%U /var/lib/receiverd/api-key')).trim(), '600:root')
  const systemd = await device.shell('journalctl --quiet --boot --output cat --priority warning _PID=1')
  t.equal(systemd.replace(/^.*test-(shell|api).*\n/gm, ''), '', 'systemd has nothing to complain of')
})

t.test('its log is that of the journal, and its status that of the kernel', async t => {
  const messages = await device.shell('journalctl --quiet --unit receiverd --output cat --lines 20')
  const text = await (
    await device.fetch('/logs?unit=receiverd.service&lines=20', { headers: { Accept: 'text/plain' } })
  ).text()
  t.same(
    text.split('\n').map(line => line.replace(/^\S+Z receiverd\.service \w+: /, '')),
    messages.split('\n'),
  )
  const status = (await (await device.fetch('/status')).json()) as { memory: { totalBytes: number }; bootedAt: string }
  t.match(await device.readFile('/proc/meminfo'), `${status.memory.totalBytes / 1024} kB`)
  const bootedAt = Number(await device.shell('sed -n "s/^btime //p" /proc/stat'))
  t.ok(Math.abs(Date.parse(status.bootedAt) / 1000 - bootedAt) <= 2, status.bootedAt)
})

t.test('end to end', t => endToEnd(t, device))

t.test('the tools of the system say what a PATCH wrote, and what they change is an event', async t => {
  const stream = await device.stream()
  const saw = async (patch: object) => t.match((await stream.event())?.data, patch)
  const set = async (patch: object) => {
    const answer = await device.patch(patch)
    t.equal(answer.status, 200, JSON.stringify(patch))
    t.match(await answer.json(), patch)
    await saw(patch)
  }

  await set({ hostname: 'lobby-7', deviceName: 'Lobby 7' })
  const names = await device.shell('hostnamectl')
  t.match(names, /Static hostname: lobby-7$/m)
  t.match(names, /Pretty hostname: Lobby 7$/m)
  t.notMatch(names, 'Transient hostname')
  t.equal((await device.shell('hostname')).trim(), 'lobby-7')
  await device.shell('hostnamectl set-hostname --static lobby-8')
  await saw({ hostname: 'lobby-8' })
  await device.shell('hostnamectl set-hostname --pretty "Lobby 8"')
  await saw({ deviceName: 'Lobby 8' })

  await set({ timezone: 'Europe/Brussels' })
  t.equal((await device.shell('timedatectl show --property Timezone --value')).trim(), 'Europe/Brussels')
  t.match(await device.shell('date +%Z'), /^CES?T\n$/)
  await device.shell('timedatectl set-timezone Asia/Tokyo')
  await saw({ timezone: 'Asia/Tokyo' })

  await set({ locale: 'POSIX' })
  t.match(await device.shell('localectl status'), /System Locale: LANG=POSIX$/m)
  // Debian forbids localectl(1) to set it; whether it obeys is a matter of the order of files in a folder.
  await device.shell('systemd-firstboot --force --locale=C.UTF-8')
  await saw({ locale: 'C.UTF-8' })

  await set({ ntp: { enabled: false } })
  t.equal((await device.shell('timedatectl show --property NTP --value')).trim(), 'no')
  await device.shell('timedatectl set-ntp true')
  await saw({ ntp: { enabled: true } })
  await set({ ntp: { servers: ['192.0.2.7'] } })
  t.match(await device.shell('timedatectl show-timesync --property SystemNTPServers'), '192.0.2.7')
  stream.close()
})

t.test('the network, by networkctl', async t => {
  const interfaces = (await device.system()).value.network as Record<string, { method: string; addresses: string[] }>
  const [name = '', eth] = Object.entries(interfaces)[0] ?? []
  t.match(eth, { present: true, up: true, method: 'dhcp' })
  t.ok(eth?.addresses.includes('10.0.2.15/24'), 'the address that DHCP gave')
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
  await startNameServer(t, 'time.example', '192.0.2.123')
  t.equal((await device.patch({ network: { [name]: { dns: ['10.0.2.2'] } } })).status, 200)
  await eventually(async () => (await device.shell('getent ahostsv4 time.example || true')).startsWith('192.0.2.123 '))
  t.pass('names are asked of the server that the API has set')
  await device.shell(`rm /etc/systemd/network/10-receiverd-${name}.network && networkctl reload`)
  await stream.eventWhere(({ network }) => (network as typeof interfaces | undefined)?.[name]?.method === 'dhcp')
  t.pass('what networkctl reloads is an event')
  const saw = (isAdded: boolean) =>
    stream.eventWhere(
      ({ network }) =>
        (network as typeof interfaces | undefined)?.[name]?.addresses.includes('192.0.2.99/32') === isAdded,
    )
  await device.shell(`ip address add 192.0.2.99/32 dev ${name}`)
  await saw(true)
  await device.shell(`ip address del 192.0.2.99/32 dev ${name}`)
  await saw(false)
  t.pass('what ip changes is an event')
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

t.test('sessions, by the socket that systemd passes', t => sessionsOf(t, device))

t.test('a restart under 200 streams and steady requests', async t => {
  await device.replaceFile('/etc/default/receiverd', 'RECEIVERD_STREAMS_PER_ADDRESS=512\n')
  await device.restart()
  const followers: Follower[] = []
  let isOver = false
  // A test that fails must not go on asking.
  t.teardown(() => {
    isOver = true
    for (const { close } of followers) close()
  })
  // A few at a time: QEMU's forwarding of a port has a backlog of one connection.
  while (followers.length < 200) followers.push(...(await Promise.all(Array.from({ length: 4 }, () => follow(device)))))
  const failures: string[] = []
  let asked = 0
  const asking = Array.from({ length: 4 }, async () => {
    while (!isOver) {
      asked++
      const status = await get(device, '/system').catch(error => error.message)
      if (status !== 200) failures.push(String(status))
      // Steady requests, not as many as fit: the emulator would do little else.
      await sleep(50)
    }
  })
  for (const round of ['before', 'after']) {
    for (let n = 0; n < 5; n++) t.equal((await device.patch({ deviceName: `${round} ${n}` })).status, 200)
    if (round === 'before') await device.restart()
  }
  isOver = true
  await Promise.all(asking)
  t.same(failures, [], `${asked} requests, none refused`)
  const { value } = await device.system()
  await eventually(() => followers.every(({ copy }) => JSON.stringify(copy()) === JSON.stringify(value)), 120_000)
  t.pass('every stream came back, and has all of it')
})

t.test('frozen, the watchdog restarts it; killed, it is back within 2 s; with the same key', async t => {
  const pid = async () => (await device.shell('systemctl show --property MainPID --value receiverd')).trim()
  const before = await pid()
  await device.shell(`kill -STOP ${before}`)
  const frozen = performance.now()
  await eventually(async () => (await pid()) !== before, 120_000)
  t.comment(`restarted ${((performance.now() - frozen) / 1000).toFixed(1)} s after it froze`)
  t.match(await device.shell('journalctl --quiet --boot --unit receiverd --output cat'), 'Watchdog timeout')
  t.equal(await get(device, '/system'), 200)

  await device.shell(`kill -KILL ${await pid()}`)
  const killed = performance.now()
  t.equal(await get(device, '/system'), 200, 'the same key')
  const seconds = (performance.now() - killed) / 1000
  const node = Number(
    await device.shell('began=$(date +%s%N); node --eval 0; echo $((($(date +%s%N) - began) / 1000000))'),
  )
  t.comment(`back after ${seconds.toFixed(1)} s; Node alone starts in ${(node / 1000).toFixed(1)} s`)
  // 2 s on a board. An emulator, slowest with what runs for the first time, gets fifteen times what Node alone takes.
  t.ok(seconds < Math.max(2, (15 * node) / 1000), 'in time')
})

t.test(
  'an invalid option: not restarted by systemd, and slowly by clients that connect; corrected, it is back',
  async t => {
    const defaults = await device.readFile('/etc/default/receiverd')
    const starts = async () =>
      Number(
        await device.shell("journalctl --quiet --boot --unit receiverd --output cat | grep -c 'not a whole number'"),
      )
    await device.replaceFile('/etc/default/receiverd', 'RECEIVERD_EVENTS=many\n')
    await t.rejects(device.restart(), 'the restart fails')
    await sleep(10_000)
    t.equal(await starts(), 1)
    t.match(await device.shell('systemctl show --property ActiveState,Result receiverd'), /failed/)
    t.match(
      await device.shell('journalctl --quiet --boot --unit receiverd --priority err --output cat'),
      'RECEIVERD_EVENTS: "many" is not a whole number from 1 to 65536',
      'the log has it as an error',
    )

    for (let n = 0; n < 10; n++) {
      await fetch(`${device.url}/api/v1/health`, { signal: AbortSignal.timeout(1_000) }).catch(() => undefined)
      await sleep(1_000)
    }
    // Each start waits 5 s before it fails.
    const started = await starts()
    t.ok(started <= 5, `${started} starts`)
    t.equal((await device.shell('systemctl is-active receiverd.socket')).trim(), 'active', 'the port stays open')

    await device.replaceFile('/etc/default/receiverd', defaults)
    await device.restart()
    t.equal(await get(device, '/system'), 200)
  },
)

t.test('an update while clients stream: nobody is refused, and the key stays', async t => {
  const { key } = device
  const followers = await Promise.all(Array.from({ length: 4 }, () => follow(device)))
  await device.upload(NEXT, '/tmp/next.deb')
  const before = await device.receiverd('--version')
  await device.shell('dpkg --install /tmp/next.deb')
  t.not(await device.receiverd('--version'), before)
  t.equal((await device.patch({ deviceName: 'Updated' })).status, 200, 'with the same key')
  const { value } = await device.system()
  await eventually(() => followers.every(({ copy }) => JSON.stringify(copy()) === JSON.stringify(value)), 120_000)
  for (const { close } of followers) close()
  t.equal(device.key, key)
})

t.test('operations: an answer before the reboot; a factory reset after changes to every setting', async t => {
  const order = (name: string) => device.fetch(`/operations/${name}`, { method: 'POST' })
  // Nobody answers while it is down.
  const boot = () => device.shell('cat /proc/sys/kernel/random/boot_id', 20_000)
  const untilBackFrom = async (before: string) => {
    const seen = device.console.length
    await eventually(async () => {
      // Rarely, the emulator's memory is damaged by a reset: checksums of the kernel itself are wrong, or a processor hangs.
      if (/soft lockup|BAD_PAGE/.test(device.console.slice(seen))) {
        t.comment('the emulated machine has failed, and is switched off and on')
        device.cutPower()
        await device.boot()
      }
      const now = await boot().catch(() => before)
      return now !== before && (await fetch(`${device.url}/api/v1/health`).catch(() => undefined))?.ok
    }, 10 * 60_000)
    await device.loadKey()
    // In an emulator, commands take longer than they may while the rest is still starting.
    await device.shell('systemctl is-system-running --wait || true', 5 * 60_000)
  }
  /** The files and links of /etc with their modes, owners and contents. What each start makes anew has a test of its own. */
  const etc = async () => {
    const find = 'find . ! -path "./receiverd/tls/*" ! -path ./avahi/services/receiverd.service'
    const names = `${find} ! -type d -printf '%p %y %m %U:%G %l\\n'`
    return (await device.shell(`cd /etc && { ${names}; ${find} -type f -exec sha256sum {} +; } | sort`)).split('\n')
  }

  // From here on every file is an original.
  const first = await boot()
  t.equal((await order('factory-reset')).status, 202)
  await untilBackFrom(first)
  const [original, { value }] = [await etc(), await device.system()]
  const { key } = device
  const [name = ''] = Object.keys(value.network ?? {})
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
    t.equal(answer.status, 200, `${JSON.stringify(change)}: ${await answer.text()}`)
  }
  t.notSame(await etc(), original)

  const used = await boot()
  t.equal((await order('reboot')).status, 202)
  await untilBackFrom(used)
  t.equal((await device.system()).value.hostname, 'changed')
  const before = await boot()
  t.equal((await order('factory-reset')).status, 202)
  await untilBackFrom(before)
  t.same(await etc(), original)
  t.not(device.key, key)
  t.equal((await device.fetchAs(key)).status, 401)
  t.same((await device.system()).value.deviceName, value.deviceName)
  t.equal((await device.shell('systemctl is-system-running --wait')).trim(), 'running')
})

t.test('idle means idle', async t => {
  const usage = async () => {
    const status = await device.shell('cat /proc/$(systemctl show --property MainPID --value receiverd)/status')
    const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1])
    const threads = await device.shell(
      'cat /proc/$(systemctl show --property MainPID --value receiverd)/task/*/status | grep ^voluntary_ctxt_switches',
    )
    return {
      anonymous: kib('RssAnon') / 1024,
      file: kib('RssFile') / 1024,
      cpuMs: Number((await device.shell('systemctl show --property CPUUsageNSec --value receiverd')).trim()) / 1e6,
      wakes: Array.from(threads.matchAll(/\d+/g), Number).reduce((sum, count) => sum + count, 0),
    }
  }
  const cpuMsOfNode = async () => {
    const seconds = await device.shell(`bash -c "TIMEFORMAT='%U %S'; time node -e 0"`)
    return seconds.split(' ').reduce((sum, part) => sum + Number(part) * 1_000, 0)
  }
  // What the tests before this one left behind is collected, and the caches are warm.
  await sleep(60_000)
  let best = { starts: Number.POSITIVE_INFINITY, wakes: 0 }
  // The emulator's clock counts what else the host does. That only adds.
  for (let n = 0; n < 3 && best.starts >= MAX_STARTS; n++) {
    const before = await usage()
    await sleep(60_000)
    const after = await usage()
    const [cpuMs, wakes, nodeMs] = [after.cpuMs - before.cpuMs, after.wakes - before.wakes, await cpuMsOfNode()]
    t.comment(
      `anonymous ${after.anonymous.toFixed(1)} MiB, file ${after.file.toFixed(1)} MiB; in a minute ` +
        `${cpuMs.toFixed(0)} ms of the emulator's CPU, its commands included, and ${wakes} wakes; ` +
        `a start of node takes ${nodeMs.toFixed(0)} ms of it`,
    )
    t.ok(after.anonymous < 64, 'memory')
    if (cpuMs / nodeMs < best.starts) best = { starts: cpuMs / nodeMs, wakes }
  }
  t.ok(best.starts < MAX_STARTS, `CPU: ${best.starts.toFixed(2)} starts of node`)
  // Of all its threads.
  t.ok(best.wakes <= 150, `${best.wakes} wakes`)
})

t.test('the bench for boards runs there', async t => {
  await device.upload(BENCH, '/tmp/bench-board.cjs')
  const table = await device.shell('node /tmp/bench-board.cjs --quick', 15 * 60_000)
  t.comment(table)
  t.match(table, 'its absolute figures are not those of a board')
  const [, delivered, of] = /(\d+) of (\d+) events delivered/.exec(table) ?? []
  t.equal(delivered, of)
})

t.test('removed, the key stays; purged, it goes', async t => {
  const { key } = device
  await device.shell('dpkg --remove receiverd-mirroring receiverd-tls receiverd')
  await t.rejects(device.fetch('/health'), 'nobody listens')
  t.equal(await device.shell('cat /var/lib/receiverd/api-key'), `${key}\n`)
  await device.shell('dpkg --purge receiverd-mirroring receiverd-tls receiverd')
  const left = '/var/lib/receiverd /var/cache/receiverd /etc/receiverd/tls /etc/avahi/services/receiverd.service'
  t.equal(await device.shell(`ls -d ${left} 2>/dev/null || true`), '')
  t.equal((await device.shell('systemctl is-system-running')).trim(), 'running')
  device.cutPower()
})
