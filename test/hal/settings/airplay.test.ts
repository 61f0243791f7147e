import { lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type Test, test } from 'tap'
import type { JsonObject } from '../../../src/json.ts'
import { deviceRoot } from '../../support/device.ts'
import { eventually } from '../../support/eventually.ts'
import { commands } from '../../support/fakes/commands.ts'
import { FakeSystemd } from '../../support/fakes/systemd.ts'
import { startUxPlay } from '../../support/fakes/uxplay.ts'
import { startTestService } from '../../support/service.ts'

const UNIT = 'uxplay.service'
const LINK = 'etc/systemd/system/multi-user.target.wants/uxplay.service'

const isLinked = (root: string) => lstatSync(`${root}/${LINK}`, { throwIfNoEntry: false }) !== undefined

/** A running receiver, and what UxPlay was last started with. */
async function startReceiver(t: Test, rc?: string) {
  const root = deviceRoot(t)
  if (rc !== undefined) writeFileSync(`${root}/etc/uxplayrc`, rc)
  const systemd = new FakeSystemd(root, [UNIT])
  const file = () => readFileSync(`${root}/etc/uxplayrc`, 'utf8')
  let shown = startUxPlay(file())
  systemd.onStart = unit => {
    if (unit === UNIT) shown = startUxPlay(file())
  }
  const service = await startTestService(t, {
    root,
    running: true,
    run: commands({ systemctl: systemd.systemctl }),
    monitor: () => () => undefined,
  })
  const airplay = async () => (await service.system()).value.airplay as JsonObject
  return { root, systemd, service, file, airplay, shown: () => shown }
}

test('UxPlay uses a change, and the rest of its file is kept', async t => {
  const { service, systemd, file, shown } = await startReceiver(t)
  const answer = await service.patch({
    airplay: { name: 'Meeting "A" room', access: 'pin', maxResolution: '1280x720' },
  })
  t.equal(answer.status, 200)
  t.match(await answer.json(), {
    airplay: { enabled: true, name: 'Meeting "A" room', access: 'pin', maxResolution: '1280x720' },
  })
  t.match(shown(), {
    name: 'Meeting "A" room',
    appendsHostName: false,
    guard: 1,
    pin: undefined,
    display: [1280, 720, 0],
  })
  t.equal(
    file(),
    `# Options of uxplay(1), one a line.
n 'Meeting "A" room'
nh
# no screen saver
fs
vs "kmssink bus-id=gpu"
reg /var/lib/uxplay/register
pin
s 1280x720
`,
  )
  t.equal(systemd.text, 'uxplay.service runs, started 2 times\n')

  t.equal((await service.patch({ airplay: { access: 'open', maxResolution: '' } })).status, 200)
  t.match(shown(), { guard: 0, display: [0, 0, 0] })
})

test('it is enabled and disabled with its unit, and stays stopped if somebody stopped it', async t => {
  const { root, service, systemd, shown } = await startReceiver(t)
  t.match(await (await service.patch({ airplay: { enabled: false } })).json(), { airplay: { enabled: false } })
  t.notOk(isLinked(root))
  t.equal(systemd.text, '')
  t.equal((await service.patch({ airplay: { name: 'Hall' } })).status, 200)
  t.equal(systemd.text, '', 'a change while it is disabled starts nothing')
  t.match(await (await service.patch({ airplay: { enabled: true } })).json(), { airplay: { enabled: true } })
  t.equal(systemd.text, 'uxplay.service runs, started 1 times\n')
  t.equal(shown().name, 'Hall')
  await systemd.systemctl(['systemctl', 'stop', UNIT])
  t.equal((await service.patch({ airplay: { name: 'Lobby' } })).status, 200)
  t.equal(systemd.text, '')
})

test('a code or password set by others is kept, and never shown', async t => {
  for (const [rc, guard] of [
    ['pin 4711\n', 1],
    ['pw "secret 4711"\n', 2],
    ['pw\n', 3],
  ] as const) {
    const { service, airplay, file, shown } = await startReceiver(t, rc)
    t.match(await airplay(), { access: 'pin' })
    t.equal((await service.patch({ airplay: { access: 'pin', maxResolution: '1280x720' } })).status, 200)
    t.equal(file(), `${rc}s 1280x720\n`)
    t.equal(shown().guard, guard)
    t.notMatch(JSON.stringify((await service.system()).value) + service.log.join(), /4711/)
    t.equal((await service.patch({ airplay: { access: 'open' } })).status, 200)
    t.equal(file(), 's 1280x720\n')
  }
})

test('an empty name is the name of the device, also when that changes', async t => {
  const { root, service, airplay, systemd, file, shown } = await startReceiver(t)
  t.equal((await service.patch({ airplay: { name: '' } })).status, 200)
  t.match(await airplay(), { name: '' })
  const own = (await service.system()).value.deviceName
  t.equal(shown().name, own)

  t.equal((await service.patch({ deviceName: 'Boardroom 2' })).status, 200)
  t.equal(shown().name, 'Boardroom 2')
  t.match(await airplay(), { name: '' })

  t.equal((await service.patch({ deviceName: 'Hall', airplay: { access: 'pin' } })).status, 200)
  t.match(shown(), { name: 'Hall', guard: 1 })

  writeFileSync(`${root}/etc/machine-info`, 'PRETTY_HOSTNAME="From elsewhere"\n')
  await eventually(() => shown().name === 'From elsewhere')
  t.match(await airplay(), { name: '' })

  const { text } = systemd
  t.equal((await service.patch({ locale: 'de_DE.UTF-8' })).status, 200)
  t.equal(systemd.text, text, 'other settings do not restart it')

  writeFileSync(`${root}/etc/uxplayrc`, file().replace(/^n .*/m, 'n Foreign'))
  await eventually(async () => (await airplay()).name === 'Foreign')
  t.equal((await service.patch({ deviceName: 'Boardroom 3' })).status, 200)
  t.match(await airplay(), { name: 'Foreign' }, 'a name set by others does not follow the device')
})

test('a name with the host name follows it, also when something else changes with it', async t => {
  const { service, airplay, shown } = await startReceiver(t, 'fs\n')
  const { hostname } = (await service.system()).value
  t.match(await airplay(), { name: `UxPlay@${hostname}` })
  t.equal((await service.patch({ hostname: 'room-5', airplay: { access: 'pin' } })).status, 200)
  t.match(await airplay(), { name: 'UxPlay@room-5', access: 'pin' })
  t.match(shown(), { appendsHostName: true, guard: 1 })
  t.equal((await service.patch({ hostname: 'room-6', airplay: { name: 'UxPlay@lobby' } })).status, 200)
  t.match(shown(), { name: 'UxPlay@lobby', appendsHostName: false })
})

test('where UxPlay already has the name of the device, a start writes nothing', async t => {
  const { file, service } = await startReceiver(t)
  t.equal((await service.patch({ airplay: { name: '' } })).status, 200)
  const { file: again, systemd, airplay } = await startReceiver(t, file())
  t.match(await airplay(), { name: '' })
  t.equal(again(), file())
  t.equal(systemd.text, 'uxplay.service runs, started 1 times\n', 'and restarts nothing')
})

test("for a device's name that UxPlay cannot show, a similar one is shown", async t => {
  const { service, shown, airplay } = await startReceiver(t)
  t.equal((await service.patch({ deviceName: `- 5' 3" ${'é'.repeat(40)}`, airplay: { name: '' } })).status, 200)
  t.equal(shown().name, `5' 3 ${'é'.repeat(22)}`)
  t.match(await airplay(), { name: '' })
})

test('a name set by others is shown with what UxPlay appends to it', async t => {
  const { airplay, service, shown } = await startReceiver(t, 'n Hall\n')
  t.match(await airplay(), { name: 'Hall@receiver' })
  t.equal((await service.patch({ airplay: { ...(await airplay()), access: 'pin' } })).status, 200)
  t.match(shown(), { name: 'Hall', appendsHostName: true })
  t.equal((await service.patch({ airplay: { name: 'Hall' } })).status, 200)
  t.match(shown(), { name: 'Hall', appendsHostName: false })
})

test('a value that UxPlay would not accept is refused', async t => {
  const { service, file } = await startReceiver(t)
  const before = file()
  for (const [value, pointer] of [
    [{ name: '-n' }, '/airplay/name'],
    [{ name: 'x'.repeat(51) }, '/airplay/name'],
    [{ name: 'a\nb' }, '/airplay/name'],
    [{ name: `5' 3" x` }, '/airplay/name'],
    [{ access: 'password' }, '/airplay/access'],
    [{ maxResolution: '1920' }, '/airplay/maxResolution'],
    [{ maxResolution: '319x1080' }, '/airplay/maxResolution'],
    [{ maxResolution: '1920x239' }, '/airplay/maxResolution'],
    [{ maxResolution: '10000x1080' }, '/airplay/maxResolution'],
    [{ pin: '1234' }, '/airplay/pin'],
  ] as const) {
    const answer = await service.patch({ airplay: value })
    t.equal(answer.status, 422, JSON.stringify(value))
    t.match(await answer.json(), { errors: [{ pointer }] })
  }
  t.equal(file(), before)
})

test('a failed restart leaves the file and the unit as they were', async t => {
  const { root, service, systemd, file, airplay } = await startReceiver(t)
  const before = file()
  systemd.broken = 'restart'
  t.equal((await service.patch({ airplay: { name: 'Hall' } })).status, 500)
  t.equal(file(), before)
  systemd.broken = 'stop'
  t.equal((await service.patch({ airplay: { enabled: false, name: 'Hall' } })).status, 500)
  t.equal(file(), before)
  t.ok(isLinked(root))
  t.match(await airplay(), { enabled: true, name: 'Lobby' })
})

test('a change by others is an event', async t => {
  const { root, service } = await startReceiver(t)
  const stream = await service.stream()
  await stream.block()
  rmSync(`${root}/${LINK}`)
  t.match((await stream.event())?.data, { airplay: { enabled: false, name: 'Lobby' } })
  writeFileSync(`${root}/etc/uxplayrc`, 'nh\nn Hall\npin 12\n')
  t.match((await stream.event())?.data, { airplay: { name: 'Hall', access: 'pin' } })
})

test('a byte that is not UTF-8 changes nothing about the rest of the file', async t => {
  const rc = Buffer.from('# caf\xe9\nn Hall\nnh\npw secret\nrestrict\nvs "kmssink \xff"\n', 'latin1')
  const { root, service, airplay } = await startReceiver(t)
  const stream = await service.stream()
  await stream.block()
  writeFileSync(`${root}/etc/uxplayrc`, rc)
  t.match((await stream.event())?.data, { airplay: { name: 'Hall', access: 'pin' } })
  t.match((await service.system()).value.moderation, { approval: 'moderator' }, 'as UxPlay has it')
  t.equal((await service.patch({ airplay: { name: 'Lobby' } })).status, 200)
  t.equal(
    readFileSync(`${root}/etc/uxplayrc`, 'latin1'),
    '# caf\xe9\nn Lobby\nnh\npw secret\nrestrict\nvs "kmssink \xff"\n',
  )
  t.match(await airplay(), { name: 'Lobby', access: 'pin' })
})

test('without its unit, there is no such setting', async t => {
  const root = deviceRoot(t)
  rmSync(`${root}/usr/lib/systemd/system/uxplay.service`)
  const service = await startTestService(t, { root })
  t.notOk('airplay' in (await service.system()).value)
  t.match(await (await service.patch({ airplay: { enabled: true } })).json(), {
    errors: [
      { pointer: '/airplay', detail: 'not available on this device: UxPlay is not installed as uxplay.service' },
    ],
  })
})
