/** What `receiverd-fleet` does besides: TLS, operations, backups. */
import { createHash, createPublicKey, generateKeyPairSync, randomBytes, X509Certificate } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { selfSigned } from '../../hal/format/certificate.ts'
import { startTestService } from '../support/service.ts'
import { Network, Owner } from './support.ts'

function certificateOf(commonName: string) {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const from = Date.now() - 60_000
  const cert = selfSigned({
    key: privateKey,
    organization: 'Test',
    commonName,
    names: [commonName, '127.0.0.1'],
    from,
    to: from + 86_400_000,
    serial: randomBytes(16),
  })
  const spki = createPublicKey(privateKey).export({ type: 'spki', format: 'der' })
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert,
    pin: `sha256//${createHash('sha256').update(spki).digest('base64')}`,
    fingerprint: new X509Certificate(cert).fingerprint256,
  }
}

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
  t.match(await owner.run(['restore', 'saved', '--yes']), {
    status: 2,
    stderr: /room-1\.json has no settings of a receiver/,
  })
})
