/** `receiverd-fleet rotate-keys`: whatever is lost on the way, the owner has the key that is in force. */
import type { ChildProcess } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import t, { type Test } from 'tap'
import { membersOf } from '../../src/fleet/access.ts'
import { parseFleet } from '../../src/fleet/fleet-file.ts'
import { KeyFile } from '../../src/fleet/key-file.ts'
import { rotateKeys } from '../../src/fleet/rotate.ts'
import { startReceiver } from '../interop/support.ts'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { TestIssuer } from '../support/issuer.ts'
import { freePort } from '../support/port.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { certificateOf, Network, Owner, silentAddress } from './support.ts'

const isRotation = (head: string) => head.startsWith('POST /api/v1/api-key')

/** The keys in an owner's file, by device. */
function keysOf(owner: Owner): Readonly<Record<string, readonly string[]>> {
  const lines = owner.read('keys.csv').trim().split('\n')
  return Object.fromEntries(lines.map(line => line.split(',')).map(([name = '', ...keys]) => [name, keys]))
}

async function fleetOf(t: Test, ...addresses: readonly (readonly [name: string, address: string, key: string])[]) {
  const owner = new Owner(t)
  owner.write('keys.csv', addresses.map(([name, , key]) => `${name},${key}\n`).join(''))
  const devices = addresses.map(([name, address]) => `  ${name}: { address: "http://${address}" }\n`)
  owner.write('fleet.yaml', `keys: keys.csv\ndevices:\n${devices.join('')}`)
  return owner
}

/** A device behind a network that loses the answers to these requests, the first `times` of them. */
async function losing(t: Test, isLost: (head: string) => boolean, times: number) {
  const device = await startTestService(t)
  const network = await Network.to(t, device.port)
  let lost = 0
  network.fateOf = head => (isLost(head) && lost++ < times ? 'lose the answer' : 'pass')
  return { device, network, owner: await fleetOf(t, ['lobby', network.address, device.key]) }
}

async function answers(device: TestService, key: string): Promise<number> {
  return (await device.fetchAs(key)).status
}

t.test('new keys, and a device that is off keeps both in the file', async t => {
  const devices = [await startReceiver(t), await startReceiver(t)]
  const [one, two] = devices.map(({ key }) => key)
  const off = 'key-of-one-that-is-off-0123456789'
  const owner = await fleetOf(
    t,
    ['one', `127.0.0.1:${devices[0]?.port}`, one ?? ''],
    ['two', `127.0.0.1:${devices[1]?.port}`, two ?? ''],
    ['off', `127.0.0.1:${await freePort()}`, off],
  )
  owner.write('keys.csv', `# of August\n${owner.read('keys.csv')}stranger,key-of-a-device-elsewhere-0123456789`)
  const { status, of } = await owner.outcomes(['rotate-keys', '--yes'])
  t.equal(status, 1)
  t.match(of, { one: { state: 'changed' }, two: { state: 'changed' }, off: { state: 'failed', reason: /both keys/ } })
  const keys = keysOf(owner)
  t.strictSame(keys.one, [devices[0]?.key])
  t.strictSame(keys.two, [devices[1]?.key])
  t.not(devices[0]?.key, one)
  t.not(devices[1]?.key, two)
  t.match(keys.off, [off, /^[\w-]{43}$/])
  t.match(
    owner.read('keys.csv'),
    /^# of August\n(?:.*\n)*stranger,key-of-a-device-elsewhere-0123456789$/,
    'the rest stays',
  )
  t.equal((await owner.run(['list', '--device', 'one', '--device', 'two'])).status, 0)
})

t.test('the issuers that stay are named', async t => {
  const [device, other] = [await startTestService(t), await startTestService(t)]
  for (const name of ['office', 'monitoring']) {
    const body = new TestIssuer(name).file()
    const headers = { 'Content-Type': 'application/json' }
    t.equal((await device.fetch(`/issuers/${name}`, { method: 'PUT', body, headers })).status, 201)
  }
  const owner = await fleetOf(
    t,
    ['lobby', `127.0.0.1:${device.port}`, device.key],
    ['hall', `127.0.0.1:${other.port}`, other.key],
  )
  const { status, of } = await owner.outcomes(['rotate-keys', '--yes'])
  t.equal(status, 0)
  t.strictSame(of.lobby, {
    ...{ device: 'lobby', address: `http://127.0.0.1:${device.port}`, state: 'changed' },
    note: 'tokens of these issuers stay valid: monitoring, office',
  })
  t.strictSame(Object.keys(of.hall ?? {}).includes('note'), false, 'it has none')
  t.match(
    (await owner.run(['rotate-keys', '--yes'])).stdout,
    /lobby.*tokens of these issuers stay valid: monitoring, office/,
  )
})

t.test('the issuers that were added with a key are removed, also where the first answer is lost', async t => {
  const { device, owner } = await losing(t, isRotation, 1)
  const own = device.path('etc/receiverd/issuers/office.json')
  mkdirSync(dirname(own), { recursive: true })
  writeFileSync(own, new TestIssuer('office').file())
  const body = new TestIssuer('planted').file()
  const headers = { 'Content-Type': 'application/json' }
  t.equal((await device.fetch('/issuers/planted', { method: 'PUT', body, headers })).status, 201)
  const named = async () => {
    const { issuers } = (await (await device.fetch('/issuers')).json()) as {
      readonly issuers: readonly { readonly name: string }[]
    }
    return issuers.map(({ name }) => name)
  }
  await eventually(async () => (await named()).length === 2)
  const old = device.key

  const { status, of } = await owner.outcomes(['rotate-keys', '--yes', '--remove-issuers'])
  t.equal(status, 0)
  t.match(of.lobby, { state: 'changed', note: 'tokens of these issuers stay valid: office' })
  t.strictSame(keysOf(owner).lobby, [device.key])
  t.not(device.key, old)
  t.strictSame(await named(), ['office'])
})

t.test('the answer is lost, once', async t => {
  const { device, owner } = await losing(t, isRotation, 1)
  const old = device.key
  t.match(await owner.outcomes(['rotate-keys', '--yes']), { status: 0, of: { lobby: { state: 'changed' } } })
  t.strictSame(keysOf(owner).lobby, [device.key])
  t.equal(await answers(device, old), 401)
})

t.test('every answer is lost, also to the new key', async t => {
  const { device, network, owner } = await losing(t, isRotation, Number.POSITIVE_INFINITY)
  const old = device.key
  const { status, of } = await owner.outcomes(['rotate-keys', '--yes'])
  t.equal(status, 1)
  t.match(of.lobby, { state: 'failed', reason: /the key file has both keys, one is in force$/ })
  t.not(device.key, old, 'the device has the new one')
  const between = keysOf(owner).lobby
  t.strictSame(between, [old, device.key])

  t.comment('the owner is not locked out')
  t.equal((await owner.run(['list'])).status, 0)

  t.comment('and the next time, the key is one that was not in the file before')
  network.fateOf = () => 'pass'
  t.match(await owner.outcomes(['rotate-keys', '--yes']), { status: 0, of: { lobby: { state: 'changed' } } })
  t.strictSame(keysOf(owner).lobby, [device.key])
  t.notOk(between?.includes(device.key))
})

t.test('the device is lost before the new key has arrived', async t => {
  const { device, network, owner } = await losing(t, () => false, 0)
  const old = device.key
  network.fateOf = head => (isRotation(head) ? 'break down' : 'pass')
  const { status } = await owner.outcomes(['rotate-keys', '--yes'])
  t.equal(status, 1)
  t.equal(device.key, old)
  t.match(keysOf(owner).lobby, [old, String])
})

t.test('a new key that the device had before is not kept', async t => {
  const device = await startTestService(t)
  const former = device.key
  await device.fetch('/api-key', { method: 'POST' })
  const owner = await fleetOf(t, ['lobby', `127.0.0.1:${device.port}`, `${device.key},${former}`])
  const { status, of } = await owner.outcomes(['rotate-keys', '--yes'])
  t.equal(status, 1)
  t.match(of.lobby, { state: 'failed', reason: /refused/ })
  t.strictSame(keysOf(owner).lobby, [device.key])
  t.match(await owner.outcomes(['rotate-keys', '--yes']), { status: 0 })
})

t.test('somebody else has replaced the key', async t => {
  const device = await startTestService(t)
  const owner = await fleetOf(t, ['lobby', `127.0.0.1:${device.port}`, device.key])
  await device.fetch('/api-key', { method: 'POST' })
  const { status, of } = await owner.outcomes(['rotate-keys', '--yes'])
  t.equal(status, 1)
  t.match(of.lobby, { state: 'failed', reason: /^it takes neither its key nor the one that is to replace it/ })
})

t.test('no key is sent before it is in the file', async t => {
  const device = await startTestService(t)
  const owner = await fleetOf(t, ['lobby', `127.0.0.1:${device.port}`, device.key])
  const network = await Network.to(t, device.port)
  owner.write('fleet.yaml', owner.read('fleet.yaml').replace(/127\.0\.0\.1:\d+/, network.address))
  let before: readonly string[] | undefined
  network.fateOf = head => {
    if (isRotation(head)) before = keysOf(owner).lobby
    return 'pass'
  }
  const old = device.key
  await owner.outcomes(['rotate-keys', '--yes'])
  t.strictSame(before, [old, device.key])
})

t.test('a key file that would be too large to be read again is left as it was', async t => {
  const device = await startTestService(t)
  const owner = await fleetOf(t, ['lobby', `127.0.0.1:${device.port}`, device.key])
  const others = Array.from({ length: 10_000 }, (_, at) => `a-room-with-a-long-name-${at},${'A'.repeat(64)}\n`)
  owner.write('keys.csv', `${owner.read('keys.csv')}${others.join('')}`)
  const before = owner.read('keys.csv')
  const fill = 1024 * 1024 - before.length
  owner.write('keys.csv', `${before}#${'-'.repeat(fill - 20)}\n`)
  const full = owner.read('keys.csv')
  t.match(await owner.run(['rotate-keys', '--yes']), {
    status: 1,
    stderr: /keys\.csv would be larger than 1024 KiB: replace fewer keys at once, by --group or --device\n$/,
  })
  t.equal(owner.read('keys.csv'), full)
  t.equal((await owner.run(['list'])).status, 0)
})

t.test('a key that is written into the file while the question waits is not lost', async t => {
  const device = await startTestService(t)
  const owner = await fleetOf(t, ['lobby', `127.0.0.1:${device.port}`, 'A'.repeat(43)])
  const fleet = parseFleet(owner.read('fleet.yaml'), owner.path('fleet.yaml'))
  const options = { run: () => Promise.reject(new Error('no program is needed')), env: {}, timeoutMs: DEADLINE_MS }
  const members = await membersOf(fleet, fleet.devices, options)
  const quiet = () => undefined
  const status = await rotateKeys(members, new KeyFile(owner.path('keys.csv')), {
    limit: 1,
    isSure: false,
    removeIssuers: false,
    wait: async () => undefined,
    stop: new AbortController().signal,
    halted: new Promise(quiet),
    ui: {
      ...{ say: quiet, show: quiet, note: quiet, isJson: false, isAsking: false },
      ask: async () => {
        owner.write('keys.csv', `lobby,${device.key}\n`)
        return true
      },
    },
  })
  t.equal(status, 0)
  t.strictSame(keysOf(owner).lobby, [device.key])
})

t.test('a key file whose writing was interrupted is made whole', async t => {
  const device = await startTestService(t)
  const owner = await fleetOf(t, ['lobby', `127.0.0.1:${device.port}`, device.key])
  // As a power cut leaves a file that is a mount point.
  const [redo, stale] = ['.keys.csv.receiverd-redo', '.keys.csv.receiverd-3f0c']
  for (const name of [redo, stale]) owner.write(name, owner.read('keys.csv'))
  owner.write('keys.csv', '')
  t.match(await owner.run(['list']), {
    status: 2,
    stderr: /keys\.csv may be incomplete: .*\/\.keys\.csv\.receiverd-redo has all keys; rotate-keys finishes it\n$/,
  })
  t.match(await owner.outcomes(['rotate-keys', '--yes']), { status: 0, of: { lobby: { state: 'changed' } } })
  t.strictSame(keysOf(owner).lobby, [device.key])
  for (const name of [redo, stale]) t.notOk(owner.has(name), name)
})

t.test('a key file that cannot be made whole is named with the reason, and is not changed', async t => {
  const owner = await fleetOf(t, ['lobby', '127.0.0.1:9', 'A'.repeat(43)])
  const [redo, torn] = ['.keys.csv.receiverd-redo', 'keys.csv']
  owner.write(redo, owner.read(torn))
  // A container engine makes a folder where a file to be mounted is missing.
  rmSync(owner.path(torn))
  mkdirSync(owner.path(`${torn}/in use`), { recursive: true })
  const why = /the writing of .*\/keys\.csv was interrupted, and cannot be finished: .*; .*receiverd-redo has all keys/
  t.match(await owner.run(['rotate-keys', '--yes']), { status: 1, stderr: why })
  t.ok(owner.has(redo))

  rmSync(owner.path(torn), { recursive: true })
  owner.write(torn, owner.read(redo).slice(0, -30))
  const file = new KeyFile(owner.path(torn))
  await file.change(new Map([['lobby', { key: 'B'.repeat(43), next: undefined }]]))
  t.equal(owner.read(torn), `lobby,${'B'.repeat(43)}\n`)
  owner.write(redo, `hall,${'C'.repeat(43)}\n`)
  await file.change(new Map([['lobby', { key: 'D'.repeat(43), next: undefined }]]))
  t.equal(owner.read(torn), `hall,${'C'.repeat(43)}\nlobby,${'D'.repeat(43)}\n`, 'of the whole file')
})

t.test('two who reach the same keys by different paths do not replace them at once', async t => {
  const reached = new Set<string>()
  const hanging = await silentAddress(t, () => reached.add('hanging'))
  const owner = await fleetOf(t, ['lobby', hanging, 'A'.repeat(43)])
  mkdirSync(owner.path('other'))
  symlinkSync('../keys.csv', owner.path('other/keys.csv'))
  owner.write('other/fleet.yaml', owner.read('fleet.yaml'))
  let first: ChildProcess | undefined
  const running = owner.run(['rotate-keys', '--yes', '--timeout', '600'], {}, child => {
    first = child
  })
  await eventually(() => reached.size > 0)
  t.match(await owner.run(['rotate-keys', '--yes', '--fleet', 'other/fleet.yaml']), {
    status: 1,
    stderr: /another receiverd-fleet is replacing the keys in /,
  })
  first?.kill('SIGINT')
  await eventually(() => first?.kill('SIGINT') === false)
  t.equal((await running).status, 130)
})

t.test('a device in whose place another one answers is named, and its line stays as it was', async t => {
  const device = await startTestService(t)
  const network = await Network.to(t, device.port, certificateOf('lobby'))
  const owner = await fleetOf(t, ['lobby', network.address, device.key])
  const { pin } = certificateOf('lobby')
  owner.write('fleet.yaml', `keys: keys.csv\ndevices: { lobby: { address: "${network.address}", pin: "${pin}" } }\n`)
  const { status, of } = await owner.outcomes(['rotate-keys', '--yes'])
  t.equal(status, 1)
  const advice =
    'another device answers there, or it was reset: compare that with its screen, or with receiverd key show --verbose on it, before you write it into the fleet file, and NAME,KEY into the key file'
  t.match(of.lobby, { state: 'failed', reason: new RegExp(`^its certificate has another pin: .*; ${advice}$`) })
  t.strictSame(keysOf(owner).lobby, [device.key])
})

t.test('a device that is off is not taken for another one that announces its serial number', async t => {
  const device = await startTestService(t)
  const other = await Network.to(t, device.port, certificateOf('lobby'))
  const owner = new Owner(t)
  const ports = [other.address.split(':')[1], await freePort()]
  // In the place of avahi, which would need a network: its output (avahi-browse(1)).
  const lines = ports.map(
    (port, at) => `=;eth0;IPv4;${at};_receiverd._tcp;local;${at}.local;127.0.0.1;${port};"serial=100" "pin=x"`,
  )
  owner.write('avahi-browse', `#!/bin/sh\ncat <<'END'\n${lines.join('\n')}\nEND\n`, 0o700)
  owner.write('keys.csv', `lobby,${device.key}\n`)
  const { pin } = certificateOf('lobby')
  owner.write('fleet.yaml', `keys: keys.csv\ndevices: { lobby: { serial: "100", pin: "${pin}" } }\n`)
  const env = { PATH: `${owner.folder}:${process.env.PATH}` }
  const { status, stdout } = await owner.run(['rotate-keys', '--yes'], env)
  t.equal(status, 1)
  t.match(stdout, /failed: lobby: cannot connect to 127\.0\.0\.1:\d+: .*; the key file has both keys, one is in force/)
})

t.test('keys that are elsewhere are not replaced, and a token cannot replace them', async t => {
  const device = await startTestService(t)
  const owner = new Owner(t)
  const fleet = (rest: string) =>
    owner.write(
      'fleet.yaml',
      `${rest}devices:\n  lobby: { address: "http://127.0.0.1:${device.port}", key: { env: KEY } }\n`,
    )
  fleet('')
  t.match(await owner.run(['rotate-keys', '--yes'], { KEY: device.key }), {
    status: 2,
    stderr: /names no file of keys/,
  })
  writeFileSync(owner.path('keys.csv'), '', { mode: 0o600 })
  fleet('keys: keys.csv\n')
  t.match(await owner.run(['rotate-keys', '--yes'], { KEY: device.key }), {
    status: 2,
    stderr: /have no key in .*: lobby/,
  })
  t.equal((await owner.run(['list'], { KEY: device.key })).status, 0)
})
