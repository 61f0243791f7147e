import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import type { Run } from '../../../hal/os/command.ts'
import type { JsonObject } from '../../../src/json.ts'
import { deviceRoot } from '../../support/device.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeMonitors } from '../../support/fakes/monitors.ts'
import { needs } from '../../support/needs.ts'
import { startTestService } from '../../support/service.ts'
import { startWifiDevice } from '../../support/wifi-device.ts'

const SECRET = 'correct horse'
const OTHER = 'battery staple'
const OFFICE = { ssid: 'Office', password: SECRET }
const LAB = { ssid: 'Lab', password: OTHER, level: -70 }
const skip = needs('wpa_cli', 'python3')

async function start(t: Test) {
  const { options, fake, file, jobs } = await startWifiDevice(t)
  const service = await startTestService(t, options)
  const wifi = async () => (await service.system()).value.wifi as JsonObject
  return { service, fake, wifi, file, jobs }
}

const network = (ssid: string, password = '', hidden = false) => ({ ssid, password, hidden })

test('the networks: a password is never shown, and an enterprise network is not listed', { skip }, async t => {
  const { service, wifi } = await start(t)
  t.strictSame(await wifi(), {
    country: 'DE',
    networks: [network('Office', 'set')],
    present: true,
    connected: '',
  })
  t.notMatch(await (await service.fetch('/system')).text(), SECRET)
})

test('a network is joined, found wrong, and joined again; it is an event each time', { skip }, async t => {
  const { service, fake, wifi, file, jobs } = await start(t)
  const stream = await service.stream()
  await stream.block()
  await fake.air([OFFICE, LAB], 'in Office')
  t.match((await stream.event())?.data, { wifi: { connected: 'Office' } })
  const before = readFileSync(file, 'utf8')

  const wrong = await service.patch({ wifi: { networks: [network('Lab', 'a wrong one')] } }, {}, '?confirmWithin=60')
  t.equal(wrong.status, 200)
  t.equal(fake.said.at(-1), 'in none')
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.match(readFileSync(file, 'utf8'), 'eduroam')
  t.equal((await service.fetch('/system/confirm', { method: 'DELETE' })).status, 200)
  t.equal(readFileSync(file, 'utf8'), before, 'undone')
  t.equal(fake.said.at(-1), 'in Office')

  const both = [network('Lab', OTHER), network('Office', 'set')]
  t.equal((await service.patch({ wifi: { networks: both } })).status, 200)
  t.equal(fake.said.at(-1), 'in Lab', 'the preferred one')
  await fake.air([OFFICE], 'in Office')
  await fake.air([], 'in none')
  await eventually(async () => (await wifi()).connected === '')
  await fake.air([OFFICE, LAB], 'in Lab')
  await eventually(async () => (await wifi()).connected === 'Lab')
  t.strictSame((await wifi()).networks, [network('Lab', 'set'), network('Office', 'set')])
  t.strictSame(jobs, [], 'the daemon goes on running')
  const said = [
    ...service.log,
    await (await service.fetch('/events?initialEventId=00000000-0000-0000-0000-000000000000')).text(),
  ]
  for (const secret of [SECRET, OTHER, 'a wrong one']) t.notMatch(said.join('\n'), secret)
})

test('a password is kept where it is, and refused where there is none', { skip }, async t => {
  const { service, file } = await start(t)
  const { value, etag } = await service.system()
  t.equal((await service.patch(value)).headers.get('ETag'), etag, 'a value that was read can be sent back')
  const hidden = await service.patch({ wifi: { networks: [network('Office', 'set', true)] } })
  t.match(await hidden.json(), { wifi: { networks: [network('Office', 'set', true)] } })
  t.match(readFileSync(file, 'utf8'), `psk="${SECRET}"`)

  const text = readFileSync(file, 'utf8')
  const cases: readonly (readonly [networks: readonly object[], pointer: string, detail: RegExp])[] = [
    [[network('Lab', 'set')], '/wifi/networks/0/password', /has no password of this network/],
    [[network('Lab', '1234567')], '/wifi/networks/0/password', /^must be 8 to 63/],
    [[network('Lab', 'x'.repeat(65))], '/wifi/networks/0/password', /64/],
    [[network(`${'x'.repeat(32)}ß`)], '/wifi/networks/0/ssid', /32/],
    [[network('ß'.repeat(17))], '/wifi/networks/0/ssid', /^must be 1 to 32 bytes/],
    [[network('')], '/wifi/networks/0/ssid', /./],
    [[network('a'), network('b'), network('a')], '/wifi/networks/2/ssid', /^duplicate/],
    [Array.from({ length: 9 }, (_, at) => network(`${at}`)), '/wifi/networks', /8/],
    [[{ ssid: 'a', password: '' }], '/wifi/networks/0', /hidden/],
  ]
  for (const [networks, pointer, detail] of cases) {
    const refused = await service.patch({ wifi: { networks } })
    const problem = (await refused.json()) as { errors: readonly { pointer: string; detail: string }[] }
    t.match([refused.status, problem.errors[0]], [422, { pointer, detail }])
    t.notMatch(JSON.stringify(problem), /1234567|xxxx/)
  }
  for (const patch of [{ country: 'Denmark' }, { country: 'dk' }, { connected: 'Office' }, { present: false }])
    t.equal((await service.patch({ wifi: patch })).status, 422, JSON.stringify(patch))
  t.match(await (await service.patch({ wifi: { country: 'dk' } })).text(), /two capital letters/)
  t.equal(readFileSync(file, 'utf8'), text)
})

test('a daemon that does not run is started', { skip }, async t => {
  const { service, fake, jobs } = await start(t)
  await fake.stop()
  t.equal((await service.patch({ wifi: { country: 'DK' } })).status, 200)
  t.strictSame(jobs, ['restart wpa_supplicant@wlan0.service'])
})

test('a daemon that refuses its file is not restarted, and keeps its network', { skip }, async t => {
  const { service, fake, wifi, file, jobs } = await start(t)
  await fake.air([OFFICE], 'in Office')
  await eventually(async () => (await wifi()).connected === 'Office')
  const text = `contry=DE\n${readFileSync(file, 'utf8')}`
  writeFileSync(file, text)
  for (let times = 0; times < 2; times++) {
    const refused = await service.patch({ wifi: { networks: [network('Lab', OTHER), network('Office', 'set')] } })
    t.equal(refused.status, 500)
    const why = 'wpa_supplicant refuses its file; correct the line that its log names. Nothing has changed.'
    t.match(await refused.text(), why)
  }
  t.strictSame(jobs, [])
  t.equal(fake.said.at(-1), 'in Office')
  t.equal(readFileSync(file, 'utf8'), text)
  writeFileSync(file, text.replace('contry', 'country'))
  t.equal((await service.patch({ wifi: { networks: [network('Lab', OTHER)] } })).status, 200)
  t.equal(fake.said.at(-1), 'in none')
})

test('the signal is in the status, and a scan in the choices, for an administrator', { skip }, async t => {
  const { service, fake, wifi } = await start(t)
  const status = async () => ((await (await service.fetch('/status')).json()) as { wifi?: object }).wifi
  t.equal(await status(), undefined)
  await fake.air(
    [
      { ...OFFICE, flags: '[WPA2-PSK-CCMP][ESS]' },
      { ssid: 'Guests\u{202e}', level: -80 },
    ],
    'in Office',
  )
  await eventually(async () => (await wifi()).connected === 'Office')
  t.strictSame(await eventually(status), { ssid: 'Office', signalDbm: -50 })

  const scan = (roles: readonly string[], query = '?scan=true') =>
    service.fetchAs(service.token(roles), `/system/choices${query}`)
  for (const [roles, query, expected] of [
    [['admin:r'], '?scan=true', 403],
    [['moderator:rw'], '', 403],
    [['admin:w'], '', 403],
    [['admin:r'], '?scan=false', 200],
    [['admin:rw'], '?scan=yes', 400],
  ] as const)
    t.equal((await scan(roles, query)).status, expected, `${roles} ${query}`)
  t.equal(fake.said.filter(line => line.startsWith('scan')).length, 0)
  const answers = await Promise.all([1, 2, 3].map(() => scan(['admin:w'])))
  for (const answer of [...answers, await scan(['admin:rw'])])
    t.match(await answer.json(), {
      wifi: {
        networks: [
          { ssid: 'Office', signalDbm: -50, security: 'psk' },
          { ssid: 'Guests\u{202e}', signalDbm: -80, security: 'open' },
        ],
      },
      network: {},
    })
  t.strictSame(
    fake.said.filter(line => line.startsWith('scan')),
    ['scan 1'],
    'one for all',
  )
  t.equal(((await (await service.fetch('/system/choices')).json()) as JsonObject).wifi, undefined)
})

test('without a daemon a scan says so', { skip }, async t => {
  const { service, fake } = await start(t)
  await fake.stop()
  const refused = await service.fetch('/system/choices?scan=true')
  t.match([refused.status, await refused.json()], [500, { detail: /wpa_cli failed/ }])
})

test('without an adapter, or a daemon that is enabled, there is no Wi-Fi, and nothing is started for it', async t => {
  const cases = [
    ['sys/class/net/wlan0', 'no Wi-Fi adapter'],
    ['usr/lib/systemd/system/wpa_supplicant@.service', 'wpa_supplicant is not installed'],
    ['etc/systemd/system/sys-subsystem-net-devices-wlan0.device.wants', 'wpa_supplicant@wlan0.service is not enabled'],
  ] as const
  for (const [path, why] of cases) {
    const root = deviceRoot(t)
    rmSync(join(root, path), { recursive: true })
    const monitors = new FakeMonitors()
    const ran: string[] = []
    const run: Run = async argv => {
      ran.push(argv.join(' '))
      return ''
    }
    const service = await startTestService(t, {
      root,
      running: true,
      run,
      monitor: monitors.monitor,
      addresses: () => ({}),
    })
    t.equal((await service.system()).value.wifi, undefined)
    t.ok(service.log.includes(`info: wifi: not available: ${why}`), why)
    const refused = await service.patch({ wifi: { country: 'DK' } })
    t.match(await refused.json(), {
      status: 422,
      errors: [{ pointer: '/wifi', detail: `not available on this device: ${why}` }],
    })
    t.equal((await service.fetch('/system/choices?scan=true')).status, 200)
    await service.fetch('/status')
    t.notOk(ran.some(command => command.startsWith('wpa_cli')))
    t.notOk(monitors.running.includes('ip -oneline monitor link'))
    await service.close()
  }
})
