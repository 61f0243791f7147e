/** Issuers as files, and the fate of their tokens and streams. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { type FileSystem, KERNEL } from '../../hal/files/kernel.ts'
import { System } from '../../hal/os/system.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import { Transactions } from '../../hal/transaction/transaction.ts'
import { Issuers, removeOwnIssuers, TooManyIssuers } from '../../src/auth/issuers.ts'
import { POLL_MS, SETTLE_MS } from '../../src/limits.ts'
import { type Call, intercepted, Stopped, stoppingAt, systemError } from '../hal/support/file-system.ts'
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
  const took: number[] = []
  const inForce = async (name: string, token: string, text: string) => {
    const since = performance.now()
    put(service, name, text)
    await answers(service, token, 200)
    took.push(performance.now() - since)
  }
  await inForce('fleet.json', token, fleet.file())
  t.ok((took[0] ?? Number.NaN) < POLL_MS / 2, 'also where there was no folder')
  // The fastest of some tries: a busy machine may interrupt any one of them.
  for (const name of ['second', 'third']) {
    const other = new TestIssuer(name)
    await inForce(`${name}.json`, other.token(), other.file())
    rmSync(join(service.root, FOLDER, `${name}.json`))
  }
  t.ok(Math.min(...took) < 1_000, `within ${took} ms`)
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
  for (const name of ['readme.txt', '.bad.json', 'bad.json~']) put({ root }, name, bad.file({ maxAgeS: 1 }))
  put({ root }, 'x.json', bad.file())
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
      'notice: the issuer x is in force: EdDSA, admin:rw, moderator:rw',
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
  const log: string[] = []
  const issuers = new Issuers({
    system,
    log: (level, message) => log.push(`${level}: ${message}`),
    recordOriginal: (original, isNeedless) => originals.add([original], isNeedless),
  })
  const reset = () => new Transactions(system, [], new Journal(state), originals).reset()
  const names = () => readdirSync(join(root, FOLDER)).filter(name => !name.startsWith('.'))
  return { system, originals, issuers, log, reset, names }
}

/** Issuers in force with the clock of the test, which also tells them of changes, and breaks their storage. */
async function startTold(t: Test, root: string, intercept: (call: Call) => unknown = call => call.proceed()) {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const broken = new Set<string>()
  let reads = 0
  const read = (path: string) => {
    for (const name of broken) if (path.endsWith(`/${name}`)) throw systemError('EIO')
  }
  const readdir = (path: string) => {
    if (path.endsWith('/issuers')) reads++
    read(path)
    return KERNEL.readdir(path)
  }
  const { system, issuers, ...rest } = issuersAt(root, { ...intercepted(intercept, read), readdir })
  const watches = new Set<() => void>()
  system.watch = (_, changed) => {
    watches.add(changed)
    return () => watches.delete(changed)
  }
  let changes = 0
  await issuers.start(() => changes++)
  reads = 0
  const told = () => {
    for (const changed of watches) changed()
  }
  /** Lets this much time pass. @returns how often the folder was read. */
  const readsIn = async (...periods: readonly number[]) => {
    const before = reads
    for (const ms of periods) mock.timers.tick(ms)
    await issuers.remove('none', free)
    return reads - before
  }
  /** Has the files read. @returns how many changes were told of. */
  const changesNow = async () => {
    const before = changes
    told()
    t.equal(await readsIn(SETTLE_MS), 1)
    return changes - before
  }
  return { ...rest, issuers, broken, told, readsIn, changesNow }
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

const EIO = 'i/o error (EIO)'

t.test('the files are read once for changes at once, and each minute, until a stop', async t => {
  for (const isTold of [false, true]) {
    const root = temporaryFolder(t)
    put({ root }, 'bad.json', '{')
    put({ root }, 'good.json', new TestIssuer('good').file())
    const { issuers, log, told, readsIn, changesNow } = await startTold(t, root)
    const said = [
      'warning: issuers, bad.json: the file is not valid: not JSON; its tokens are refused',
      'notice: the issuer good is in force: EdDSA, admin:rw, moderator:rw',
    ]
    t.strictSame(log, said)
    t.equal(await readsIn(SETTLE_MS), 1, 'one may have changed before it was watched')
    for (let n = 0; n < 5; n++) told()
    t.equal(await readsIn(SETTLE_MS - 1), 0, 'it may not be complete')
    t.equal(await readsIn(1), 1)
    t.equal(await readsIn(SETTLE_MS), 0)
    t.equal(await readsIn(POLL_MS, SETTLE_MS), 1, 'in case nobody told')
    t.equal(await changesNow(), 0)
    t.strictSame(log, said, 'each is said once')
    if (isTold) told()
    await issuers.stop()
    told()
    t.equal(await readsIn(SETTLE_MS, POLL_MS, SETTLE_MS), 0)
    mock.timers.reset()
  }
})

t.test('a stop waits for the change in progress', async t => {
  const root = temporaryFolder(t)
  const { issuers } = issuersAt(root)
  const change = issuers.put('fleet', given(new TestIssuer('fleet').publicKey), free)
  await issuers.stop()
  t.ok(existsSync(join(root, FOLDER, 'fleet.json')))
  t.equal(await change, false)
})

t.test('a change of any member is in force; the same members again are no change', async t => {
  const root = temporaryFolder(t)
  const [first, second] = [new TestIssuer('fleet'), new TestIssuer('fleet', 'ES256')]
  put({ root }, 'fleet.json', first.file())
  put({ root }, 'other.json', first.file())
  const { issuers, log, changesNow } = await startTold(t, root)
  const other = issuers.get('other')
  const members = { publicKey: first.publicKey }
  for (const [change, shown] of [
    [{ maxAgeS: 60 }, { maxAgeS: 60 }],
    [{ roles: ['admin:r'] }, { roles: ['admin:r'] }],
    [{ source: 'card' }, { source: 'card' }],
    [{ publicKey: second.publicKey }, { algorithm: 'ES256' }],
  ] as const) {
    Object.assign(members, change)
    log.length = 0
    put({ root }, 'fleet.json', first.file(members))
    t.equal(await changesNow(), 1, Object.keys(change).join())
    const { algorithm, roles } = issuers.get('fleet') ?? { algorithm: undefined, roles: [] }
    t.match(issuers.get('fleet'), shown)
    t.strictSame(log, [`notice: the issuer fleet is in force: ${algorithm}, ${roles.join(', ')}`])
    put({ root }, 'fleet.json', `${first.file(members)}\n`)
    t.equal(await changesNow(), 0)
  }
  t.equal(issuers.get('other'), other)
  log.length = 0
  rmSync(join(root, FOLDER, 'fleet.json'))
  t.equal(await changesNow(), 1)
  t.strictSame(log, ['notice: the issuer fleet is gone, and its tokens are refused'])
})

t.test('while the folder cannot be read, issuers stay in force, and each change of them is', async t => {
  const root = temporaryFolder(t)
  put({ root }, 'fleet.json', new TestIssuer('fleet').file())
  const { issuers, log, broken, changesNow } = await startTold(t, root, ({ name, path, proceed }) => {
    const result = proceed()
    if (/^(rename|unlink)$/.test(name) && path.endsWith('/desk.json')) broken.add('issuers')
    return result
  })
  const names = () => issuers.all.map(({ name }) => name)
  const said = `warning: issuers: ${EIO}; keeping those in force`
  const inForce = 'notice: the issuer desk is in force: EdDSA, admin:r'
  for (const isFirst of [true, false]) {
    log.length = 0
    broken.add('issuers')
    for (let n = 0; n < 2; n++) t.equal(await changesNow(), 0)
    t.strictSame(names(), ['fleet'])
    t.strictSame(log, [said], isFirst ? 'once' : 'again, after it was mended')
    broken.clear()
    t.equal(await changesNow(), 0)
  }
  log.length = 0
  t.equal(await issuers.put('desk', given(new TestIssuer('desk').publicKey), free), false)
  t.strictSame(names().sort(), ['desk', 'fleet'])
  t.strictSame(log, [said, inForce])
  broken.clear()
  t.equal(await changesNow(), 0)
  t.equal(await issuers.remove('desk', free), true)
  t.strictSame(names(), ['fleet'])
})

t.test('an issuer whose file cannot be read stays as it is, and a new one is refused', async t => {
  const root = temporaryFolder(t)
  put({ root }, 'fleet.json', new TestIssuer('fleet').file())
  const { issuers, log, broken, changesNow } = await startTold(t, root)
  const fleet = issuers.get('fleet')
  log.length = 0
  for (const name of ['desk.json', 'fleet.json']) {
    broken.add(name)
    put({ root }, name, new TestIssuer('x').file())
  }
  t.equal(await changesNow(), 0)
  t.strictSame(issuers.all, [fleet])
  t.strictSame(log, [
    `warning: issuers, desk.json: ${EIO}; its tokens are refused`,
    `warning: issuers, fleet.json: ${EIO}; it stays as it is`,
  ])
})

t.test(
  'where the folder cannot be read at first, the log says so, and its issuers are in force once it can',
  async t => {
    const root = temporaryFolder(t)
    put({ root }, 'fleet.json', new TestIssuer('fleet').file())
    let reads = 0
    const readdir = (path: string) => {
      if (++reads === 1) throw systemError('EIO')
      return KERNEL.readdir(path)
    }
    const { issuers, log } = issuersAt(root, { ...KERNEL, readdir })
    await issuers.start(() => undefined)
    await issuers.stop()
    t.strictSame(log, [
      `warning: issuers: could not finish an interrupted write: ${EIO}`,
      'notice: the issuer fleet is in force: EdDSA, admin:rw, moderator:rw',
    ])
  },
)

t.test('a change that is refused when its turn comes changes nothing', async t => {
  const { issuers, names } = issuersAt(temporaryFolder(t))
  const { publicKey } = new TestIssuer('x')
  await issuers.put('fleet', given(publicKey), free)
  const refuse = () => {
    throw new Error('the key was replaced')
  }
  for (const change of [
    () => issuers.put('other', given(publicKey), refuse),
    () => issuers.remove('fleet', refuse),
    () => issuers.removeOwn(refuse),
  ])
    await t.rejects(async () => change(), { message: 'the key was replaced' })
  t.strictSame(names(), ['fleet.json'])
})

t.test('a seventeenth issuer is refused, and one of the sixteen can be replaced', async t => {
  const { issuers, names } = issuersAt(temporaryFolder(t, IN_MEMORY))
  const { publicKey } = new TestIssuer('x')
  for (let n = 0; n < 16; n++) t.equal(await issuers.put(`i-${n}`, given(publicKey), free), false)
  const refusal = await issuers.put('one-more', given(publicKey), free).catch(error => error)
  t.ok(refusal instanceof TooManyIssuers)
  t.equal(await issuers.put('i-3', given(publicKey), free), true)
  t.equal(names().length, 16)
})

t.test('an issuer of the image that was removed is there again after a reset', async t => {
  const root = temporaryFolder(t)
  put({ root }, 'image.json', new TestIssuer('image').file())
  const { issuers, reset, names } = await startTold(t, root)
  t.equal(await issuers.remove('image', free), true)
  t.strictSame(names(), [])
  await reset()
  t.strictSame(names(), ['image.json'])
})

t.test('records that a reset needs are kept when an issuer is put', async t => {
  const { issuers, originals } = issuersAt(temporaryFolder(t))
  const at = (path: string) => ({ path, entry: { kind: 'absent' as const } })
  const needed = [
    { setting: 'hostname', previous: null, next: null, images: [at('/etc/gone')] },
    {
      ...{ setting: 'issuers', previous: null, next: null },
      images: [
        at(`/${FOLDER}/gone.json`),
        { path: `/${FOLDER}/link.json`, entry: { kind: 'link' as const, target: 'x' } },
      ],
    },
  ]
  await originals.add(needed)
  await issuers.put('fleet', given(new TestIssuer('fleet').publicKey), free)
  t.match(await originals.read(), [...needed, { setting: 'issuers', images: [at(`/${FOLDER}/fleet.json`)] }])
})

t.test('the issuers that clients added can be removed, also without the service, and no others with them', async t => {
  for (const isRunning of [true, false]) {
    const root = temporaryFolder(t)
    const { publicKey } = new TestIssuer('x')
    const { issuers, system, names } = issuersAt(root)
    put({ root }, 'image.json', new TestIssuer('image').file())
    for (const source of ['api', 'card'] as const) await issuers.put(source, given(publicKey), free, source)
    if (isRunning) t.strictSame(await issuers.removeOwn(free), ['api'])
    else await removeOwnIssuers(system)
    t.strictSame(names().sort(), ['card.json', 'image.json'])
  }
})

t.test('an issuer that is not in force cannot be removed', async t => {
  const root = temporaryFolder(t)
  const { issuers, names } = issuersAt(root)
  put({ root }, 'bad.json', '{')
  for (const name of ['bad', 'none']) t.equal(await issuers.remove(name, free), false)
  t.strictSame(names(), ['bad.json'])
})
