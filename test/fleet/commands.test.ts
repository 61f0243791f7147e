/** More of `receiverd-fleet`: TLS, devices that are found, operations, backups, tokens. */
import { generateKeyPairSync, verify } from 'node:crypto'
import { mkdirSync, rmSync, statSync } from 'node:fs'
import t, { type Test } from 'tap'
import { startTestService } from '../support/service.ts'
import { certificateOf, Network, Owner } from './support.ts'

t.test('a device proves who it is before it gets a credential', async t => {
  const device = await startTestService(t)
  const own = certificateOf('lobby')
  const other = certificateOf('lobby')
  const network = await Network.to(t, device.port, own)
  const heads: string[] = []
  network.fateOf = head => {
    heads.push(head)
    return 'pass'
  }
  const owner = new Owner(t)
  owner.write('own.pem', own.cert)
  owner.write('other.pem', other.cert)
  owner.write('key', `${device.key}\n`)
  const listed = async (proof: string) => {
    heads.length = 0
    const device = `lobby: { address: "${network.address}", key: { file: key }, ${proof} }`
    owner.write('fleet.yaml', `devices:\n  ${device}\n`)
    return owner.outcomes(['list'])
  }
  for (const proof of [`pin: "${own.pin}"`, `pin: "${own.fingerprint}"`, 'ca: own.pem'])
    t.match(await listed(proof), { status: 0, of: { lobby: { state: 'ok' } } }, proof)
  for (const [proof, reason] of [
    [`pin: "${other.pin}"`, `its certificate has another pin: ${own.pin}`],
    [`pin: "${other.fingerprint}"`, `its certificate has another fingerprint: ${own.fingerprint}`],
    ['ca: other.pem', /SELF_SIGNED/],
  ] as const) {
    const { status, of } = await listed(proof)
    t.equal(status, 1)
    t.equal(of.lobby?.state, 'failed', proof)
    t.match(of.lobby?.reason, reason)
    t.strictSame(heads, [], 'nothing was sent')
  }
})

async function pair(t: Test) {
  const devices = [await startTestService(t), await startTestService(t)] as const
  const owner = new Owner(t)
  owner.write('keys.csv', devices.map(({ key }, index) => `room-${index},${key}\n`).join(''))
  const lines = devices.map(
    ({ port }, index) => `  room-${index}: { address: "http://127.0.0.1:${port}", groups: [g${index}] }\n`,
  )
  owner.write('fleet.yaml', `keys: keys.csv\ngroups: { g0: {}, g1: {} }\ndevices:\n${lines.join('')}`)
  return { devices, owner }
}

t.test('an operation', async t => {
  const { owner } = await pair(t)
  t.match(await owner.run(['run', 'reboot']), { status: 2, stderr: /no terminal to ask on/ })
  t.match(await owner.run(['run', 'factory-reset', '--yes']), { status: 2, stderr: /replaces the API key/ })
  t.match(await owner.run(['run', 'rebot', '--yes']), { status: 2, stderr: /did you mean reboot\?/ })
  // A service on another root carries none out, and says so.
  const { status, of } = await owner.outcomes(['run', 'reboot', '--yes'])
  t.equal(status, 1)
  t.match(of, { 'room-0': { state: 'failed', reason: /^the service refused: / }, 'room-1': { state: 'not begun' } })
  const device = await startTestService(t)
  const network = await Network.to(t, device.port)
  network.fateOf = () => 'lose the answer'
  const lobby = `{ address: "http://${network.address}", key: "${device.key}" }`
  owner.write('fleet.yaml', `devices: { lobby: ${lobby} }\n`)
  const reason = /^it broke off: .*; it may have carried out the operation$/
  t.match(await owner.outcomes(['run', 'identify', '--yes']), { status: 1, of: { lobby: { state: 'failed', reason } } })
})

t.test('settings are saved, and loaded again', async t => {
  const { devices, owner } = await pair(t)
  t.match(await owner.run(['backup', 'saved']), { status: 1, stderr: /there is no folder .*saved/ })
  mkdirSync(owner.path('saved'))
  t.match(await owner.outcomes(['backup', 'saved']), { status: 0, of: { 'room-0': { state: 'done' } } })
  const saved = JSON.parse(owner.read('saved/room-1.json'))
  t.match(saved, { format: 'receiverd-settings', version: 1 })
  t.equal(saved.settings.hostname, undefined, 'no identity')

  const [one, two] = devices
  const { value } = await one.system()
  for (const device of devices) t.equal((await device.patch({ timezone: 'UTC' })).status, 200)
  t.match(await owner.outcomes(['restore', 'saved', '--yes', '--group', 'g0']), {
    status: 0,
    of: { 'room-0': { state: 'changed', changes: [{ pointer: '/timezone' }] }, 'room-1': undefined },
  })
  t.equal((await one.system()).value.timezone, value.timezone)
  t.equal((await two.system()).value.timezone, 'UTC', 'it is in the other group')

  owner.write('saved/room-1.json', '{}')
  t.equal((await one.patch({ timezone: 'UTC' })).status, 200)
  t.match(await owner.outcomes(['restore', 'saved', '--yes']), {
    status: 1,
    of: {
      'room-0': { state: 'changed' },
      'room-1': { state: 'failed', reason: /room-1\.json has no settings of a receiver$/ },
    },
  })
  rmSync(owner.path('saved/room-0.json'))
  t.match(await owner.outcomes(['restore', 'saved', '--yes', '--device', 'room-0']), {
    status: 1,
    of: { 'room-0': { state: 'failed', reason: /^there is no backup of it in .*saved$/ } },
  })
})

t.test('a device that is found by its serial number', async t => {
  const device = await startTestService(t)
  const own = certificateOf('lobby')
  const network = await Network.to(t, device.port, own)
  const owner = new Owner(t)
  const pin = own.pin.replace('sha256//', '')
  const found = (name: string, port: string | undefined, serial: string, txt: string) =>
    `=;eth0;IPv4;${name};_receiverd._tcp;local;${name}.local;127.0.0.1;${port};"serial=${serial}" ${txt}`
  // In the place of avahi, which would need a network: its output (avahi-browse(1)).
  const other = await Network.to(t, device.port, certificateOf('lobby'))
  const posing = (name: string, txt: string) => found(name, other.address.split(':')[1], '100', txt)
  const lines = [
    posing('zoo', `"pin=${'C'.repeat(43)}="`),
    found('lobby', network.address.split(':')[1], '100', `"model=Pi" "pin=${pin}"`),
    found('evil', '9', '666', '"model=$(reboot)"'),
    `=;eth0;IPv4;twin;_receiverd._tcp;local;lobby.local;127.0.0.2;9;"serial=667" "pin=${'B'.repeat(43)}="`,
  ]
  const announce = () => owner.write('avahi-browse', `#!/bin/sh\ncat <<'END'\n${lines.join('\n')}\nEND\n`, 0o700)
  announce()
  const env = { PATH: `${owner.folder}:${process.env.PATH}` }
  const { status, stdout } = await owner.run(['discover'], env)
  t.equal(status, 0)
  t.match(stdout, /^ {2}# Without TLS.*\n {2}"evil": # evil, \$\(reboot\)\n {4}address: "http:\/\/127/m)
  for (const name of ['lobby', 'lobby-2'])
    t.match(stdout, new RegExp(`^ {2}# Several claim this host name.*\\n {2}"${name}":`, 'm'))

  t.match(stdout, /^ {2}# The same address or serial number as above\..*\n {2}# "zoo": # zoo\n {2}# {3}address: /m)

  owner.write('keys.csv', `lobby,${device.key}\nlobby-2,${device.key}\nevil,${device.key}\n`)
  owner.write('fleet.yaml', stdout)
  t.match((await owner.run(['list', '--device', 'lobby'], env)).stdout, / ok\n$/, 'its output is a fleet file')

  const bySerial = (serial: string) =>
    owner.write('fleet.yaml', `keys: keys.csv\ndevices:\n  lobby: { serial: "${serial}", pin: "${own.pin}" }\n`)
  // Others announce its serial number, and its pin, which is no secret.
  lines.unshift(posing('a', `"pin=${'C'.repeat(43)}="`), posing('b', `"pin=${pin}"`))
  announce()
  bySerial('100')
  t.match((await owner.run(['list'], env)).stdout, / ok\n$/)
  bySerial('200')
  const absent = await owner.run(['list'], env)
  t.equal(absent.status, 1)
  t.match(absent.stdout, 'failed: no receiver with the serial number 200 is on this network')

  const there = `  hall: { address: "${network.address}", pin: "${own.pin}" }\n`
  owner.write('fleet.yaml', `${owner.read('fleet.yaml')}${there}`)
  owner.write('keys.csv', `lobby,${device.key}\nhall,${device.key}\n`)
  const { status: failed, of } = await owner.outcomes(['discard-update', '--yes', '--keep-going'], env)
  t.equal(failed, 1)
  t.match(of.lobby, { state: 'failed', reason: /^no receiver with the serial number 200/ })
  t.match(of.hall, { state: String }, 'the others are reported as well')
})

t.test('a token that many devices take', async t => {
  const owner = new Owner(t)
  const token = (...args: readonly string[]) =>
    owner.run(['token', '--issuer', 'office', '--issuer-key', 'issuer.pem', ...args])
  for (const [alg, pair, hash] of [
    ['EdDSA', generateKeyPairSync('ed25519'), null],
    ['ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' }), 'sha256'],
  ] as const) {
    owner.write('issuer.pem', pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
    const { status, stdout, stderr } = await token(
      '--role',
      'admin:rw',
      '--audience',
      'group:lobby',
      '--expires-in',
      '2h',
    )
    t.equal(status, 0, stderr)
    const [header = '', claims = '', signature = ''] = stdout.trim().split('.')
    const parsed = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
    t.strictSame(parsed(header), { alg, typ: 'JWT', kid: 'office' })
    const { iat, exp, ...rest } = parsed(claims)
    t.strictSame(rest, { roles: ['admin:rw'], aud: ['group:lobby'] })
    t.equal(exp - iat, 7200)
    t.ok(Math.abs(iat - Date.now() / 1000) < 60)
    const key = { key: pair.publicKey, dsaEncoding: 'ieee-p1363' } as const
    t.ok(verify(hash, Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, 'base64url')), alg)
  }
  t.equal((await token('--role', 'admin:r')).status, 0, 'for reading alone, no audience is needed')
  t.same(await token('--role', 'admin:r', '--output', 'token'), { status: 0, stdout: '', stderr: '' })
  t.match(owner.read('token'), /^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  t.equal(statSync(owner.path('token')).mode & 0o777, 0o640)
  t.match(await token('--role', 'admin:r', '--output', 'issuer.pem/token'), {
    status: 1,
    stderr: /there is no folder .*issuer\.pem/,
  })
  for (const [args, said] of [
    [['--role', 'admin:w'], '--audience: a token that may write needs one'],
    [['--role', 'admin:r', '--audience', 'lobby'], '--audience: "lobby" is none of serial:S'],
    [['--role', 'admin:r', '--expires-in', '31d'], '--expires-in: give 1s to 30d'],
    [[], 'see receiverd-fleet token --help'],
  ] as const)
    t.match(await token(...args), { status: 2, stdout: '', stderr: said })
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  owner.write('issuer.pem', rsa.export({ type: 'pkcs8', format: 'pem' }).toString())
  t.match(await token('--role', 'admin:r'), { status: 2, stderr: /neither Ed25519 nor P-256/ })
  owner.write('issuer2.pem', 'secret', 0o644)
  t.match(await owner.run(['token', '--issuer', 'a', '--issuer-key', 'issuer2.pem', '--role', 'admin:r']), {
    status: 2,
    stderr: /others may read it/,
  })
})

t.test('targets for Prometheus', async t => {
  const owner = new Owner(t)
  const { pin } = certificateOf('lobby')
  owner.write(
    'fleet.yaml',
    `keys: not-there.csv
groups: { lobby: {}, floor-4: {} }
devices:
  one: { address: 192.0.2.1, pin: "${pin}", groups: [lobby, floor-4] }
  two: { address: "http://192.0.2.2:8080", groups: [lobby] }
  three: { address: "2001:db8::3", pin: "${pin}" }
`,
  )
  const warning =
    'receiverd-fleet: warning: Prometheus sends its token in clear to devices that are reached by http: two\n'
  const targets = async (...args: readonly string[]) => {
    const { status, stdout, stderr } = await owner.run(['targets', ...args])
    t.same({ status, stderr }, { status: 0, stderr: warning })
    return JSON.parse(stdout)
  }
  const two = { targets: ['192.0.2.2:8080'], labels: { device: 'two', group: 'lobby', __scheme__: 'http' } }
  t.strictSame(await targets(), [
    { targets: ['192.0.2.1:443'], labels: { device: 'one', group: 'lobby,floor-4', __scheme__: 'https' } },
    two,
    { targets: ['[2001:db8::3]:443'], labels: { device: 'three', __scheme__: 'https' } },
  ])
  t.strictSame(await targets('--device', 'two'), [two])
  t.equal((await targets('--group', 'lobby')).length, 2)
  t.same(await owner.run(['targets', '--device', 'two', '--output', 'receivers.json']), {
    status: 0,
    stdout: '',
    stderr: warning,
  })
  t.strictSame(JSON.parse(owner.read('receivers.json')), [two])
  owner.write('fleet.yaml', `devices:\n  lost: { serial: "100", pin: "${pin}" }\n`)
  t.match(await owner.run(['targets']), { status: 2, stdout: '', stderr: /these have no address .*: lost\n/ })
})
