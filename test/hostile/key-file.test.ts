import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { mint } from '../../src/auth/jwt.ts'
import { generateKey } from '../../src/auth/key-file.ts'
import { Receiver } from '../interop/support.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { startTestService, type TestService } from '../support/service.ts'

const KEY_FILE = 'var/lib/receiverd/api-key'

t.test('whatever replaces the key file, an invalid one leaves the key in force and is logged once', async t => {
  const service = await startTestService(t)
  const { key } = service
  const file = service.path(KEY_FILE)
  const stream = await service.stream()
  // In an order in which each complaint differs from the one before: that of the same reason is not repeated.
  const attacks: readonly (readonly [name: string, why: string, attack: () => void])[] = [
    ['nothing', 'is gone', () => undefined],
    ['an empty file', 'does not contain an API key', () => writeFileSync(file, '')],
    ['bytes that are no text', 'not valid UTF-8', () => writeFileSync(file, Buffer.alloc(43, 0xff))],
    ['garbage', 'does not contain an API key', () => writeFileSync(file, 'A'.repeat(42))],
    ['a megabyte', 'larger than 64 KiB', () => writeFileSync(file, 'A'.repeat(1 << 20))],
    ['a key with a stray bit', 'does not contain an API key', () => writeFileSync(file, `${key.slice(0, 42)}9`)],
    ['a directory', 'not a regular file', () => mkdirSync(file)],
    ['a character of no key', 'does not contain an API key', () => writeFileSync(file, `${key.slice(0, 42)}/\n`)],
    ['a link to itself', 'too many symbolic links', () => symlinkSync('api-key', file)],
    ['half of a key', 'does not contain an API key', () => writeFileSync(file, `${key.slice(0, 21)}\n`)],
    ['a link out of the folder', 'is gone', () => symlinkSync('/etc/hostname', file)],
    ['two keys', 'does not contain an API key', () => writeFileSync(file, `${generateKey()}\n${generateKey()}\n`)],
    ['a FIFO', 'not a regular file', () => execFileSync('mkfifo', [file])],
    ['a link to a device', 'is gone', () => symlinkSync('/dev/zero', file)],
  ]
  const complaints = () => service.log.filter(line => line.includes('keeping the key in force'))
  for (const [name, why, attack] of attacks) {
    rmSync(file, { recursive: true, force: true })
    attack()
    await eventually(() => complaints().at(-1)?.includes(why) ?? false).catch(() => t.fail(`${name}: ${complaints()}`))
    t.equal((await ask(service, key)).status, 200, name)
  }
  t.ok(complaints().length <= 2 * attacks.length, `${complaints().length} complaints`)
  t.notMatch(service.log.join(), key)

  // A valid key is put in force wherever it comes from: here by a rename over the invalid file.
  rmSync(file, { recursive: true, force: true })
  const next = generateKey()
  writeFileSync(`${file}.new`, `${next}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
  await stream.ended
  t.equal((await ask(service, key)).status, 401)
  t.equal((await ask(service, next)).status, 200)
})

t.test('a rotation repairs the file', async t => {
  const service = await startTestService(t)
  const { key } = service
  const file = service.path(KEY_FILE)
  rmSync(file)
  symlinkSync('elsewhere', file)
  const answer = await fetch(`${service.url}/api/v1/api-key`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}` },
  })
  const { apiKey } = (await answer.json()) as { apiKey: string }
  t.equal(readFileSync(file, 'utf8'), `${apiKey}\n`)
  t.equal(statSync(file).mode & 0o777, 0o600)

  rmSync(file)
  mkdirSync(join(file, 'in the way'), { recursive: true })
  const refused = await fetch(`${service.url}/api/v1/api-key`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${apiKey}` },
  })
  t.equal(refused.status, 500)
  t.notMatch(await refused.text(), /api-key'|var\/lib|\/tmp\//, 'no path in the answer')
  t.equal((await ask(service, apiKey)).status, 200, 'the old key stays in force')
  t.strictSame(
    readdirSync(service.path('var/lib/receiverd')).filter(name => name.startsWith('.')),
    [],
  )
})

t.test('a kill at any moment of a rotation leaves the old key or the new one, whole', async t => {
  const root = deviceRoot(t)
  const present = () => readFileSync(join(root, KEY_FILE), 'utf8')
  /** Keys that are known to be replaced: an answer had a later one. */
  const replaced: string[] = []
  for (let round = 0; round < 6; round++) {
    const receiver = await serve(t, root)
    const status = async (credential: string): Promise<number> => (await receiver.fetchAs(credential)).status
    let { key } = receiver
    t.equal(await status(key), 200, `round ${round}: the key of the file is in force`)
    for (const old of replaced.slice(-2)) {
      t.equal(await status(old), 401, 'no key comes back')
      t.equal(await status(mint(old, { roles: ['admin:r'] })), 401, 'nor does a token of it')
    }
    const rotating = (async () => {
      for (;;) {
        const answer = await receiver.fetchAs(key, '/api-key', { method: 'POST' })
        const { apiKey } = (await answer.json()) as { apiKey: string }
        replaced.push(key)
        key = apiKey
      }
    })().catch(() => undefined)
    const before = replaced.length
    await eventually(() => replaced.length > before)
    const moment = performance.now() + round * 3
    while (performance.now() < moment) await new Promise(resolve => setImmediate(resolve))
    await receiver.kill()
    await rotating
    t.match(present(), /^[\w-]{43}\n$/, 'whole')
    t.notOk(replaced.includes(present().trim()), 'durable before it was answered')
  }
  await (await serve(t, root)).kill()
  const left = readdirSync(join(root, 'var/lib/receiverd'))
  t.strictSame(left, ['api-key', 'api-key.former'], 'the next start leaves no temporary file')
})

t.test('the service keeps running if the reader of its log goes away', async t => {
  const receiver = await serve(t, deviceRoot(t))
  receiver.closeLog()
  for (const deviceName of ['One', 'Two', 'Three'])
    t.equal((await receiver.patch({ deviceName })).status, 200, deviceName)
  t.ok(existsSync(`/proc/${receiver.pid}`))
  await receiver.kill()
})

function ask(service: TestService, credential: string): Promise<Response> {
  return fetch(`${service.url}/api/v1/system`, { headers: { Authorization: `Bearer ${credential}` } })
}

/** Starts a process that serves `root`. */
async function serve(t: Test, root: string): Promise<Receiver> {
  const receiver = new Receiver(root)
  t.teardown(() => receiver.kill())
  await receiver.start()
  return receiver
}
