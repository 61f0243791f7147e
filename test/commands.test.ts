import { join } from 'node:path'
import t from 'tap'
import { Files } from '../hal/files/files.ts'
import { generateKey, writeKey } from '../src/auth/api-key.ts'
import { JwtVerifier } from '../src/auth/jwt.ts'
import { makeToken, rotateKey, showKey } from '../src/commands.ts'
import { deviceRoot } from './support/device.ts'

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

t.test('without a key: how to get one', async t => {
  const state = new Files(join(deviceRoot(t), 'state'))
  await t.rejects(showKey(state), { message: /^there is no API key yet; start the service once/ })
  await state.writeAtomic('/api-key', 'garbage\n', 0o600)
  await t.rejects(makeToken(state, REQUEST, NOW, 0), {
    message: 'cannot use the API key: the file does not contain an API key; replace it with: receiverd key rotate',
  })
})
