/** A firmware bundle is sent, and survives whatever happens to its connection, its service and its disk. */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type ClientRequest, request } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { KERNEL } from '../../hal/files/kernel.ts'
import { Problem } from '../../src/problem.ts'
import { systemError } from '../hal/support/file-system.ts'
import { Bundles } from '../support/bundles.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type ServiceOptions, startTestService } from '../support/service.ts'

const PATH = '/update/bundle'
const TYPE = { 'Content-Type': 'application/vnd.rauc.bundle' }
const BUNDLE = randomBytes(300_000)

async function startDevice(
  t: Test,
  options: ConstructorParameters<typeof Bundles>[1] = {},
  service: ServiceOptions = {},
) {
  const made: Bundles[] = []
  const api = await startTestService(t, {
    ...service,
    add: shared => {
      const bundles = new Bundles(shared, { reserveBytes: 0, ...options })
      made.push(bundles)
      return bundles
    },
  })
  const [bundles] = made
  if (!bundles) throw new Error('the service has no bundles')
  const put = (body: Buffer, headers: Record<string, string> = {}) =>
    api.fetch(PATH, { method: 'PUT', body, headers: { ...TYPE, ...headers } })
  /** Begins to send a bundle of which only a part comes; resolves when that part is there. */
  const begin = async (part: Buffer, headers: Record<string, string> = {}): Promise<ClientRequest> => {
    const upload = request(`${api.url}/api/v1${PATH}`, {
      method: 'PUT',
      headers: {
        Authorization: `Bearer ${api.key}`,
        'Content-Length': String(BUNDLE.length),
        ...TYPE,
        ...headers,
      },
    })
    upload.on('error', () => undefined)
    const before = bundles.store.current?.receivedBytes ?? 0
    upload.write(part)
    const isThere = () => bundles.told.includes(String(part.length + (headers['Content-Range'] ? before : 0)))
    await eventually(isThere)
    return upload
  }
  const got = async () => {
    const answer = await api.fetch(PATH)
    return {
      status: answer.status,
      body: (await answer.json()) as { bytes: number; receivedBytes: number },
      etag: answer.headers.get('etag') ?? '',
      offset: Number(answer.headers.get('upload-offset')),
    }
  }
  const file = (name: string) => join(bundles.folder, name)
  return { api, bundles, put, begin, got, file, whole: () => readFileSync(file('bundle')) }
}

const kindOf = async (answer: Response) => {
  const { type } = (await answer.json()) as { type: string }
  return `${answer.status} ${type.replace('urn:receiverd:problem:', '')}`
}
const idle = (bundles: Bundles) => eventually(() => bundles.told.at(-1)?.startsWith('dropped'))
const rest = (from: number) => ({ 'Content-Range': `bytes ${from}-${BUNDLE.length - 1}/${BUNDLE.length}` })

t.test('a bundle is checked where it is, and is there when it is answered', async t => {
  const seen: string[] = []
  const { api, bundles, put, got, file, whole } = await startDevice(t, {
    check: async path => {
      seen.push(path)
      t.ok(readFileSync(path).subarray(-1_000).equals(BUNDLE.subarray(-1_000)), 'whole')
      return { version: '1.1.0', bytes: BUNDLE.length, receivedBytes: BUNDLE.length, source: 'upload' }
    },
  })
  t.equal((await api.fetch(PATH)).status, 404)
  const answer = await put(BUNDLE)
  t.equal(answer.status, 201)
  t.match(await answer.json(), { version: '1.1.0', bytes: BUNDLE.length })
  t.ok(whole().equals(BUNDLE))
  t.same(seen.splice(0), [file('bundle.part')])
  t.equal(bundles.store.current?.path, file('bundle'))
  t.match(await got(), {
    status: 200,
    body: { bytes: BUNDLE.length, receivedBytes: BUNDLE.length },
    etag: answer.headers.get('etag'),
    offset: BUNDLE.length,
  })
  t.same(readdirSync(bundles.folder).sort(), ['bundle', 'bundle.json'])
  t.equal(statSync(bundles.folder).mode & 0o777, 0o700)
  for (const name of ['bundle', 'bundle.json']) t.equal(statSync(file(name)).mode & 0o777, 0o600, name)
  t.same(bundles.told, [`receiving 0 of ${BUNDLE.length}`, String(BUNDLE.length), 'received', 'kept'])

  t.equal((await put(BUNDLE.subarray(1))).status, 201, 'another one takes its place')
  t.equal(whole().length, BUNDLE.length - 1)
  t.equal((await api.fetch(PATH, { method: 'DELETE' })).status, 204)
  t.same(readdirSync(bundles.folder), [])
  t.equal((await api.fetch(PATH, { method: 'DELETE' })).status, 204, 'as often as one likes')
  t.equal((await api.fetch(PATH)).status, 404)
})

t.test('an upload goes on after its connection was cut, with its name and from its offset alone', async t => {
  const { bundles, put, begin, got, whole } = await startDevice(t)
  const upload = await begin(BUNDLE.subarray(0, 100_000))
  upload.destroy()
  await idle(bundles)
  const { etag, offset, body } = await got()
  t.equal(offset, 100_000)
  t.same(body, { bytes: BUNDLE.length, receivedBytes: 100_000 })

  const tail = BUNDLE.subarray(offset)
  const named = { ...rest(offset), 'If-Match': etag }
  const lies: readonly (readonly [name: string, body: Buffer, headers: Record<string, string>, answer: string])[] = [
    ['no name', tail, rest(offset), '428 precondition-required'],
    ['another name', tail, { ...rest(offset), 'If-Match': '"x"' }, '412 precondition-failed'],
    ['a weak name', tail, { ...rest(offset), 'If-Match': `W/${etag}` }, '412 precondition-failed'],
    ['too early', BUNDLE.subarray(9), { ...named, ...rest(9) }, '409 conflict'],
    ['too late', BUNDLE.subarray(200_000), { ...named, ...rest(200_000) }, '409 conflict'],
    ['another length', tail, { ...named, 'Content-Range': 'bytes 100001-300000/300001' }, '409 conflict'],
    [
      'not to the end',
      tail.subarray(1),
      { ...named, 'Content-Range': 'bytes 100000-299998/300000' },
      '400 bad-request',
    ],
    ['less than it says', tail.subarray(1), named, '400 bad-request'],
    ['no numbers', tail, { ...named, 'Content-Range': 'bytes */300000' }, '400 bad-request'],
    ['backwards', tail, { ...named, 'Content-Range': 'bytes 299999-100000/300000' }, '400 bad-request'],
    [
      'huge',
      tail,
      { ...named, 'Content-Range': 'bytes 99999999800000-99999999999999/99999999999999' },
      '400 bad-request',
    ],
  ]
  for (const [name, bytes, headers, expected] of lies) {
    const answer = await put(bytes, headers)
    if (expected.startsWith('409')) t.equal(answer.headers.get('upload-offset'), '100000', name)
    t.equal(await kindOf(answer), expected, name)
  }
  t.equal((await got()).etag, etag, 'it is still the same')

  t.equal((await put(tail, named)).status, 201)
  t.ok(whole().equals(BUNDLE))
  t.equal((await got()).etag, etag)
  t.equal(await kindOf(await put(tail, named)), '409 conflict', 'nothing is left to go on with')
})

t.test('a part survives the restart of its service, as far as it was durable', async t => {
  const first = await startDevice(t, { syncBytes: 50_000 })
  const upload = await first.begin(BUNDLE.subarray(0, 100_000))
  const answered = new Promise<number | undefined>(resolve =>
    upload.on('response', response => resolve(response.statusCode)),
  )
  const began = performance.now()
  await first.api.close()
  t.ok(performance.now() - began < 30_000, 'a stop does not wait for the rest')
  t.equal(await answered, 503)
  // As after a power cut: the end of the file was not written, or is not what was sent.
  writeFileSync(first.file('bundle.part'), Buffer.concat([BUNDLE.subarray(0, 100_000), Buffer.alloc(5_000)]))

  const second = await startDevice(t, {}, { root: first.api.root })
  const { etag, offset } = await second.got()
  t.equal(offset, 100_000)
  t.equal((await second.put(BUNDLE.subarray(offset), { ...rest(offset), 'If-Match': etag })).status, 201)
  t.ok(second.whole().equals(BUNDLE))
  await second.api.close()

  const third = await startDevice(t, {}, { root: first.api.root })
  t.equal(third.bundles.store.current?.path, third.file('bundle'))
  t.match(await third.got(), { etag, offset: BUNDLE.length })
})

t.test('files that a power cut left are taken up, or removed', async t => {
  const record = { etag: 'x', source: 'upload', bytes: 6, receivedBytes: 6, isChecked: false }
  const left = async (files: Record<string, string>, check?: () => Promise<never>) => {
    const root = temporaryFolder(t)
    const folder = join(root, 'data/update')
    mkdirSync(folder, { recursive: true })
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
    const device = await startDevice(t, { ...(check && { check }) }, { root })
    await eventually(() => device.bundles.store.current?.path !== undefined || !existsSync(device.file('bundle.part')))
    const names = readdirSync(folder).sort()
    await device.api.close()
    return names
  }
  const json = (more: object) => ({ 'bundle.json': JSON.stringify({ ...record, ...more }) })
  const whole = ['bundle', 'bundle.json']
  t.same(await left({ 'bundle.part': '123456', ...json({}) }), whole, 'whole, and not checked')
  t.same(await left({ 'bundle.part': '123456', ...json({ isChecked: true }) }), whole, 'checked, and not renamed')
  t.same(await left({ bundle: '123456', ...json({ isChecked: true }) }), whole)
  const refuse = () => Promise.reject(new Problem('bundle-signature', 'Nobody has signed it.'))
  t.same(await left({ 'bundle.part': '123456', ...json({}) }, refuse), [], 'refused when it is checked')
  t.same(await left({ 'bundle.part': '123456' }), [], 'without a record')
  t.same(await left({ bundle: '123456', '.bundle.json.receiverd-1': '{}', ...json({ isChecked: true }) }), whole)
  t.same(await left({ 'bundle.part': '123', ...json({}) }), [], 'shorter than it was')
  t.same(await left({ bundle: '123', ...json({ isChecked: true }) }), [])
  t.same(await left({ 'bundle.part': '123456', 'bundle.json': '{"etag":' }), [], 'with a torn record')
  t.same(await left({ 'bundle.part': '123456', ...json({ bytes: 'x' }) }), [])
})

t.test('one upload at a time: another waits, and a removal ends the first', async t => {
  const { api, bundles, put, begin, got } = await startDevice(t)
  const upload = await begin(BUNDLE.subarray(0, 1_000))
  const second = await put(BUNDLE)
  t.equal(second.headers.get('retry-after'), '5')
  t.equal(await kindOf(second), '409 conflict')
  t.equal((await got()).offset, 1_000, 'the first is not disturbed')
  const ended = new Promise<number | undefined>(resolve =>
    upload.on('response', response => resolve(response.statusCode)),
  )
  t.equal((await api.fetch(PATH, { method: 'DELETE' })).status, 204)
  t.equal(await ended, 409)
  t.same(readdirSync(bundles.folder), [])
  t.equal((await put(BUNDLE)).status, 201)
})

t.test(
  'a bundle counts as unchanged once it is complete, and is removed only if it is the one that is meant',
  async t => {
    const { api, begin, put, got, whole } = await startDevice(t)
    const remove = async (etag: string) => api.fetch(PATH, { method: 'DELETE', headers: { 'If-Match': etag } })
    t.equal(await kindOf(await remove('*')), '412 precondition-failed', 'there is none')
    const upload = await begin(BUNDLE.subarray(0, 1_000))
    const { etag } = await got()
    const known = async (tag: string) => (await api.fetch(PATH, { headers: { 'If-None-Match': tag } })).status
    t.equal(await known(`${etag}`), 200, 'more bytes may have come')
    const refused = await remove('"another"')
    t.equal(refused.headers.get('etag'), etag)
    t.equal(await kindOf(refused), '412 precondition-failed')
    t.equal((await got()).offset, 1_000, 'its transfer goes on')
    t.equal((await remove(`${etag}`)).status, 204)
    upload.destroy()
    const other = (await put(BUNDLE)).headers.get('etag')
    t.equal(await known(`${other}`), 304)
    t.equal(await kindOf(await remove(`${etag}`)), '412 precondition-failed')
    t.ok(whole().equals(BUNDLE))
    t.equal((await remove(`${other}`)).status, 204)
  },
)

t.test('an upload that stands still is removed after its time', async t => {
  const { bundles, begin, got } = await startDevice(t, { keptMs: 5_000 })
  const upload = await begin(BUNDLE.subarray(0, 1_000))
  upload.destroy()
  await idle(bundles)
  t.equal((await got()).status, 200)
  await eventually(async () => (await got()).status === 404)
  await eventually(() => readdirSync(bundles.folder).length === 0)
})

t.test('a client that stalls gets a 408, and can go on', async t => {
  const { bundles, begin, got } = await startDevice(t, { stallMs: 1_000 })
  const upload = await begin(BUNDLE.subarray(0, 1_000))
  const status = await new Promise(resolve => upload.on('response', response => resolve(response.statusCode)))
  t.equal(status, 408)
  await idle(bundles)
  t.equal((await got()).offset, 1_000)
})

t.test('a credential that is revoked meanwhile ends the upload, which another goes on with', async t => {
  const { api, put, begin, got, whole } = await startDevice(t)
  const upload = await begin(BUNDLE.subarray(0, 1_000), { Authorization: `Bearer ${api.token(['admin:w'])}` })
  const status = new Promise(resolve => upload.on('response', response => resolve(response.statusCode)))
  t.equal((await api.fetch('/api-key', { method: 'POST' })).status, 200)
  upload.write(BUNDLE.subarray(1_000, 2_000))
  t.equal(await status, 401)
  const { etag, offset } = await eventually(async () => {
    const now = await got()
    return now.offset > 0 && now
  })
  t.equal(offset, 1_000, 'nothing that came after it')
  t.equal((await put(BUNDLE.subarray(offset), { ...rest(offset), 'If-Match': etag })).status, 201)
  t.ok(whole().equals(BUNDLE))
})

t.test('a bundle that is refused is removed', async t => {
  for (const kind of ['bundle-signature', 'bundle-compatible', 'bundle-damaged', 'bundle-too-old'] as const) {
    const check = () => Promise.reject(new Problem(kind, 'It is refused.'))
    const { api, bundles, put } = await startDevice(t, { check })
    t.equal(await kindOf(await put(BUNDLE)), `422 ${kind}`)
    t.same(readdirSync(bundles.folder), [])
    t.equal(bundles.told.at(-1), 'dropped 422')
    t.equal((await api.fetch(PATH)).status, 404)
  }
})

t.test('nothing is received or removed where that must not be', async t => {
  let refuses = true
  const refuse = () => {
    if (refuses) throw new Problem('conflict', 'A bundle is being installed.')
  }
  const { api, put } = await startDevice(t, { refuse })
  t.equal(await kindOf(await put(BUNDLE)), '409 conflict')
  t.equal(await kindOf(await api.fetch(PATH, { method: 'DELETE' })), '409 conflict')
  refuses = false
  t.equal((await put(BUNDLE)).status, 201, 'and nothing is stuck')
})

t.test('storage that fails: the answer says so, and nothing is left in the way', async t => {
  let fails = ''
  const failing = (name: string, code: 'ENOSPC' | 'EIO') => {
    if (fails === name) throw systemError(code)
  }
  let writes = 0
  const fs = {
    ...KERNEL,
    writeMuch: async (file: number, bytes: Uint8Array) => {
      if (++writes > 2) failing('write', 'ENOSPC')
      return KERNEL.writeMuch(file, bytes.subarray(0, 50_000))
    },
    fdatasync: async (file: number) => {
      failing('sync', 'EIO')
      return KERNEL.fdatasync(file)
    },
  }
  const { bundles, put, whole } = await startDevice(t, { fs })
  for (const [what, expected] of [
    ['write', '507 no-space'],
    ['sync', '500 system-refused'],
  ] as const) {
    writes = 0
    fails = what
    t.equal(await kindOf(await put(BUNDLE)), expected)
    t.same(readdirSync(bundles.folder), [], what)
  }
  fails = ''
  t.equal((await put(BUNDLE)).status, 201)
  t.ok(whole().equals(BUNDLE), 'also by writes of a part each')
})

const isRoot = process.getuid?.() === 0

t.test(
  'a full disk: refused before it comes, or when it fills meanwhile',
  { skip: !isRoot && 'needs root' },
  async t => {
    const folder = temporaryFolder(t)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=400k', 'bundles', folder])
    t.teardown(() => execFileSync('umount', [folder]))
    const { api, bundles, put, begin, whole } = await startDevice(t, { folder })
    t.equal(await kindOf(await put(Buffer.alloc(500_000))), '507 no-space')
    t.equal((await put(BUNDLE)).status, 201)
    t.equal((await put(BUNDLE)).status, 201, 'the room of the one that it replaces counts')
    t.equal(await kindOf(await put(Buffer.alloc(500_000))), '507 no-space')
    t.ok(whole().equals(BUNDLE), 'the one that is there stays')
    t.equal((await api.fetch(PATH, { method: 'DELETE' })).status, 204)

    const upload = await begin(BUNDLE.subarray(0, 1_000))
    const status = new Promise(resolve => upload.on('response', response => resolve(response.statusCode)))
    writeFileSync(join(folder, 'else'), Buffer.alloc(300_000))
    upload.end(BUNDLE.subarray(1_000))
    t.equal(await status, 507)
    t.same(readdirSync(bundles.folder), ['else'])
  },
)
