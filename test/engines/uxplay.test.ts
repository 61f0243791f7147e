/** UxPlay as a device sees it: it is found, mirrors, refuses, restarts. */
import { equal, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { NO_RIG } from '../rig/available.ts'
import { REPOSITORY } from '../rig/disk.ts'
import { forgetPictures, lastPicture, PICTURES, type Picture } from '../rig/frames.ts'
import { browse } from '../rig/mdns.ts'
import { startRig } from '../rig/rig.ts'
import { eventually } from '../support/eventually.ts'
import { AirPlayClient } from './airplay/client.ts'
import { Room } from './room.ts'

const CONTROL = 7001
const READY_MS = 60_000
/** Exists while a device is connected. */
const DEVICE = '/run/uxplay/device'
/**
 * As uxplay.service limits its log: LogRateLimitIntervalSec, and LogRateLimitBurst times six, which is as far as journald goes
 * where the disk has room (systemd's journald-rate-limit.c).
 */
const [LOG_INTERVAL_MS, MAX_LOG_LINES] = [10_000, 1_200]
/** White, yellow, cyan, green, magenta, red, blue, black. */
const BARS = [
  [255, 255, 255],
  [255, 255, 0],
  [0, 255, 255],
  [0, 255, 0],
  [255, 0, 255],
  [255, 0, 0],
  [0, 0, 255],
  [0, 0, 0],
]

/** About one time in fifty, UxPlay 1.71 crashes after a device has left. A restart makes the next test independent of it. */
async function restart(room: Room): Promise<void> {
  await room.rig.run(['systemctl', 'restart', 'uxplay'])
  await room.untilReady()
}

/** Whether the middle of each bar has its colour, within the rounding errors of YCbCr. */
function showsBars(picture: Picture): boolean {
  const isBar = (color: readonly number[], bar: number, y: number) =>
    picture.color(bar * 40 + 20, y).every((part, at) => Math.abs(part - (color[at] ?? 0)) < 16)
  // The moving line covers at most one of these rows.
  return [8, 100].some(y => BARS.every((color, bar) => isBar(color, bar, y)))
}

t.test('a receiver that lets everybody in', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  const room = new Room(rig, t)
  await room.untilReady()

  await t.test('is found by its name, from within and from outside', async t => {
    const browsed = () => rig.run(['avahi-browse', '--terminate', '--parsable', '--no-db-lookup', '_airplay._tcp'])
    await eventually(async () => (await browsed()).includes('+;eth0;IPv4;Room\\0324;_airplay._tcp;local\n'), READY_MS)
    const found = await eventually(async () => {
      const all = await browse('_airplay._tcp', rig.hostAddress)
      return all.length > 0 && all
    }, READY_MS)
    t.same(found, [{ name: 'Room 4', port: CONTROL }])
    await rig.run(['systemctl', 'restart', 'avahi-daemon'])
    await eventually(async () => (await browse('_airplay._tcp', rig.hostAddress)).length > 0, READY_MS)
    t.pass('also after a restart of avahi')
    await rig.run(['systemctl', 'stop', 'avahi-daemon.socket', 'avahi-daemon.service'])
    await rig.run(['systemctl', 'start', 'avahi-daemon.socket', 'avahi-daemon.service'])
    await eventually(async () => (await browse('_airplay._tcp', rig.hostAddress)).length > 0, READY_MS)
    t.pass('and after somebody has stopped and started it')
  })

  await t.test('runs again after somebody has stopped and started the screen', async t => {
    const unit = readFileSync(join(REPOSITORY, 'build/package/weston.service'), 'utf8')
    const [then] = /^ExecStartPost=.*$/m.exec(unit) ?? []
    await rig.replaceFile('/run/systemd/system/weston.service', `[Service]\nExecStart=sleep infinity\n${then}\n`)
    await rig.run(['systemctl', 'daemon-reload'])
    for (const verb of ['start', 'stop', 'start']) await rig.run(['systemctl', verb, 'weston'])
    await room.untilReady()
    t.pass('it listens')
  })

  for (const protocol of ['IPv4', 'IPv6'])
    await t.test(`shows what is mirrored by ${protocol}, until the device leaves`, async t => {
      await restart(room)
      const host = protocol === 'IPv4' ? rig.address : rig.address6
      const client = await room.unlessCrashed(async () => {
        await forgetPictures(rig)
        const client = room.device({ host, name: 'Großer "Saal" 🎬' })
        equal(await client.advance(), 'mirroring')
        ok(rig.isListening(7000), 'the port for video')
        let picture: Picture | undefined
        await eventually(async () => {
          picture = await lastPicture(rig)
          return picture !== undefined && showsBars(picture)
        }, READY_MS)
        equal(picture?.height, 176)
        return client
      })
      t.ok(client.timingRequests > 0)
      await client.leave()
      await eventually(() => !rig.isListening(7000), READY_MS)
    })

  await t.test('has one device at a time', async () => {
    await restart(room)
    await room.unlessCrashed(async () => {
      const [first, second] = ['1', '2'].map(id => room.device({ deviceId: `AA:BB:CC:00:00:0${id}` }))
      equal(await first?.advance(), 'mirroring')
      equal(await second?.advance(), 'busy')
      await first?.leave()
    })
  })

  await t.test('ends what is mirrored when it is restarted', async t => {
    await restart(room)
    const client = await room.unlessCrashed(async () => {
      const client = room.device()
      equal(await client.advance(), 'mirroring')
      equal(await rig.run(['stat', '--format=%a:%U', DEVICE]), '600:uxplay\n')
      return client
    })
    const ended = client.ended()
    await rig.run(['systemctl', 'restart', 'uxplay'])
    t.match(await ended, /FIN|ECONNRESET/)
    await room.untilReady()
    t.notMatch(await rig.run(['ls', dirname(DEVICE)]), 'device')
    t.equal(await new AirPlayClient({ host: rig.address }).advance('setup'), 'setup', 'the next one gets in')
  })

  await t.test('is back after a crash, with the same ID', async t => {
    const idOf = async () => {
      const client = new AirPlayClient({ host: rig.address })
      const seen = once(client, 'step') as Promise<[string, { deviceID: string }]>
      await client.advance('info')
      await client.leave('close')
      return (await seen)[1].deviceID
    }
    await restart(room)
    const id = await idOf()
    t.match(id, /^02(:[0-9a-f]{2}){5}$/)
    await rig.run(['systemctl', 'kill', '--signal=KILL', 'uxplay'])
    await eventually(() => !rig.isListening(CONTROL))
    await room.untilReady()
    t.equal(await idOf(), id)
  })

  await t.test('is killed when the screen has turned it away, which no name can feign', async t => {
    const mainPid = async () => (await rig.run(['systemctl', 'show', '-P', 'MainPID', 'uxplay'])).trim()
    // As libwayland prints it.
    const turnedAway = 'xdg_surface#15: error 3: xdg_surface has never been configured'
    const pid = await mainPid()
    const feigns = new AirPlayClient({ host: rig.address, name: `A\n${turnedAway}` })
    t.equal(await feigns.advance('setup'), 'setup')
    await feigns.leave('close')
    await room.untilReady()
    t.equal(await mainPid(), pid)
    await rig.shell(`echo '${turnedAway}' >/proc/${pid}/fd/2`)
    await eventually(async () => !['0', pid].includes(await mainPid()), READY_MS)
    await room.untilReady()
    t.match(await rig.run(['journalctl', '--unit=uxplay', '--output=cat']), 'UxPlay has lost the screen')
    await room.excuse()
  })

  await t.test('says that it is not ready while a mistake in its options makes it end', async t => {
    const isReady = async () => ((await (await rig.fetch('/status')).json()) as { airplayReady?: boolean }).airplayReady
    await restart(room)
    t.equal(await isReady(), true)
    const options = await rig.readFile('/etc/uxplayrc')
    await rig.replaceFile('/etc/uxplayrc', `${options}no-such-option\n`)
    await rig.run(['systemctl', 'restart', 'uxplay'])
    await eventually(
      async () => Number(await rig.run(['systemctl', 'show', '-P', 'NRestarts', 'uxplay'])) > 1,
      READY_MS,
    )
    t.equal(await isReady(), false)
    await rig.replaceFile('/etc/uxplayrc', options)
    await eventually(isReady, READY_MS)
  })

  await t.test('has little in reach', async t => {
    const exposure = await rig.run(['systemd-analyze', 'security', '--no-pager', 'uxplay'])
    t.match(exposure, /level for uxplay.service: 1\.\d OK/)
    t.equal(await rig.run(['systemctl', 'show', '--value', '--property=User', 'uxplay']), 'uxplay\n')
  })

  await t.test('is named and restarted by receiverd', async t => {
    t.equal((await rig.patch({ airplay: { name: 'Room 5' } })).status, 200)
    await eventually(async () => (await browse('_airplay._tcp', rig.hostAddress))[0]?.name === 'Room 5', READY_MS)
    t.pass('found by its new name')
  })
})

t.test('a receiver that asks a moderator', { skip: NO_RIG }, async t => {
  const uxplayrc = (...lines: readonly string[]) => `nh\nvs "${PICTURES}"\nas 0\n${lines.join('\n')}\n`
  const rig = await startRig(t, { files: { '/etc/uxplayrc': uxplayrc('restrict') } })
  const room = new Room(rig, t)
  await room.untilReady()
  const client = new AirPlayClient({ host: rig.address, name: "Ann's iPhone" })
  t.equal(await client.advance(), 'refused')
  let lines: (string | undefined)[] = []
  await eventually(async () => {
    lines = (await rig.journal('--unit=uxplay')).map(({ MESSAGE }) => MESSAGE)
    return lines.at(-1)?.startsWith('use ') ?? false
  })
  t.same(lines.slice(-3), [
    "connection request from Ann's iPhone (iPhone15,2) with deviceID = AA:BB:CC:00:00:01",
    'client connections have been restricted to those with listed deviceID,',
    'use "-allow AA:BB:CC:00:00:01" to allow this client to connect.',
  ])

  t.equal(await rig.run(['ls', DEVICE]), `${DEVICE}\n`, 'a refused device is connected')

  const ended = client.ended()
  await rig.replaceFile('/etc/uxplayrc', uxplayrc('restrict', 'allow AA:BB:CC:00:00:01'))
  await rig.run(['systemctl', 'restart', 'uxplay'])
  t.match(await ended, /FIN|ECONNRESET/, 'the refused device is put out')
  await room.untilReady()
  await room.unlessCrashed(async () => {
    const listed = room.device()
    equal(await listed.advance(), 'mirroring')
    await listed.leave()
  })
  await restart(room)
  const other = new AirPlayClient({ host: rig.address, deviceId: 'AA:BB:CC:00:00:02' })
  t.equal(await other.advance('setup'), 'refused')
  const before = (await rig.journal('--unit=uxplay')).length
  const began = performance.now()
  for (let asked = 0; asked < 2_000; asked++) await other.advance('setup')
  await other.leave('close')
  const intervals = Math.ceil((performance.now() - began) / LOG_INTERVAL_MS) + 1
  const since = (await rig.journal('--unit=uxplay')).length - before
  t.ok(since < intervals * MAX_LOG_LINES, `a flood leaves no more than ${since} lines in ${intervals} intervals`)
})
