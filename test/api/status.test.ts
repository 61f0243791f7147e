import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { type FileSystem, KERNEL } from '../../hal/files/kernel.ts'
import type { Run } from '../../hal/os/command.ts'
import { systemError } from '../hal/support/file-system.ts'
import { ManualClock } from '../support/clock.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { commands } from '../support/fakes/commands.ts'
import { FakeMonitors } from '../support/fakes/monitors.ts'
import { FakeUxPlay } from '../support/fakes/uxplay-run.ts'
import { bootKernel, KERNEL as FILES } from '../support/kernel.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { startModerated } from '../support/sessions.ts'

const statusOf = async (service: TestService) => (await service.fetch('/status')).json() as Promise<object>

t.test('figures from the kernel', async t => {
  const service = await startTestService(t)
  bootKernel(service)
  const { bootedAt, storage, configurationDigest, ...status } = (await statusOf(service)) as Record<string, unknown>
  t.same(status, {
    version: '0.0.0',
    uptimeS: 3725,
    clockSet: true,
    temperatureC: 51.5,
    load: [0.52, 0.58, 1.59],
    memory: { totalBytes: 3884376 * 1024, availableBytes: 2884376 * 1024 },
    streams: 0,
    heldPolls: 0,
    connections: 1,
    sessions: 0,
    keyStored: true,
  })
  t.match(configurationDigest, /^[0-9a-f]{64}$/)
  t.ok(Math.abs(Date.parse(String(bootedAt)) - (Date.now() - 3_725_870)) < 5_000, String(bootedAt))
  const { bsize, blocks } = await statfs(service.root)
  t.match(storage, { totalBytes: bsize * blocks, availableBytes: Number, readOnly: false, temporary: false })
})

t.test('an image that could not mount its data partition says that nothing is kept', async t => {
  const root = deviceRoot(t)
  mkdirSync(join(root, 'run'), { recursive: true })
  writeFileSync(join(root, 'run/receiver-without-data'), '')
  const service = await startTestService(t, { root })
  t.match(await statusOf(service), { storage: { temporary: true } })
  t.match(service.log.join('\n'), /^error: the data partition could not be mounted, or is damaged: /m)
})

t.test('members that the device cannot tell are absent', async t => {
  const clock = new ManualClock()
  const service = await startTestService(t, { clock, builtAt: Date.now() + 1_000_000 })
  const names = async () => Object.keys(await statusOf(service))
  const always = [
    ...['version', 'clockSet', 'storage', 'configurationDigest', 'keyStored'],
    ...['streams', 'heldPolls', 'connections', 'sessions'],
  ]
  t.same(await names(), always)
  t.match(await statusOf(service), { clockSet: false })
  bootKernel(service)
  t.notOk((await names()).includes('bootedAt'), 'the clock is not set')
  clock.step(1_000_000)
  t.ok((await names()).includes('bootedAt'))
  for (const [name, text] of Object.entries(FILES))
    writeFileSync(service.path(name), text.slice(0, 3).replace(/\d/g, 'x'))
  t.same(await names(), always, 'it makes no sense')
})

t.test('streams, polls and sessions that are open', async t => {
  const moderated = await startModerated(t)
  const { service } = moderated
  const { etag } = await service.system()
  const streams = [await service.stream(), await service.stream('/sessions/events')]
  const held = service.fetch('/events', { headers: { 'If-None-Match': etag } })
  const engine = await moderated.ask(t)
  await engine.line()
  const saw = (open: object) => eventually(async () => includes(await statusOf(service), open))
  await saw({ streams: 2, heldPolls: 1, sessions: 1 })
  for (const stream of streams) stream.close()
  await service.patch({ deviceName: 'Next' })
  await held
  engine.close()
  await saw({ streams: 0, heldPolls: 0, sessions: 0 })
  t.pass('each is counted as long as it is open')
})

t.test('a Wi-Fi daemon that hangs keeps the status from nobody', async t => {
  const root = deviceRoot(t)
  let asked = 0
  const hangs: Run = () => {
    asked++
    return new Promise(() => undefined)
  }
  const service = await startTestService(t, {
    root,
    running: true,
    run: commands({ wpa_cli: hangs }),
    monitor: new FakeMonitors().monitor,
    addresses: () => ({}),
  })
  writeFileSync(join(root, 'sys/class/net/wlan0/operstate'), 'up\n')
  const answer = await service.fetch('/status', { signal: AbortSignal.timeout(10_000) })
  t.equal(((await answer.json()) as { wifi?: object }).wifi, undefined)
  t.equal(asked, 1)
})

t.test('a Wi-Fi configuration that cannot be read keeps the status from nobody', async t => {
  const root = deviceRoot(t)
  const open: FileSystem['open'] = (path, ...rest) => {
    if (path.endsWith('/wpa_supplicant-wlan0.conf')) throw systemError('EACCES')
    return KERNEL.open(path, ...rest)
  }
  const service = await startTestService(t, {
    root,
    running: true,
    fs: { ...KERNEL, open },
    run: commands({}),
    monitor: new FakeMonitors().monitor,
    addresses: () => ({}),
  })
  writeFileSync(join(root, 'sys/class/net/wlan0/operstate'), 'up\n')
  t.match(await statusOf(service), { version: '0.0.0', wifi: undefined })
})

t.test('whether devices can connect by AirPlay, unless it is switched off or runs by another unit', async t => {
  const root = deviceRoot(t)
  const uxplay = new FakeUxPlay(root, '')
  const service = await startTestService(t, {
    root,
    running: true,
    run: commands({}),
    monitor: new FakeMonitors().monitor,
    addresses: () => ({}),
  })
  const isReady = async () => ((await statusOf(service)) as { airplayReady?: boolean }).airplayReady
  t.equal(await isReady(), undefined, 'its ports are not known')
  mkdirSync(service.path('usr/lib/receiverd'), { recursive: true })
  writeFileSync(service.path('usr/lib/receiverd/uxplay'), '')
  t.equal(await isReady(), true)
  uxplay.isListening = false
  uxplay.connect()
  t.equal(await isReady(), false, 'UxPlay has ended')
  t.match(await (await service.fetch('/metrics')).text(), /^receiverd_airplay_ready 0$/m)
  rmSync(service.path('etc/systemd/system/multi-user.target.wants/uxplay.service'))
  await eventually(async () => (await isReady()) === undefined)
})

function includes(status: object, part: object): boolean {
  return isDeepStrictEqual({ ...status, ...part }, status)
}
