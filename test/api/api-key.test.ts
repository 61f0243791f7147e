/** The API key where the storage refuses another one, or would not keep it. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { keyRoutes } from '../../src/api/api-key.ts'
import { ApiKeyStore } from '../../src/auth/api-key.ts'
import { Authenticator } from '../../src/auth/authenticator.ts'
import { Issuers } from '../../src/auth/issuers.ts'
import { Problem } from '../../src/problem.ts'
import { intercepted, systemError } from '../hal/support/file-system.ts'
import { credentialIn, NO_ISSUERS } from '../support/credential.ts'
import { deviceRoot } from '../support/device.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startTestService } from '../support/service.ts'

const quiet = () => undefined

for (const [code, status] of [
  ['ENOSPC', 507],
  ['EDQUOT', 507],
  ['EROFS', 500],
] as const)
  t.test(`${code}: the old key stays in force, and the answer is ${status}`, async t => {
    let isBroken = false
    const fs = intercepted(call => {
      if (isBroken && call.name === 'file.write') throw systemError(code)
      return call.proceed()
    })
    const keys = await ApiKeyStore.open(new Files(temporaryFolder(t), fs), { log: quiet })
    const { current = '' } = keys
    const clock = { now: () => Date.now() }
    const authenticator = new Authenticator(current, { clock, log: quiet, builtAt: 0, leewayS: 0, ...NO_ISSUERS })
    const issuers = new Issuers({
      system: new Files(temporaryFolder(t)),
      log: quiet,
      recordOriginal: async () => undefined,
    })
    const system = new System(temporaryFolder(t))
    const [route] = keyRoutes({ keys, issuers, authenticator, system, log: quiet })
    const authenticated = credentialIn(authenticator, current)
    isBroken = true
    const request = { body: undefined, address: '127.0.0.1' }
    const answer = Promise.resolve(route?.handle(request as never, authenticated))
    const problem = await answer.catch(error => error)
    t.ok(problem instanceof Problem)
    t.equal(problem.status, status)
    t.match(problem.message, `(${code}). The old key stays in force.`)
    t.equal(keys.current, current)
  })

t.test('a key that a restart would take back is refused', async t => {
  const root = deviceRoot(t)
  const service = await startTestService(t, { root })
  const headers = { 'Content-Type': 'application/json' }
  const ask = (apiKey: string) =>
    service.fetch('/api-key', { method: 'POST', headers, body: JSON.stringify({ apiKey }) })
  mkdirSync(join(root, 'run'), { recursive: true })
  writeFileSync(join(root, 'run/receiver-without-data'), '')
  const refused = await ask('another-key-0123456789')
  t.equal(refused.status, 409)
  t.match(await refused.json(), { detail: /a restart would bring the old key back/ })
  t.equal((await ask(service.key)).status, 200, 'the key in force changes nothing')
  rmSync(join(root, 'run/receiver-without-data'))
  t.equal((await ask('another-key-0123456789')).status, 200)
})
