/** The collection in src/fleet/ansible, with Ansible itself: 40 devices by the playbook in the README, and a device for each failure. */
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { needs } from '../support/needs.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { SlowSetting } from '../support/slow-setting.ts'
import { startWifiDevice } from '../support/wifi-device.ts'
import { Controller, INVENTORY, PLAYBOOK } from './controller.ts'
import { certificateOf, Network } from './support.ts'

const DEVICES = 40
const MODULE = 'receiverd.receiverd.receiverd_system'
const PASSWORD = 'correct-horse-battery'
const OTHER_KEY = 'key-0123456789abcdef'.repeat(2)
/** A connection to another computer, as far as Ansible knows: there, the module runs, and not the action plugin. */
const ELSEWHERE = `DOCUMENTATION = """
name: elsewhere
short_description: this computer
description: [this computer]
extends_documentation_fragment: [connection_pipelining]
"""
from ansible.plugins.connection.local import Connection as Local
class Connection(Local):
    transport = "elsewhere"
`
const skip = needs('ansible-playbook')

const timezoneOf = async (device: TestService) => (await device.system()).value.timezone

/**
 * A certificate (PEM) with the key of `own`, in which a reader that takes an indefinite length for none finds that of `other`: in
 * place of the algorithm of its signature, it has values without lengths, which OpenSSL accepts (X.690 section 8.1.3.6).
 */
function disguised(own: string, other: string): string {
  const value = (tag: number, content: Buffer) =>
    Buffer.concat([Buffer.from([tag, 0x82, content.length >> 8, content.length & 0xff]), content])
  const endOf = (der: Buffer, at: number) => {
    const length = der[at + 1] ?? 0
    const count = length & 0x80 ? length & 0x7f : 0
    return at + 2 + count + (count === 0 ? length : der.readUIntBE(at + 2, count))
  }
  const { raw } = new X509Certificate(own)
  const contentAt = (at: number) => at + 2 + ((raw[at + 1] ?? 0) & 0x80 ? (raw[at + 1] ?? 0) & 0x7f : 0)
  const begin = contentAt(0)
  const end = endOf(raw, begin)
  const serial = endOf(raw, contentAt(begin))
  const signature = endOf(raw, serial)
  const key = new X509Certificate(other).publicKey.export({ type: 'spki', format: 'der' })
  const disguise = Buffer.concat([Buffer.from('308006082a8648ce3d04030230800500', 'hex'), key, Buffer.alloc(4)])
  const members = [raw.subarray(contentAt(begin), signature), disguise, raw.subarray(endOf(raw, signature), end)]
  const der = value(0x30, Buffer.concat([value(0x30, Buffer.concat(members)), raw.subarray(end)]))
  return `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`
}

t.test('40 devices, by the playbook in the README', { skip }, async t => {
  t.match(INVENTORY, 'fleet: fleet.yaml')
  t.match(PLAYBOOK, 'confirm_within: 60')
  const owner = new Controller(t)
  const devices = await Promise.all(Array.from({ length: DEVICES }, () => startTestService(t)))
  const names = devices.map((_, at) => `room-${at + 1}`)
  const lines = await Promise.all(
    devices.map(async ({ port }, at) => {
      const own = certificateOf(`room-${at + 1}`)
      const { address } = await Network.to(t, port, own)
      const pin = at % 2 === 0 ? own.pin : own.fingerprint
      return `  room-${at + 1}: { address: "${address}", pin: "${pin}", groups: [${at < 10 ? 'floor-4' : 'lobby'}] }\n`
    }),
  )
  // A rotation was interrupted: the second key is in force.
  const keys = devices.map(({ key }, at) => `room-${at + 1},${at === 0 ? `${OTHER_KEY},` : ''}${key}\n`)
  // As an editor on Windows saves it.
  owner.write('keys.csv', `\ufeff${keys.join('').replaceAll('\n', '\r\n')}# of August\r\n`)
  owner.write(
    'fleet.yaml',
    `keys: keys.csv
settings: { timezone: UTC, ntp: { enabled: true, servers: [ntp.example.org] } }
groups: { floor-4: { settings: { moderation: { approval: moderator } } }, lobby: {} }
devices:
${lines.join('')}`,
  )
  const etags = async () => Promise.all(devices.map(async device => (await device.system()).etag))
  const pristine = await etags()

  const checked = await owner.play(['--check', '--diff'])
  t.comment(`check mode: ${DEVICES} devices in ${checked.took} ms`)
  t.equal(checked.status, 0, checked.text)
  t.same(await etags(), pristine, 'check mode changes nothing')
  t.same(new Set(Object.keys(checked.of)), new Set(names))
  for (const name of names) t.match(checked.of[name], { state: 'changed', changed: true }, name)
  t.same(checked.of['room-1']?.changes, [
    { pointer: '/timezone', before: await timezoneOf(devices[0] as TestService), after: 'UTC' },
    { pointer: '/ntp/servers', before: [], after: ['ntp.example.org'] },
    { pointer: '/moderation/approval', before: 'none', after: 'moderator' },
  ])
  t.match(checked.text, /^\+ +"timezone": "UTC"$/m)

  const changed = await owner.play(['--diff'])
  t.comment(`in earnest: ${DEVICES} devices in ${changed.took} ms`)
  t.equal(changed.status, 0, changed.text)
  t.same(changed.of, checked.of, 'as predicted')
  for (const [at, device] of devices.entries()) {
    const { value } = await device.system()
    const approval = at < 10 ? 'moderator' : 'none'
    t.match(value, { timezone: 'UTC', ntp: { servers: ['ntp.example.org'] }, moderation: { approval } })
    const { trial } = (await (await device.fetch('/status')).json()) as { trial?: unknown }
    t.equal(trial, undefined, 'confirmed')
  }

  const settled = await etags()
  const again = await owner.play(['--diff'])
  t.equal(again.status, 0, again.text)
  for (const name of names) t.same(again.of[name], { state: 'ok', changed: false, changes: [] }, name)
  t.same(await etags(), settled, 'nothing was written')
  for (const { text } of [checked, changed, again])
    for (const { key } of devices) if (text.includes(key)) t.fail('a key was printed')
})

t.test('the inventory', { skip }, async t => {
  const owner = new Controller(t)
  const listed = async (fleet: string, ...args: readonly string[]) => {
    owner.write('fleet.yaml', fleet)
    const options = ['--inventory', owner.path('receiverd.yml'), ...args]
    return owner.ansible('ansible-inventory', options, { ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED: 'true' })
  }
  const pin = `sha256//${'A'.repeat(43)}=`
  const { status, stdout, stderr } = await listed(
    `keys: keys.csv
ca: ca.pem
settings: { deviceName: "{{ 1 + 1 }}" }
groups: { floor-4: {}, lobby: { settings: { update: { window: { from: 22:00 } } } } }
devices:
  one: { address: 192.0.2.1, pin: "${pin}", groups: [floor-4, lobby] }
  two: { address: "[2001:db8::2]:8443", key: { env: TWO } }
  three: { address: "http://192.0.2.3:8080", key: { file: three.key } }
`,
    '--list',
  )
  t.equal(status, 0, stderr)
  const whole = JSON.parse(stdout)
  const { one, two, three } = whole._meta.hostvars
  t.match(one, {
    ansible_connection: 'local',
    receiverd_address: 'https://192.0.2.1:443',
    receiverd_pin: pin,
    receiverd_key_file: owner.path('keys.csv'),
    receiverd_device: 'one',
    receiverd_settings: { deviceName: { __ansible_unsafe: '{{ 1 + 1 }}' }, update: { window: { from: '22:00' } } },
  })
  t.match(two, {
    receiverd_address: 'https://[2001:db8::2]:8443',
    receiverd_ca_path: owner.path('ca.pem'),
    receiverd_key_env: 'TWO',
    receiverd_key_file: undefined,
  })
  t.match(three, { receiverd_address: 'http://192.0.2.3:8080', receiverd_key_file: owner.path('three.key') })
  t.equal(three.receiverd_device, undefined)
  t.same(whole.receivers.hosts, ['one', 'two', 'three'])
  t.match(whole, { floor_4: { hosts: ['one'] }, lobby: { hosts: ['one'] } })

  // In the place of avahi, which would need a network: its output (avahi-browse(1)).
  const found = (name: string, address: string, txt: string) =>
    `=;eth0;IPv4;${name};_receiverd._tcp;local;${name}.local;${address};443;${txt}`
  const hostile = `{{ lookup("pipe", "touch ${owner.path('pwned')}") }}`
  const lines = [
    found('known', '192.0.2.1', `"serial=1" "pin=${'A'.repeat(43)}="`),
    found('two', '192.0.2.66', '"serial=66"'),
    found(
      'new',
      '192.0.2.7',
      `"serial=7" "model=${hostile.replaceAll('"', '\\"')}" "pin=${'B'.repeat(43)}=" "groups=lobby"`,
    ),
  ]
  owner.write('avahi-browse', `#!/bin/sh\ncat <<'END'\n${lines.join('\n')}\nEND\n`, 0o700)
  owner.write('receiverd.yml', `${INVENTORY}discover: true\ncompose: { shown: receiverd_model }\n`)
  const env = { PATH: `${owner.folder}:${process.env.PATH}` }
  const args = ['--inventory', owner.path('receiverd.yml'), '--list']
  const all = await owner.ansible('ansible-inventory', args, env)
  t.equal(all.status, 0, all.stderr)
  const everything = JSON.parse(all.stdout)
  t.same(everything.receivers_discovered.hosts, ['new'], 'neither a device of the file, nor one that takes its name')
  t.same(everything.lobby.hosts, ['one'], 'no group is claimed')
  t.match(all.stderr.replace(/\s+/g, ' '), /a receiver at 192\.0\.2\.66 has the name of another one, two/)
  t.match(everything._meta.hostvars.new, {
    receiverd_address: 'https://192.0.2.7:443',
    receiverd_claimed_pin: `sha256//${'B'.repeat(43)}=`,
    receiverd_model: { __ansible_unsafe: hostile },
    receiverd_pin: undefined,
    receiverd_key_file: undefined,
  })
  t.notOk(owner.has('pwned'), 'a claim of a device is no template')
  owner.write('receiverd.yml', INVENTORY)

  const device = 'devices: { a: { address: "http://192.0.2.1", groups: [4th, 5th] } }\n'
  for (const [fleet, said] of [
    ['devices:\n  a: { adress: "http://a" }\n', /fleet\.yaml:2: devices\.a\.adress: did you mean address\?/],
    [`groups: { 4th: {}, 5th: {} }\n${device}`, /the groups "4th" and "5th" are both _th: rename one of them/],
  ] as const) {
    const { status, stderr } = await listed(fleet, '--list')
    t.not(status, 0)
    t.match(stderr.replace(/\s+/g, ' '), said)
  }
})

t.test('failures are said in words', { skip }, async t => {
  const owner = new Controller(t)
  const names = [
    'pin',
    'posing',
    'authority',
    'value',
    'key',
    'trial',
    'lost',
    'ended',
    'refused',
    'again',
    'slow',
  ] as const
  const devices = {} as Record<(typeof names)[number], TestService>
  const { setting, begun, end } = new SlowSetting()
  for (const name of names) devices[name] = await startTestService(t, name === 'slow' ? { setting: () => setting } : {})
  const [own, other] = [certificateOf('pin'), certificateOf('pin')]
  const [pinned, posing, signed, trial, lost, ended, refused, slow] = [
    await Network.to(t, devices.pin.port, own),
    await Network.to(t, devices.posing.port, { ...own, cert: disguised(own.cert, other.cert) }),
    await Network.to(t, devices.authority.port, own),
    await Network.to(t, devices.trial.port),
    await Network.to(t, devices.lost.port),
    await Network.to(t, devices.ended.port),
    await Network.to(t, devices.refused.port),
    await Network.to(t, devices.slow.port),
  ]
  const heads: string[] = []
  pinned.fateOf =
    posing.fateOf =
    signed.fateOf =
      head => {
        heads.push(head)
        return 'pass'
      }
  // Nobody can confirm it.
  trial.fateOf = head => (head.startsWith('POST /api/v1/system/confirm') ? 'break down' : 'pass')
  for (const [network, fate] of [
    [lost, 'lose the answer'],
    [ended, 'answer for it'],
    [refused, 'refuse it'],
  ] as const) {
    let isLost = false
    network.fateOf = head => {
      if (isLost || !head.startsWith('PATCH /api/v1/system ')) return 'pass'
      isLost = true
      return fate
    }
  }
  // The device has yet to make the change when it is asked about it.
  begun.then(() => {
    slow.breakOff()
    slow.fateOf = () => {
      setTimeout(end, 500)
      return 'pass'
    }
  })
  owner.write('other.pem', other.cert)
  owner.write('keys.csv', names.map(name => `${name},${name === 'key' ? OTHER_KEY : devices[name].key}\n`).join(''))
  const at = (name: (typeof names)[number], rest = '') =>
    `  ${name}: { address: "http://127.0.0.1:${devices[name].port}"${rest} }\n`
  owner.write(
    'fleet.yaml',
    `keys: keys.csv
settings: { timezone: UTC }
devices:
  pin: { address: "${pinned.address}", pin: "${other.pin}" }
  posing: { address: "${posing.address}", pin: "${other.pin}" }
  authority: { address: "${signed.address}", ca: other.pem }
${at('value', ', settings: { ntp: { servers: ["no host"] }, shoe: 43 }')}${at('key')}${at('again')}
  trial: { address: "http://${trial.address}" }
  lost: { address: "http://${lost.address}" }
  ended: { address: "http://${ended.address}" }
  refused: { address: "http://${refused.address}" }
  slow: { address: "http://${slow.address}", settings: { slow: true } }
`,
  )
  const trialOnly = `"{{ 5 if inventory_hostname == 'trial' else omit }}"`
  owner.write('receivers.yml', PLAYBOOK.replace(/serial: .*/, '').replace('within: 60', `within: ${trialOnly}`))
  const before = await timezoneOf(devices.trial)
  t.not(before, 'UTC')
  const { status, of, text } = await owner.play()
  t.equal(status, 2, text)
  t.match(of, {
    pin: { state: 'fatal', msg: `it is not the device with this pin: its certificate has another one, ${own.pin}` },
    posing: { state: 'fatal', msg: 'its certificate cannot be read' },
    authority: { state: 'fatal', msg: /its certificate is not accepted: self-signed certificate; give its pin, or/ },
    value: { state: 'fatal', errors: [{ pointer: '/ntp/servers/0' }, { pointer: '/shoe' }] },
    key: { state: 'fatal', msg: /^the device refuses it \(401\): / },
    trial: {
      state: 'fatal',
      msg: /^it has not answered after the change, and undoes it by itself: cannot connect to /,
    },
    lost: { state: 'changed', changes: [{ pointer: '/timezone' }] },
    ended: { state: 'changed', changes: [{ pointer: '/timezone' }] },
    refused: {
      state: 'fatal',
      msg: 'the change was not made: the device refuses it (503): The service is restarting; run the task again',
    },
    again: { state: 'changed' },
    slow: { state: 'changed' },
  })
  t.match(of.value?.msg, /^the device refuses \/ntp\/servers\/0: .*; \/shoe: /)
  t.same(heads, [], 'to a device that has not proved who it is, nothing was sent')
  for (const name of ['lost', 'ended'] as const) t.equal(await timezoneOf(devices[name]), 'UTC')
  for (const name of ['pin', 'posing', 'authority', 'value', 'key'] as const)
    t.equal(await timezoneOf(devices[name]), before)
  t.ok(await eventually(async () => (await timezoneOf(devices.trial)) === before), 'undone')
  for (const { key } of Object.values(devices)) t.notMatch(text, key)

  const common = { address: 'http://127.0.0.1:9', settings: { timezone: 'UTC' } }
  owner.write('twice.csv', `# keys\nlobby,${OTHER_KEY}\nhall,${OTHER_KEY}\nlobby,${OTHER_KEY}x\n`)
  const odd = createServer((_, response) => {
    response.setHeader('Content-Type', 'application/json').end('{"changes":["timezone"]}')
  }).listen(0, '127.0.0.1')
  await once(odd, 'listening')
  t.teardown(() => odd.close())
  const { port: oddPort } = odd.address() as AddressInfo
  owner.write('shared.key', 'lobby,0123456789abcdefghijklmn\n', 0o640)
  const wrong = [
    [{ pin: 'abc', key: OTHER_KEY, address: '192.0.2.1' }, 'pin: give sha256//BASE64, or a SHA-256 fingerprint'],
    [{ pin: own.pin, key: OTHER_KEY }, 'pin: there is no TLS at an http: address'],
    [{ pin: own.pin, ca_path: '/x' }, 'parameters are mutually exclusive: pin|ca_path'],
    [{ key: OTHER_KEY, address: 'ftp://x' }, '"ftp://x\\" is no address of a device; give HOST, HOST:PORT'],
    [
      { key: OTHER_KEY, address: 'https://x/#key=0123456789abcdefghijklmn' },
      'address: it is no address of a device; give HOST, HOST:PORT',
    ],
    [{}, 'give key or key_file, or set the environment variable RECEIVERD_KEY'],
    [{ device: 'lobby' }, "missing parameter(s) required by 'device': key_file"],
    [{ device: 'lobby', key_file: owner.path('keys.csv') }, 'keys.csv has no line lobby,KEY'],
    [
      { device: 'lobby', key_file: owner.path('shared.key') },
      'shared.key has secrets, and others may read it: chmod 600',
    ],
    [{ device: 'lobby', key_file: owner.path('twice.csv') }, 'twice.csv:4: lobby has another line before'],
    [
      { key: OTHER_KEY, address: `http://127.0.0.1:${oddPort}` },
      'its answer to PATCH /system?validateOnly=true has something other than an object as changes',
    ],
    [{ key: OTHER_KEY, confirm_within: 3 }, 'confirm_within: 3 is not from 5 to 600 seconds'],
    [{ key: OTHER_KEY, pim: own.pin }, 'Unsupported parameters: pim. Supported parameters include: address, ca_path'],
    [{ key: OTHER_KEY }, 'cannot connect to 127.0.0.1:9: Connection refused'],
  ] as const
  // A program for all of them, because its start takes longer than all that they do.
  const tasks = wrong.map(([options]) => ({ [MODULE]: { ...common, ...options }, ignore_errors: true }))
  owner.write('wrong.yml', JSON.stringify([{ hosts: 'localhost', gather_facts: false, tasks }]))
  const { stdout, stderr } = await owner.ansible('ansible-playbook', ['-v', owner.path('wrong.yml')])
  const results = [...stdout.matchAll(/^(\w+): \[localhost\].* => (\{.*\})$/gm)]
  t.equal(results.length, wrong.length, stdout)
  for (const [at, [, said]] of wrong.entries()) {
    const [, state, result = ''] = results[at] ?? []
    t.equal(state, 'fatal', said)
    t.ok(result.includes(said), result)
    t.notMatch(result, /exception|0123456789abc/)
  }
  t.notMatch(stdout + stderr, /exception|0123456789abc/)
})

t.test(
  'a password is sent again, compared by the device, and never printed',
  {
    skip: skip || needs('wpa_cli', 'python3'),
  },
  async t => {
    const owner = new Controller(t)
    const { options, file } = await startWifiDevice(t)
    const device = await startTestService(t, options)
    owner.write(
      'fleet.yaml',
      `token: { env: TOKEN }
settings: { wifi: { country: DK, networks: [{ ssid: lobby, password: ${PASSWORD}, hidden: false }] } }
devices: { lobby: { address: "http://127.0.0.1:${device.port}" } }
`,
    )
    owner.write('elsewhere.py', ELSEWHERE)
    const env = { TOKEN: device.key, ANSIBLE_CONNECTION_PLUGINS: owner.folder }
    owner.write('receivers.yml', PLAYBOOK.replace('within: 60', 'within: 16'))
    const texts: string[] = []
    for (const [args, state, note] of [
      [['--check', '--diff'], 'changed', undefined],
      [['--diff'], 'changed', undefined],
      [
        ['--diff', '-vv', '-e', 'ansible_connection=elsewhere'],
        'ok',
        'only values with secrets are sent, which cannot be compared',
      ],
      [['--check', '--diff'], 'changed', 'only values with secrets are sent, which cannot be compared'],
    ] as const) {
      const { status, of, text } = await owner.play(args, env)
      t.equal(status, 0, text)
      t.equal(of.lobby?.state ?? /^(\w+): \[lobby\]/m.exec(text)?.[1], state, args.join(' '))
      if (of.lobby) t.equal(of.lobby.note, note)
      texts.push(text)
    }
    t.match(readFileSync(file, 'utf8'), `psk="${PASSWORD}"`)
    t.match(texts[0], /^ +"password": "set"/m)
    t.match(texts[2], '"password": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"', 'by the module, which tells its options')
    t.match(texts[3], /\(sent again: a secret in it cannot be compared\)/)
    for (const text of texts) {
      t.notMatch(text, PASSWORD)
      t.notMatch(text, device.key)
    }
  },
)
