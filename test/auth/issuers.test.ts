/** Issuers as files, and the fate of their tokens and streams. */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Files } from '../../hal/files/files.ts'
import type { FileSystem } from '../../hal/files/kernel.ts'
import { System } from '../../hal/os/system.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import { Transactions } from '../../hal/transaction/transaction.ts'
import { Issuers } from '../../src/auth/issuers.ts'
import { Stopped, stoppingAt } from '../hal/support/file-system.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { IN_MEMORY, temporaryFolder } from '../support/folder.ts'
import { TestIssuer } from '../support/issuer.ts'
import { startTestService, type TestService } from '../support/service.ts'

const FOLDER = 'etc/receiverd/issuers'

const put = ({ root }: { root: string }, name: string, text: string) => {
  mkdirSync(join(root, FOLDER), { recursive: true })
  writeFileSync(join(root, FOLDER, `.${name}.new`), text)
  renameSync(join(root, FOLDER, `.${name}.new`), join(root, FOLDER, name))
}
const answers = (service: TestService, token: string, status: number) =>
  eventually(async () => (await service.fetchAs(token)).status === status)

t.test('files that appear, change and go are in force within a second', async t => {
  const service = await startTestService(t)
  const fleet = new TestIssuer('fleet')
  const token = fleet.token()
  t.equal((await service.fetchAs(token)).status, 401)
  const since = performance.now()
  put(service, 'fleet.json', fleet.file())
  await answers(service, token, 200)
  t.ok(performance.now() - since < 1_000, `within ${performance.now() - since} ms, also where there was no folder`)
  t.ok(service.said.includes('notice: the issuer fleet is in force: EdDSA, admin:rw, moderator:rw'))

  const stream = await service.stream('/events', { Authorization: `Bearer ${token}` })
  put(service, 'fleet.json', new TestIssuer('fleet').file())
  t.match(await stream.event(), { event: 'events.closed', data: { reason: 'issuer changed' } })
  t.equal((await service.fetchAs(token)).status, 401)

  put(service, 'fleet.json', fleet.file())
  await answers(service, token, 200)
  const second = await service.stream('/events', { Authorization: `Bearer ${token}` })
  const poll = service.fetchAs(token, '/events', { headers: { 'If-None-Match': (await service.system()).etag } })
  await eventually(
    async () => ((await (await service.fetch('/status')).json()) as { heldPolls: number }).heldPolls === 1,
  )
  rmSync(service.path(`${FOLDER}/fleet.json`))
  t.match(await second.event(), { event: 'events.closed', data: { reason: 'issuer removed' } })
  const refused = await poll
  t.equal(refused.status, 401)
  t.match(refused.headers.get('www-authenticate'), 'error_description="issuer removed"')
  t.equal((await service.fetch('/system')).status, 200)
})

t.test('files that are wrong are named in the log, and grant nothing; the others do', async t => {
  const root = deviceRoot(t)
  const good = new TestIssuer('good', 'ES256')
  const bad = new TestIssuer('bad')
  put({ root }, 'good.json', good.file())
  put({ root }, 'bad.json', bad.file({ maxAgeS: 1 }))
  put({ root }, 'Bad Name.json', bad.file())
  put({ root }, 'huge.json', bad.file({ pad: 'x'.repeat(9_000) }))
  put({ root }, 'readme.txt', 'not an issuer')
  mkdirSync(join(root, FOLDER, 'folder.json'))
  symlinkSync('/dev/null', join(root, FOLDER, 'hidden.json'))
  const service = await startTestService(t, { root })
  t.strictSame(
    service.log.filter(line => line.includes('issuer')),
    [
      'warning: issuers, Bad Name.json: the name of the file must be 1 to 32 characters of a-z, 0-9 and -; its tokens are refused',
      'warning: issuers, bad.json: /maxAgeS: must be at least 60; its tokens are refused',
      'warning: issuers, folder.json: the file is not a regular file; its tokens are refused',
      'warning: issuers, huge.json: the file is larger than 8 KiB; its tokens are refused',
      'notice: the issuer good is in force: ES256, admin:rw, moderator:rw',
    ],
  )
  t.equal((await service.fetchAs(good.token())).status, 200)
  for (const kid of ['bad', 'Bad Name', 'huge', 'folder', 'hidden'])
    t.equal((await service.fetchAs(bad.token({}, { kid }))).status, 401, kid)

  put(service, 'bad.json', bad.file())
  await answers(service, bad.token(), 200)
  put(service, 'bad.json', '{')
  await answers(service, bad.token(), 401)
  t.ok(service.said.includes('warning: issuers, bad.json: the file is not valid: not JSON; its tokens are refused'))
})

t.test('no more than 16 are used', async t => {
  const root = deviceRoot(t)
  const issuers = Array.from({ length: 18 }, (_, n) => new TestIssuer(`i-${String(n).padStart(2, '0')}`))
  for (const issuer of issuers) put({ root }, `${issuer.name}.json`, issuer.file())
  const service = await startTestService(t, { root })
  const statuses = await Promise.all(issuers.map(async issuer => (await service.fetchAs(issuer.token())).status))
  // At most 8 of one address are verified at once, so some may have been told to come back.
  for (const [n, status] of statuses.entries())
    t.ok(n < 16 ? status === 200 || status === 503 : status === 401, `${n}: ${status}`)
  for (const issuer of issuers.slice(0, 16)) t.equal((await service.fetchAs(issuer.token())).status, 200)
  t.match(service.log.join('\n'), 'issuers, i-16.json: there are 16 issuers already; its tokens are refused')
})

t.test('a write that a power cut interrupted leaves nothing behind', async t => {
  const root = deviceRoot(t)
  const fleet = new TestIssuer('fleet')
  put({ root }, '.fleet.json.receiverd-0', fleet.file())
  const service = await startTestService(t, { root })
  t.equal((await service.fetchAs(fleet.token())).status, 401)
  t.throws(() => renameSync(service.path(`${FOLDER}/.fleet.json.receiverd-0`), service.path('x')), { code: 'ENOENT' })
})

/** The issuers of a root, without a service. */
function issuersAt(root: string, fs?: FileSystem) {
  const system = new System(root, fs && { fs })
  const state = new Files(join(root, 'state'), fs)
  const originals = new Originals(state)
  const issuers = new Issuers({
    system,
    log: () => undefined,
    recordOriginal: (original, isNeedless) => originals.add([original], isNeedless),
  })
  const reset = () => new Transactions(system, [], new Journal(state), originals).reset()
  const names = () => readdirSync(join(root, FOLDER)).filter(name => !name.startsWith('.'))
  return { originals, issuers, reset, names }
}

const free = () => undefined
const given = (publicKey: string) => ({ publicKey, roles: ['admin:r' as const] })

t.test('issuers that come and go under ever new names leave no more than one record, and a reset is right', async t => {
  const root = temporaryFolder(t, IN_MEMORY)
  const image = new TestIssuer('image').file()
  put({ root }, 'image.json', image)
  const { originals, issuers, reset, names } = issuersAt(root)
  const { publicKey } = new TestIssuer('x')
  await issuers.put('image', given(publicKey), free)
  await issuers.put('kept', given(publicKey), free)
  for (let n = 0; n < 20; n++) {
    await issuers.put(`run-${n}`, given(publicKey), free)
    t.equal((await originals.read()).length, 3, `run ${n}`)
    await issuers.remove(`run-${n}`, free)
  }
  await issuers.put('run-3', given(publicKey), free)
  t.same(names(), ['image.json', 'kept.json', 'run-3.json'])
  t.same((await reset()).notUndone, [])
  t.same(names(), ['image.json'])
  t.equal(readFileSync(join(root, FOLDER, 'image.json'), 'utf8'), image)
})

t.test('a full record of issuers that are gone, as an earlier version left it, makes room', async t => {
  const { originals, issuers, reset, names } = issuersAt(temporaryFolder(t, IN_MEMORY))
  const { publicKey } = new TestIssuer('x')
  const gone = Array.from({ length: 3_000 }, (_, n) => ({
    ...{ setting: 'issuers', previous: null, next: null },
    images: [{ path: `/${FOLDER}/${String(n).padStart(32, '0')}.json`, entry: { kind: 'absent' as const } }],
  }))
  await originals.add(gone)
  await issuers.put('next', given(publicKey), free)
  t.equal((await originals.read()).length, 1)
  await reset()
  t.same(names(), [])
})

t.test('stopped at any step, a reset removes what was added and puts back what was removed', async t => {
  const image = new TestIssuer('image').file()
  const { publicKey } = new TestIssuer('x')
  let [n, stopped] = [0, true]
  while (stopped) {
    const root = temporaryFolder(t, IN_MEMORY)
    put({ root }, 'image.json', image)
    const { issuers } = issuersAt(root, stoppingAt(++n))
    const error = await (async () => {
      await issuers.put('first', given(publicKey), free)
      await issuers.remove('first', free)
      await issuers.put('image', given(publicKey), free)
      await issuers.put('second', given(publicKey), free)
      await issuers.remove('image', free)
      await issuers.put('first', given(publicKey), free)
      await issuers.remove('second', free)
    })().catch(error => error)
    stopped = error instanceof Stopped
    if (!stopped) t.equal(error, undefined)
    const { reset, names } = issuersAt(root)
    await reset()
    t.same(names(), ['image.json'], `step ${n}`)
    t.equal(readFileSync(join(root, FOLDER, 'image.json'), 'utf8'), image, `step ${n}`)
  }
  t.ok(n > 30, `${n} steps`)
})
