/** A first API key that systemd passes, `$CREDENTIALS_DIRECTORY`. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startTestService } from '../support/service.ts'

const KEY = 'fleet-key_0001.of~room.4'

function passed(t: Test, text: string): { readonly env: Record<string, string>; readonly root: string } {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'receiverd.api-key'), text)
  return { env: { CREDENTIALS_DIRECTORY: folder }, root: deviceRoot(t) }
}

t.test('it is taken where there is no key, and kept', async t => {
  for (const key of [KEY, 'x'.repeat(22), 'x'.repeat(128), 'a.b.'.repeat(10), `${'A'.repeat(42)}9`]) {
    const options = passed(t, `${key}\n`)
    const service = await startTestService(t, options)
    t.equal(service.key, key)
    for (const Authorization of [`Bearer ${key}`, `Basic ${key}`, `Basic ${btoa(`:${key}`)}`])
      t.equal((await service.fetch('/system', { headers: { Authorization } })).status, 200)
    t.equal((await service.fetchAs(service.token(['admin:r']))).status, 200)
    t.match(service.log.join('\n'), 'notice: the first API key was taken from systemd')
    t.notMatch(service.log.join('\n'), key)
    await service.close()
    const again = await startTestService(t, { root: options.root })
    t.equal(again.key, key, 'also when it is not passed any more')
    t.notMatch(again.log.join('\n'), 'API key')
    const { apiKey } = (await (await again.fetch('/api-key', { method: 'POST' })).json()) as { apiKey: string }
    await again.close()
    t.equal((await startTestService(t, options)).key, apiKey, 'a key that replaced it is kept')
  }
})

t.test('without a line feed, too', async t => {
  t.equal((await startTestService(t, passed(t, KEY))).key, KEY)
})

t.test('it does not take the place of a file that holds no key', async t => {
  const options = passed(t, KEY)
  mkdirSync(join(options.root, 'var/lib/receiverd'), { recursive: true })
  const file = join(options.root, 'var/lib/receiverd/api-key')
  writeFileSync(file, 'garbage')
  const service = await startTestService(t, options)
  const answer = await service.fetchAs(KEY)
  t.equal(answer.status, 401)
  t.match(answer.headers.get('www-authenticate'), 'error_description="key unreadable"')
  t.match(((await answer.json()) as { detail: string }).detail, 'The API key of this device cannot be read')
  t.equal((await service.fetchAs(service.token(['admin:r']))).status, 401)
  t.equal((await fetch(`${service.url}/api/v1/health`)).status, 200)
  t.equal(readFileSync(file, 'utf8'), 'garbage')
  writeFileSync(file, `${KEY}\n`)
  await eventually(async () => (await service.fetchAs(KEY)).status === 200)
  t.pass('mended, it is in force')
})

t.test('an invalid one fails the start, and no key is made', async t => {
  for (const text of [
    '',
    'x'.repeat(21),
    'x'.repeat(129),
    `${KEY}\n\n`,
    ` ${KEY}`,
    `${KEY}/`,
    `${KEY}\n${KEY}`,
    'ä'.repeat(22),
  ]) {
    const options = passed(t, text)
    const message = 'the credential receiverd.api-key is not a key: give 22 to 128 characters of A-Z, a-z, 0-9 and ._~-'
    await t.rejects(startTestService(t, options), { message }, JSON.stringify(text))
    t.throws(() => readFileSync(join(options.root, 'var/lib/receiverd/api-key')), { code: 'ENOENT' })
  }
  const options = passed(t, '')
  rmSync(join(options.env.CREDENTIALS_DIRECTORY ?? '', 'receiverd.api-key'))
  mkdirSync(join(options.env.CREDENTIALS_DIRECTORY ?? '', 'receiverd.api-key'))
  await t.rejects(startTestService(t, options), { message: /cannot be read: the file is not a regular file$/ })
})

t.test('without one, a key is generated', async t => {
  const service = await startTestService(t, { env: { CREDENTIALS_DIRECTORY: temporaryFolder(t) } })
  t.match(service.key, /^[\w-]{43}$/)
})
