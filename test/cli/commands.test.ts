import { join } from 'node:path'
import t from 'tap'
import { Files } from '../../hal/files/files.ts'
import { CertificateFiles } from '../../hal/os/certificate.ts'
import { System } from '../../hal/os/system.ts'
import { JwtVerifier } from '../../src/auth/jwt.ts'
import { generateKey, writeKey } from '../../src/auth/key-file.ts'
import { issuersThatStay, makeToken, rotateKey, showAccess, showKey } from '../../src/cli/commands.ts'
import { recordListening } from '../../src/listening.ts'
import { deviceRoot } from '../support/device.ts'
import { TestIssuer } from '../support/issuer.ts'

const NOW = Date.parse('2026-11-21T20:00:00.750Z')
const REQUEST = { roles: ['admin:r'], expiresInMs: undefined, subject: undefined }

t.test('a token expires as long after it was made as was asked', async t => {
  const state = new Files(join(deviceRoot(t), 'state'))
  const key = await rotateKey(state)
  t.equal(await showKey(state), key)
  const claims = async (request: object) =>
    new JwtVerifier(key).verify(await makeToken(state, { ...REQUEST, ...request }, NOW, 0))
  t.match(await claims({ subject: 'panel-4' }), { exp: undefined, sub: 'panel-4' })
  t.match(await claims({ expiresInMs: 1_000 }), { exp: Math.floor(NOW / 1000) + 1 })
})

t.test('without a clock there is no expiry to calculate', async t => {
  const state = new Files(join(deviceRoot(t), 'state'))
  await writeKey(state, generateKey())
  const builtAt = NOW + 1
  await t.rejects(makeToken(state, { ...REQUEST, expiresInMs: 1_000 }, NOW, builtAt), {
    message: 'the clock of this device is not set; set it, or make the token without --expires-in',
  })
  t.ok(await makeToken(state, REQUEST, NOW, builtAt), 'a token without one is made')
})

t.test('the key and the pin for a client, with a command that it can paste', async t => {
  const root = deviceRoot(t)
  const state = new Files(join(root, 'state'))
  const key = await rotateKey(state)
  const addresses = { lo: ['127.0.0.1/8'], eth0: ['2001:db8::17/64', 'fe80::1/64', '192.0.2.17/24'] }
  const system = new System(root, { running: true, addresses: () => addresses })
  await t.rejects(showAccess(state, system, {}), { message: 'there is no TLS certificate on this device' })
  const files = new CertificateFiles(system)
  await files.make({ commonName: 'room-4', names: ['room-4'], from: NOW, to: NOW + 1_000 })
  const { pin, fingerprint } = (await files.read()) ?? {}
  const text = await showAccess(state, system, {})
  t.match(text, `${key}\n\n`)
  t.match(text, `  ${fingerprint}\n`)
  const command = `\ncurl --insecure --pinnedpubkey 'sha256//${pin}' -H 'Authorization: Bearer ${key}' https://192.0.2.17`
  t.match(text, `${command}/api/v1/system`)
  t.match(await showAccess(state, system, { RECEIVERD_TLS_PORT: '8443' }), `${command}:8443/api/v1/system`)
  await recordListening(system, ['http://127.0.0.1:8080'], 8444)
  t.match(await showAccess(state, system, {}), `${command}:8444/api/v1/system`, 'as the running service has it')
  await recordListening(system, ['http://[::]:8080'], undefined)
  await t.rejects(showAccess(state, system, {}), {
    message: 'the service does not serve TLS: RECEIVERD_TLS_PORT is not set',
  })
  await system.writeAtomic('/etc/receiverd/tls/key.pem', 'garbage')
  await t.rejects(showAccess(state, system, {}), {
    message: /^cannot use the TLS certificate: the key is not valid PEM/,
  })
})

t.test('a new key names the issuers that stay, and removes those of the API if asked', async t => {
  const system = new Files(deviceRoot(t))
  t.equal(await issuersThatStay(system, false), undefined, 'there are none')
  const own = new TestIssuer('planted').file({ source: 'api' })
  await system.writeAtomic('/etc/receiverd/issuers/planted.json', own)
  await system.writeAtomic('/etc/receiverd/issuers/fleet.json', new TestIssuer('fleet').file())
  t.match(await issuersThatStay(system, false), /: fleet \(image\), planted \(api\)$/)
  t.match(await issuersThatStay(system, true), /: fleet \(image\)$/)
  t.strictSame(await system.list('/etc/receiverd/issuers'), ['fleet.json'])
})

t.test('without a key: how to get one', async t => {
  const state = new Files(join(deviceRoot(t), 'state'))
  await t.rejects(showKey(state), {
    message: `there is no API key in ${state.root} yet; start the service once, or run: receiverd key rotate`,
  })
  await state.writeAtomic('/api-key', 'garbage\n', 0o600)
  await t.rejects(makeToken(state, REQUEST, NOW, 0), {
    message: 'cannot use the API key: the file does not contain an API key; replace it with: receiverd key rotate',
  })
})
