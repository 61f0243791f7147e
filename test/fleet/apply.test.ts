/** `receiverd-fleet list`, `diff` and `apply`, against real devices. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { changeDevice } from '../../src/fleet/change.ts'
import { DeviceClient } from '../../src/fleet/client.ts'
import type { Trust } from '../../src/fleet/connection.ts'
import type { JsonObject } from '../../src/json.ts'
import { startReceiver } from '../interop/support.ts'
import type { Api } from '../support/api.ts'
import { needs } from '../support/needs.ts'
import { freePort } from '../support/port.ts'
import { startTestService } from '../support/service.ts'
import { SlowSetting } from '../support/slow-setting.ts'
import { startWifiDevice } from '../support/wifi-device.ts'
import { certificateOf, type Fate, Network, Owner, silentAddress } from './support.ts'

/** Devices of a fleet of 20 that answer. */
const LIVING = 18
/** Seconds that each may take on a machine that is busy with all of them, and that a hanging device does take. */
const ANSWER_S = 6

const isWrite = (head: string) =>
  head.startsWith('PATCH /api/v1/system ') || head.startsWith('PATCH /api/v1/system?confirm')

async function settingOf(device: Api, name: string) {
  return (await device.system()).value[name]
}

/** A fleet of devices by their names and addresses. */
function fleetFile(devices: Readonly<Record<string, string>>, rest = ''): string {
  const lines = Object.entries(devices).map(([name, address]) => `  ${name}: { address: "http://${address}" }`)
  return `keys: keys.csv\n${rest}devices:\n${lines.join('\n')}\n`
}

// Several of them wait for seconds.
t.jobs = 3

t.test('one device, as a process: from a difference to none', async t => {
  const owner = new Owner(t)
  const device = await startReceiver(t)
  owner.write('keys.csv', `# the cards of August\nlobby,${device.key}\n`)
  const settings = 'settings: { timezone: UTC, ntp: { enabled: true, servers: [ntp.example.org] } }\n'
  owner.write('fleet.yaml', fleetFile({ lobby: `127.0.0.1:${device.port}` }, settings), 0o644)

  const listed = await owner.run(['list'])
  t.equal(listed.status, 0, listed.stderr)
  t.match(listed.stdout, /^DEVICE .* STATE\nlobby +http:\/\/127\.0\.0\.1:\d+ .* ok\n$/)

  const before = await owner.run(['diff'])
  t.equal(before.status, 3, before.stderr)
  t.match(before.stdout, '/ntp/servers: [] → ["ntp.example.org"]')
  t.notSame(await settingOf(device, 'timezone'), 'UTC', 'nothing has changed')

  const unasked = await owner.run(['apply'])
  t.equal(unasked.status, 2)
  t.match(unasked.stderr, 'apply: no terminal to ask on; --yes does not ask')

  const applied = await owner.run(['apply', '--yes', '--confirm'])
  t.equal(applied.status, 0, applied.stderr)
  t.match(applied.stdout, '1 device: 1 changed\n')
  t.equal(await settingOf(device, 'timezone'), 'UTC')
  t.match(await settingOf(device, 'ntp'), { servers: ['ntp.example.org'] })
  const status = (await (await device.fetch('/status')).json()) as { trial?: unknown }
  t.equal(status.trial, undefined, 'it was confirmed')

  const { etag } = await device.system()
  t.equal((await owner.run(['diff'])).status, 0)
  t.match((await owner.run(['apply', '--yes'])).stdout, '1 device: 1 unchanged\n')
  t.equal((await device.system()).etag, etag, 'the second time, nothing is written')
  t.notMatch(listed.stdout + before.stdout + applied.stdout + applied.stderr, device.key)
})

// Alone, so that nothing else of this test makes a device late.
t.test('a fleet of 20, of which one is dead, one hangs, and one is lost in a wave', { buffered: false }, async t => {
  const owner = new Owner(t)
  const devices = await Promise.all(Array.from({ length: LIVING }, () => startTestService(t)))
  const networks = await Promise.all(devices.map(({ port }) => Network.to(t, port)))
  const names = devices.map((_, index) => `room-${String(index + 1).padStart(2, '0')}`)
  const addresses = Object.fromEntries(names.map((name, index) => [name, networks[index]?.address ?? '']))
  const all = { dead: `127.0.0.1:${await freePort()}`, ...addresses, hanging: await silentAddress(t) }
  owner.write(
    'keys.csv',
    `dead,${'dead-key-0123456789ab'.repeat(2)}\nhanging,${'hanging-key-0123456789'.repeat(2)}\n${names
      .map((name, index) => `${name},${devices[index]?.key}\n`)
      .join('')}`,
  )
  owner.write('fleet.yaml', fleetFile(all, 'settings: { timezone: UTC }\n'))
  // It is lost at the moment at which it gets its change.
  const [, , , lost] = networks
  if (lost) lost.fateOf = head => (isWrite(head) ? 'break down' : 'pass')

  const began = performance.now()
  const command = ['apply', '--yes', '--waves', '2,10,rest', '--timeout', `${ANSWER_S}`]
  const { status, of } = await owner.outcomes(command)
  t.comment(`20 devices in ${Math.round(performance.now() - began)} ms`)
  t.equal(status, 1)
  t.match(of.dead, {
    state: 'failed',
    reason: /cannot connect to 127\.0\.0\.1:\d+: connection refused \(ECONNREFUSED\)/,
  })
  t.match(of.hanging, { state: 'failed', reason: `it does not answer within ${ANSWER_S} s` })
  t.match(of['room-04'], { state: 'failed', reason: /^it has not answered since the change was sent: / })
  for (const [index, name] of names.entries()) {
    if (name === 'room-04') continue
    t.equal(of[name]?.state, index < 12 ? 'changed' : 'not begun', name)
    const device = devices[index]
    if (device) t.equal((await settingOf(device, 'timezone')) === 'UTC', index < 12, `${name} itself`)
  }

  t.comment('the second time')
  const again = await owner.outcomes(command)
  t.equal(again.status, 1)
  for (const [index, name] of names.entries()) {
    if (name !== 'room-04') t.equal(again.of[name]?.state, index < 12 ? 'unchanged' : 'changed', name)
    else t.match(again.of[name], { state: 'failed', reason: /cannot connect/ })
  }
})

t.test('refusals of devices are found before anything has changed', async t => {
  const owner = new Owner(t)
  const [good, old] = [await startTestService(t), await startTestService(t)]
  const write = (settings: string) => {
    owner.write('keys.csv', `good,${good.key}\nold,${old.key}\n`)
    owner.write(
      'fleet.yaml',
      `keys: keys.csv
settings: { timezone: UTC }
groups:
  odd: { settings: ${settings} }
devices:
  good: { address: "http://127.0.0.1:${good.port}" }
  old: { address: "http://127.0.0.1:${old.port}", groups: [odd] }
`,
    )
  }
  write('{ shoe: 43 }')
  const refused = await owner.outcomes(['apply', '--yes'])
  t.equal(refused.status, 1)
  t.match(refused.of, { good: { state: 'not begun' }, old: { state: 'failed', reason: /^it refuses \/shoe: / } })
  t.not(await settingOf(good, 'timezone'), 'UTC')

  const kept = await owner.outcomes(['apply', '--yes', '--keep-going'])
  t.equal(kept.status, 1)
  t.match(kept.of, { good: { state: 'changed' }, old: { state: 'failed' } })
  t.equal(await settingOf(good, 'timezone'), 'UTC')

  write('{ timezone: null }')
  t.match((await owner.outcomes(['apply', '--yes'])).of, { good: { state: 'unchanged' }, old: { state: 'unchanged' } })
  t.not(await settingOf(old, 'timezone'), 'UTC', 'a null takes a setting of the fleet out')
})

t.test('an answer that is lost', async t => {
  const owner = new Owner(t)
  const device = await startTestService(t)
  const network = await Network.to(t, device.port)
  owner.write('keys.csv', `lobby,${device.key}\n`)
  const want = (timezone: string) =>
    owner.write('fleet.yaml', fleetFile({ lobby: network.address }, `settings: { timezone: ${timezone} }\n`))
  const losing = (isLost: (head: string) => boolean, fate: Fate) => {
    let isOver = false
    network.fateOf = head => {
      if (isOver || !isLost(head)) return 'pass'
      isOver = true
      return fate
    }
  }
  const isConfirmation = (head: string) => head.startsWith('POST /api/v1/system/confirm')
  for (const [what, fate, isLost, timezone, ...options] of [
    ['to a change', 'lose the answer', isWrite, 'UTC'],
    ['to a change on trial', 'lose the answer', isWrite, 'Europe/Brussels', '--confirm'],
    ['to its confirmation', 'lose the answer', isConfirmation, 'UTC', '--confirm'],
    ['to a change, of a service that ends', 'answer for it', isWrite, 'Europe/Brussels'],
    ['to a change on trial, likewise', 'answer for it', isWrite, 'UTC', '--confirm'],
  ] as const) {
    losing(isLost, fate)
    want(timezone)
    const { status, of } = await owner.outcomes(['apply', '--yes', ...options])
    t.equal(status, 0, what)
    t.match(of.lobby, { state: 'changed' })
    t.equal(await settingOf(device, 'timezone'), timezone)
    const { trial } = (await (await device.fetch('/status')).json()) as { trial?: unknown }
    t.equal(trial, undefined, 'confirmed')
  }
})

t.test('an answer that is lost while the change is being made', async t => {
  for (const options of [[], ['--confirm']]) {
    const owner = new Owner(t)
    const slow = new SlowSetting()
    const device = await startTestService(t, { setting: () => slow.setting })
    const network = await Network.to(t, device.port)
    owner.write('keys.csv', `lobby,${device.key}\n`)
    owner.write('fleet.yaml', fleetFile({ lobby: network.address }, 'settings: { slow: true }\n'))
    const applied = owner.outcomes(['apply', '--yes', ...options])
    await slow.begun
    network.breakOff()
    // The device has yet to make the change when it is asked about it.
    await new Promise(resolve => {
      network.fateOf = () => {
        setTimeout(resolve, 500)
        return 'pass'
      }
    })
    slow.end()
    t.match(await applied, { status: 0, of: { lobby: { state: 'changed' } } }, options.join())
    t.equal(await settingOf(device, 'slow'), true)
    const { trial } = (await (await device.fetch('/status')).json()) as { trial?: unknown }
    t.equal(trial, undefined, 'confirmed')
  }
})

t.test('the answer to a confirmation is that there is none, and the next one is lost', async t => {
  const owner = new Owner(t)
  const device = await startTestService(t)
  const network = await Network.to(t, device.port)
  owner.write('keys.csv', `lobby,${device.key}\n`)
  owner.write('fleet.yaml', fleetFile({ lobby: network.address }, 'settings: { timezone: UTC }\n'))
  let asked = 0
  network.fateOf = head => {
    if (head.startsWith('POST /api/v1/system/confirm')) asked++
    else if (asked === 1 && head.startsWith('GET /api/v1/system ')) return 'lose the answer'
    return asked === 0 || !head.startsWith('POST') ? 'pass' : 'forget it'
  }
  const { status, of } = await owner.outcomes(['apply', '--yes', '--confirm'])
  t.match([status, of.lobby], [0, { state: 'changed' }])
  t.equal(asked, 2, 'it was asked again')
})

t.test('a device that refuses a change for now is quoted', async t => {
  const owner = new Owner(t)
  const device = await startTestService(t)
  const network = await Network.to(t, device.port)
  owner.write('keys.csv', `lobby,${device.key}\n`)
  owner.write('fleet.yaml', fleetFile({ lobby: network.address }, 'settings: { timezone: UTC }\n'))
  network.fateOf = head => (isWrite(head) ? 'refuse it' : 'pass')
  const { status, of } = await owner.outcomes(['apply', '--yes'])
  const reason = 'the change was not made: the service refused: The service is restarting; give the command again'
  t.match([status, of.lobby], [1, { state: 'failed', reason }])
})

t.test('of a password alone, it cannot be seen whether the device has it', { skip: needs('wpa_cli') }, async t => {
  const owner = new Owner(t)
  const { options } = await startWifiDevice(t)
  const device = await startTestService(t, options)
  const network = await Network.to(t, device.port)
  owner.write('keys.csv', `lobby,${device.key}\n`)
  const want = (password: string) => {
    const wifi = { country: 'DK', networks: [{ ssid: 'lobby', password, hidden: false }] }
    owner.write('fleet.yaml', fleetFile({ lobby: network.address }, `settings: ${JSON.stringify({ wifi })}\n`))
  }
  want('correct-horse')
  t.match(await owner.outcomes(['apply', '--yes']), { status: 0, of: { lobby: { state: 'changed' } } })
  want('battery-staple')
  network.fateOf = head => (isWrite(head) ? 'lose the answer' : 'pass')
  const { of } = await owner.outcomes(['apply', '--yes'])
  t.equal(of.lobby?.state, 'failed')
  t.match(of.lobby?.reason, /; whether the change was made cannot be seen, because it sends passwords alone; give/)
})

async function refusal(t: Test, yaml: string, mode?: number): Promise<string> {
  const owner = new Owner(t)
  owner.write('fleet.yaml', yaml, mode)
  const { status, stdout, stderr } = await owner.run(['list'])
  t.equal(status, 2, yaml)
  t.equal(stdout, '')
  return stderr.replaceAll(owner.folder, '')
}

t.test('a mistake in the file has its line and its place', async t => {
  const key = 'key: "0123456789abcdefghijklmn"'
  const cases: readonly (readonly [string, string])[] = [
    ['devices: {}', '/fleet.yaml:1: devices: there is none'],
    ['devices:\n  a: { adress: "http://a" }', '/fleet.yaml:2: devices.a.adress: did you mean address?'],
    ['devices:\n  a: { address: "ftp://a" }', '/fleet.yaml:2: devices.a.address: "ftp://a" is no address of a device'],
    [
      'devices:\n  a: { address: "https://b/#key=0123456789abcdefghijklmn" }',
      '/fleet.yaml:2: devices.a.address: it is no address of a device; give HOST, HOST:PORT',
    ],
    ['devices:\n  a: { address: "https://ann:secret@b" }', 'devices.a.address: it is no address of a device'],
    ['devices:\n  a: { address: 192.0.2.1 }', '/fleet.yaml:2: devices.a: https needs a pin, or a ca'],
    ['devices:\n  a: { address: b, pin: abc }', '/fleet.yaml:2: devices.a.pin: give sha256//BASE64'],
    ['devices:\n  a: { serial: 100 }', '/fleet.yaml:2: devices.a.serial: must be text; put it between quotes'],
    [
      'devices:\n  a: { serial: "1" }',
      '/fleet.yaml:2: devices.a: a device that is found by its serial number needs a pin',
    ],
    [
      'groups: { hall: {} }\ndevices:\n  a: { address: "http://a", groups: hal }',
      'there is no group "hal"; did you mean hall?',
    ],
    [
      'devices:\n  a: { address: "http://b" }\n  c: { address: "http://b:80" }',
      '/fleet.yaml:3: devices.c: it has the same address as a',
    ],
    [
      'devices:\n  a: { address: "http://b", serial: "7" }\n  c: { address: "http://d", serial: "7" }',
      '/fleet.yaml:3: devices.c: it has the same serial number as a',
    ],
    ['devices:\n  a: 1\n  a: 2', '/fleet.yaml:3: not YAML: duplicate key'],
    ['devices: { a: { address: b } }\nsettings:\n  volume: .nan', '/fleet.yaml:3: infinite, or not a number'],
    ['devices: { a: { address: b } }\nsettings: { volume: [1e999] }', '/fleet.yaml:2: infinite, or not a number'],
    [
      'settings:\n  airplay: { password: !secret airplay }\ndevices: { a: { address: "http://b" } }',
      '/fleet.yaml:2: not YAML: tag resolve failed',
    ],
    ['devices:\n  a: { address: "http://b" }', 'a has no credential: add a line a,KEY'],
    [
      `devices:\n  a: { address: "http://b", key: { env: NOT_SET } }`,
      'devices.a.key: the environment variable NOT_SET has no key',
    ],
  ]
  for (const [yaml, said] of cases) t.match(await refusal(t, yaml), said)
  for (const yaml of [
    `devices:\n  a: { address: "http://b", ${key} }`,
    `settings: { wifi: { networks: [{ ssid: x, password: secret-secret }] } }\ndevices:\n  a: { address: "http://b" }`,
    `settings: { update: { channel: "https://u/r.raucb?secret-secret" } }\ndevices:\n  a: { address: "http://b" }`,
  ]) {
    const said = await refusal(t, yaml, 0o644)
    t.match(said, 'has a key, a password or an address with a query, and others may read it: chmod 600')
    t.notMatch(said, /0123456789abc|secret-secret/)
  }
})

t.test('devices are in the order of the file, whatever their names', async t => {
  const owner = new Owner(t)
  const names = ['lobby', '305', '101']
  owner.write('keys.csv', names.map(name => `${name},${'A'.repeat(43)}\n`).join(''))
  for (const [index, form] of ['devices:\n', 'settings: &a {}\ndevices: &d\n'].entries()) {
    const lines = names.map((name, at) => `  ${name}: { address: "http://127.0.0.1:${at + 1}" }\n`)
    owner.write('fleet.yaml', `keys: keys.csv\n${form}${lines.join('')}`)
    const { stdout } = await owner.run(['list', '--json'])
    const { devices } = JSON.parse(stdout) as { readonly devices: readonly { readonly device: string }[] }
    t.strictSame(
      devices.map(({ device }) => device),
      names,
      `${index}`,
    )
  }
})

t.test('a key file that others may read is not used', async t => {
  const owner = new Owner(t)
  owner.write('fleet.yaml', fleetFile({ a: '127.0.0.1:9' }))
  owner.write('keys.csv', 'a,0123456789abcdefghijklmn\n', 0o640)
  t.match(await owner.run(['list']), { status: 2, stderr: /keys\.csv has secrets, and others may read it: chmod 600/ })
  owner.write('keys2.csv', 'a,short\n')
  owner.write('fleet.yaml', fleetFile({ a: '127.0.0.1:9' }).replace('keys.csv', 'keys2.csv'))
  const { status, stderr } = await owner.run(['list'])
  t.equal(status, 2)
  t.match(stderr, /keys2\.csv:1: give NAME,KEY/)
  t.notMatch(stderr, 'short')
})

t.test('a wrong call says what is meant', async t => {
  const owner = new Owner(t)
  owner.write('fleet.yaml', fleetFile({ lobby: '127.0.0.1:9' }))
  owner.write('keys.csv', 'lobby,0123456789abcdefghijklmn\n')
  const cases: readonly (readonly [readonly string[], string])[] = [
    [[], 'missing command'],
    [['aply'], 'unknown command "aply"; did you mean apply?'],
    [['apply', '--wave', '1'], 'apply has no option --wave; did you mean --waves?'],
    [['list', '--yes'], 'list has no option --yes'],
    [['list', 'lobby'], 'list takes no argument: "lobby"'],
    [['apply', '--waves', '2,rest,3'], '--waves: "2,rest,3" is no list of sizes, such as 2,10,rest'],
    [['list', '--at-once', '0'], '--at-once: "0" is not a whole number from 1 to 200'],
    [['list', '--device', 'loby'], '--device: "loby" is not in the fleet file; did you mean lobby?'],
    [['list', '--fleet', 'other.yaml'], 'other.yaml'],
    [['apply', '--json'], 'apply --json cannot ask: give --yes as well'],
  ]
  for (const [args, said] of cases) {
    const { status, stdout, stderr } = await owner.run(args)
    t.equal(status, 2, args.join(' '))
    t.equal(stdout, '')
    t.match(stderr, said)
    t.equal(stderr.split('\n').length, 2, 'one line')
  }
})

t.test('Ctrl-C begins no further device, and waits for those under way', async t => {
  const owner = new Owner(t)
  let child: ChildProcess | undefined
  const hanging = await silentAddress(t, () => child?.kill('SIGINT'))
  const device = await startTestService(t)
  owner.write('keys.csv', `hanging,${device.key}\nlobby,${device.key}\n`)
  owner.write('fleet.yaml', fleetFile({ hanging, lobby: `127.0.0.1:${device.port}` }, 'settings: { timezone: UTC }\n'))
  for (const command of [['list'], ['diff'], ['apply', '--yes']]) {
    const args = [...command, '--at-once', '1', '--timeout', '3', '--json']
    const { status, stdout, stderr } = await owner.run(args, {}, started => {
      child = started
    })
    t.equal(status, 130, args.join(' '))
    t.match(stderr, 'No further device is begun.')
    t.match(JSON.parse(stdout).devices, [
      { device: 'hanging', state: 'failed' },
      { device: 'lobby', state: 'not begun' },
    ])
  }
  t.not(await settingOf(device, 'timezone'), 'UTC')
})

t.test('the second Ctrl-C waits for no device, and the report has what is known', async t => {
  const owner = new Owner(t)
  let child: ChildProcess | undefined
  const hanging = await silentAddress(t, () => child?.kill('SIGINT'))
  const device = await startTestService(t)
  const names = ['lobby', 'hanging', 'hall']
  owner.write('keys.csv', names.map(name => `${name},${device.key}\n`).join(''))
  const addresses = { lobby: `127.0.0.1:${device.port}`, hanging, hall: '127.0.0.1:9' }
  owner.write('fleet.yaml', fleetFile(addresses, 'settings: { timezone: UTC }\n'))
  mkdirSync(owner.path('saved'))
  for (const command of [['list'], ['diff'], ['backup', 'saved']]) {
    const args = [...command, '--at-once', '1', '--timeout', '600', '--json']
    const { status, stdout } = await owner.run(args, {}, started => {
      child = started
      started.stderr?.on('data', text => {
        if (String(text).includes('Press Ctrl-C again')) started.kill('SIGINT')
      })
    })
    t.equal(status, 130, args.join(' '))
    const { devices, summary } = JSON.parse(stdout)
    t.match(devices, [
      { device: 'lobby', state: /^(ok|would change|done)$/ },
      { device: 'hanging', state: 'failed', reason: 'interrupted: its outcome is unknown' },
      { device: 'hall', state: 'not begun' },
    ])
    t.strictSame(summary, { [devices[0].state]: 1, failed: 1, 'not begun': 1 })
  }
})

t.test('a change that can cut a device off is on trial, and is kept once the device was reached again', async t => {
  const owner = new Owner(t)
  const device = await startTestService(t)
  const network = await Network.to(t, device.port)
  const heads: string[] = []
  network.fateOf = head => {
    heads.push(head)
    return 'pass'
  }
  owner.write('keys.csv', `lobby,${device.key}\n`)
  owner.write('fleet.yaml', fleetFile({ lobby: network.address }, 'settings: { hostname: room-of-the-fleet }\n'))
  const { status, of } = await owner.outcomes(['apply', '--yes'])
  t.equal(status, 0)
  t.match(of.lobby, { state: 'changed' })
  t.equal(await settingOf(device, 'hostname'), 'room-of-the-fleet')
  t.ok(heads.some(head => head.startsWith('PATCH /api/v1/system?confirmWithin=60 ')))
  t.ok(heads.some(head => head.startsWith('POST /api/v1/system/confirm ')))
  const { trial } = (await (await device.fetch('/status')).json()) as { trial?: unknown }
  t.equal(trial, undefined)
})

/** A device that is at the first address until a change on trial has moved it to the second one. It shows these certificates. */
async function movingDevice(t: Test, [old, next]: readonly [TlsKey, TlsKey]) {
  let network: JsonObject = { eth0: { method: 'dhcp' } }
  const asked: string[] = []
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    const { method = '', url = '', socket } = request
    asked.push(`${socket.localAddress} ${method} ${url}`)
    const answer = (body: JsonObject, headers = {}) => response.writeHead(200, headers).end(JSON.stringify(body))
    if (url.endsWith('/openapi.json')) {
      const schemas = { System: { properties: { network: { 'x-confirm-within': 60 } } } }
      return answer({ components: { schemas } })
    }
    if (url.includes('validateOnly')) return answer({ changes: { network: NEXT } })
    if (url.endsWith('/confirm')) return answer({})
    if (method === 'GET') return answer({ network }, { ETag: '"1"' })
    network = NEXT
    first.close()
    return answer({ network }, { ETag: '"2"', 'Confirm-Within': '60', Connection: 'close' })
  }
  const [first, second] = [createServer(old, serve), createServer(next, serve)]
  t.teardown(() => void [first, second].map(server => server.close()))
  await once(second.listen(0, '127.0.0.3'), 'listening')
  const { port } = second.address() as AddressInfo
  await once(first.listen(port, '127.0.0.1'), 'listening')
  return { port, asked }
}

type TlsKey = ReturnType<typeof certificateOf>
const NEXT = { eth0: { method: 'static', address: '127.0.0.3/8' } }

t.test('a device whose address changes is found at the new one by its key alone', async t => {
  const [own, other] = [certificateOf('lobby'), certificateOf('other')]
  const [, pin = ''] = own.pin.split('//')
  const moved = async (next: TlsKey, trust: Trust) => {
    const { port, asked } = await movingDevice(t, [own, next])
    const client = new DeviceClient([{ host: '127.0.0.1', port }], trust, ['key'], 5_000)
    let ms = 0
    const wait = async (pause: number) => {
      ms += 10 * pause
    }
    const options = { isTrial: false, lostMs: 30_000, wait, now: () => ms }
    const result = await changeDevice(client, { network: NEXT }, options).catch(error => error.message)
    return { result, there: asked.filter(each => each.startsWith('127.0.0.3 ')) }
  }
  const trusts: readonly Trust[] = [
    { kind: 'pin', pin },
    { kind: 'fingerprint', fingerprint: own.fingerprint },
  ]
  for (const trust of trusts) {
    const { result, there } = await moved(own, trust)
    const note = 'it was reached at 127.0.0.3; if the fleet file has its former address, replace that'
    t.match(result, { state: 'changed', note }, trust.kind)
    t.same(there, ['127.0.0.3 POST /api/v1/system/confirm'])
  }
  for (const [next, trust] of [
    [other, trusts[0]],
    [own, { kind: 'ca', certificates: own.cert }],
  ] as const) {
    const { result, there } = await moved(next, trust as Trust)
    t.match(result, /^it has not answered after the change, and undoes it by itself: cannot connect to 127\.0\.0\.1:/)
    t.same(there, [])
  }
})

t.test('a device that is known by its name in mDNS is looked for under its new one', async t => {
  const named = async (host: string, hostname: string) => {
    let hosts: readonly string[] = []
    const send = async (method: string, path: string) => {
      if (path.includes('validateOnly')) return { body: { changes: { hostname } }, headers: {} }
      return { body: {}, etag: method, headers: {} }
    }
    const lookAt = (given: readonly string[]) => {
      hosts = given
    }
    const client = { host, send, lookAt } as unknown as DeviceClient
    const options = { isTrial: false, lostMs: 0, wait: async () => undefined, now: () => 0 }
    t.match(await changeDevice(client, { hostname }, options), { state: 'changed' })
    return hosts
  }
  t.same(await named('receiver.local', 'lobby'), ['lobby.local'])
  t.same(await named('receiver.local', 'lobby.example.org'), ['lobby.local'])
  t.same(await named('receiver.local', 'receiver.example.org'), [])
  t.same(await named('192.0.2.11', 'lobby'), [])
})
