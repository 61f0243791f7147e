import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { type FileSystem, KERNEL } from '../../hal/files/kernel.ts'
import { deviceRoot } from '../support/device.ts'
import { startTestService, type TestService } from '../support/service.ts'

interface ProblemBody {
  readonly detail: string
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[]
}

const readProblem = async (answer: Response) => (await answer.json()) as ProblemBody

t.test('GET answers 304 while its tag holds', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const ask = async () => (await service.fetch('/system', { headers: { 'If-None-Match': `"${id}"` } })).status
  t.equal(await ask(), 304)
  await service.patch({ deviceName: 'Lobby' })
  t.equal(await ask(), 200)
})

t.test('a PATCH answers with what was read back, and its tag', async t => {
  const service = await startTestService(t)
  const answer = await service.patch({ deviceName: 'Lobby', ntp: { servers: ['ntp.example.org'] } })
  t.equal(answer.status, 200)
  const body = await answer.json()
  t.match(body, { deviceName: 'Lobby', ntp: { enabled: true, servers: ['ntp.example.org'] }, hostname: 'receiver' })
  t.strictSame(body, (await service.system()).value)
  t.equal(answer.headers.get('etag'), (await service.fetch('/system')).headers.get('etag'))
})

t.test('the answer to GET can be edited and sent back whole', async t => {
  const service = await startTestService(t)
  const { value, id } = await service.system()
  const unchanged = await service.patch(value)
  t.equal(unchanged.status, 200)
  t.equal(unchanged.headers.get('etag'), `"${id}"`, 'and changes nothing')
  const changed = await service.patch({ ...value, locale: 'de_DE.UTF-8' })
  t.equal(changed.status, 200)
  t.equal((await service.system()).value.locale, 'de_DE.UTF-8')
})

t.test('a patch that changes nothing writes nothing', async t => {
  const service = await startTestService(t)
  const { value } = await service.system()
  const before = snapshot(service)
  t.equal((await service.patch({})).status, 200)
  t.equal((await service.patch({ deviceName: value.deviceName, ntp: {} })).status, 200)
  t.strictSame(snapshot(service), before)
})

t.test('refused values are named, with what would be accepted, and nothing is changed', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const before = snapshot(service)
  const cases: readonly (readonly [patch: unknown, pointers: readonly string[]])[] = [
    [[], ['']],
    ['"a string"', ['']],
    ['null', ['']],
    [{ unknown: 1 }, ['/unknown']],
    [{ 'a/b~c': 1 }, ['/a~1b~0c']],
    ['{"__proto__":{"x":1}}', ['/__proto__']],
    [{ constructor: 1, toString: 1 }, ['/constructor', '/toString']],
    [{ firmware: { version: '9' } }, ['/firmware']],
    [{ hardware: null }, ['/hardware']],
    [{ deviceName: null }, ['/deviceName']],
    [{ deviceName: '' }, ['/deviceName']],
    [{ deviceName: 'x'.repeat(65) }, ['/deviceName']],
    [{ deviceName: 'a\nb' }, ['/deviceName']],
    ['{"deviceName":"\\ud800"}', ['/deviceName']],
    ['{"ntp":{"servers":["a.example","\\udc00"]}}', ['/ntp/servers/1']],
    [{ hostname: 'UPPER' }, ['/hostname']],
    [{ hostname: 'a..b' }, ['/hostname']],
    [{ hostname: '-a' }, ['/hostname']],
    [{ hostname: 'a'.repeat(64) }, ['/hostname']],
    [{ timezone: 'Europe/Atlantis' }, ['/timezone']],
    [{ timezone: '../../../etc/passwd' }, ['/timezone']],
    [{ locale: 'english' }, ['/locale']],
    [{ ntp: 1 }, ['/ntp']],
    [{ ntp: { enabled: 'yes' } }, ['/ntp/enabled']],
    [{ ntp: { enabled: null } }, ['/ntp']],
    [{ ntp: { extra: 1 } }, ['/ntp/extra']],
    [{ ntp: { servers: ['ok.example', 'not ok'] } }, ['/ntp/servers/1']],
    [{ ntp: { servers: ['ok.example', '999.1.1.1'] } }, ['/ntp/servers/1']],
    [{ ntp: { servers: ['a.example', 'A.EXAMPLE'] } }, ['/ntp/servers/1']],
    [{ ntp: { servers: Array.from({ length: 9 }, (_, n) => `ntp${n}.example`) } }, ['/ntp/servers']],
    [{ deviceName: 'Fine', hostname: 'not fine', locale: 7 }, ['/hostname', '/locale']],
  ]
  for (const [patch, pointers] of cases) {
    const answer = await service.patch(patch)
    const text = typeof patch === 'string' ? patch : JSON.stringify(patch)
    t.equal(answer.status, 422, text)
    const { errors = [] } = await readProblem(answer)
    t.strictSame(errors.map(error => error.pointer).sort(), pointers.toSorted(), text)
    for (const error of errors) t.ok(error.detail.length > 5, `${text}: ${error.detail}`)
  }
  t.strictSame(snapshot(service), before)
  t.equal((await service.system()).id, id)
})

t.test('a misspelled name is answered with the name that was probably meant', async t => {
  const service = await startTestService(t)
  const answer = await service.patch({ hostnam: 'x' })
  t.match(await readProblem(answer), {
    detail: '/hostnam: unknown property; did you mean hostname? Nothing has changed.',
    errors: [{ pointer: '/hostnam', detail: 'unknown property; did you mean hostname?' }],
  })
})

t.test('a body that is not JSON is refused before it is looked at', async t => {
  const service = await startTestService(t)
  const cases: readonly (readonly [body: string | Buffer, status: number])[] = [
    ['', 400],
    ['{', 400],
    ['{"deviceName":"a"}}', 400],
    ['{"deviceName":"a","deviceName":"b"}', 400],
    ['{"ntp":{"enabled":true,"\\u0065nabled":false}}', 400],
    ['\ufeff{}', 400],
    [Buffer.from([0x22, 0xff, 0x22]), 400],
    [`${'['.repeat(10_000)}${']'.repeat(10_000)}`, 400],
    [`{"deviceName":"${'x'.repeat(65_536)}"}`, 413],
  ]
  for (const [body, status] of cases) {
    const headers = { 'Content-Type': 'application/merge-patch+json' }
    const answer = await service.fetch('/system', { method: 'PATCH', body: new Uint8Array(Buffer.from(body)), headers })
    t.equal(answer.status, status, body.toString().slice(0, 40))
  }
})

t.test('only a patch of JSON is taken', async t => {
  const service = await startTestService(t)
  const status = async (headers: Record<string, string>) => service.patch({ deviceName: 'Lobby' }, headers)
  for (const type of [
    'application/json; charset=UTF-8',
    'Application/Merge-Patch+JSON',
    'application/json;charset="utf-8"',
  ])
    t.equal((await status({ 'Content-Type': type })).status, 200, type)
  for (const type of ['text/plain', 'application/json-patch+json', 'application/json; charset=latin1', '']) {
    const answer = await status({ 'Content-Type': type })
    t.equal(answer.status, 415, type)
    t.equal(answer.headers.get('accept-patch'), 'application/merge-patch+json, application/json')
  }
  t.equal((await status({ 'Content-Encoding': 'gzip' })).status, 415)
})

t.test('a stale tag is refused, also when it became stale while the patch waited', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const headers = { 'If-Match': `"${id}"` }
  const answers = await Promise.all([
    service.patch({ deviceName: 'First' }, headers),
    service.patch({ deviceName: 'Second' }, headers),
    service.patch({ deviceName: 'Third' }, headers),
  ])
  t.strictSame(answers.map(answer => answer.status).sort(), [200, 412, 412])
  t.equal((await service.patch({ deviceName: 'Any' }, { 'If-Match': '*' })).status, 200)
  t.equal(
    (await service.patch({ deviceName: 'Weak' }, { 'If-Match': `W/"${(await service.system()).id}"` })).status,
    412,
  )
})

t.test('a foreign change that nobody has looked at yet makes a tag stale', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  writeFileSync(service.path('etc/hostname'), 'foreign\n')
  await new Promise(resolve => setTimeout(resolve, 20))
  const answer = await service.patch({ deviceName: 'Mine' }, { 'If-Match': `"${id}"` })
  t.equal(answer.status, 412)
})

t.test('a token that may only change gets the answer, too', async t => {
  const service = await startTestService(t)
  const headers = { Authorization: `Bearer ${service.token(['admin:w'], { sub: 'panel-4' })}` }
  const answer = await service.patch({ deviceName: 'Lobby' }, headers)
  t.match(await answer.json(), { deviceName: 'Lobby', hostname: 'receiver' })
  t.ok(service.log.includes('notice: 127.0.0.1 (a token of panel-4) changed deviceName'))
})

for (const [code, errno, status] of [
  ['EROFS', -30, 500],
  ['ENOSPC', -28, 507],
  ['EDQUOT', -122, 507],
  ['EIO', -5, 500],
] as const)
  t.test(`${code} in the second of two settings: neither is changed`, async t => {
    let fail = false
    const open: FileSystem['open'] = (path, ...rest) => {
      if (fail && String(path).includes('.locale.conf.'))
        throw Object.assign(new Error(`${code}: refused, open '${path}'`), { code, errno })
      return KERNEL.open(path, ...rest)
    }
    const service = await startTestService(t, { fs: { ...KERNEL, open } })
    const before = await service.system()
    const files = snapshot(service)
    fail = true
    const answer = await service.patch({ hostname: 'other', deviceName: 'Other', locale: 'de_DE.UTF-8' })
    t.equal(answer.status, status)
    const { detail } = await readProblem(answer)
    t.match(detail, new RegExp(`^The system refused to write locale: .*\\(${code}\\)\\. Nothing has changed\\.$`))
    t.notMatch(detail, service.root, 'no path of ours')
    t.strictSame(snapshot(service), files)
    t.strictSame(await service.system(), before)
    fail = false
    t.equal((await service.patch({ locale: 'de_DE.UTF-8' })).status, 200)
  })

t.test('a setting that the device lacks is absent, and said to be', async t => {
  const root = deviceRoot(t)
  rmSync(`${root}/usr/lib/systemd`, { recursive: true })
  const service = await startTestService(t, { root })
  t.notOk('ntp' in (await service.system()).value)
  const answer = await service.patch({ ntp: { enabled: true } })
  t.equal(answer.status, 422)
  t.match((await readProblem(answer)).errors, [
    { pointer: '/ntp', detail: 'not available on this device: systemd-timesyncd is not installed' },
  ])
})

/** Everything under the device's root but our own state, to the byte. */
function snapshot(service: TestService): Record<string, string> {
  const found: Record<string, string> = {}
  const walk = (folder: string) => {
    for (const name of readdirSync(service.path(folder)).sort()) {
      const path = `${folder}/${name}`
      const stat = lstatSync(service.path(path))
      if (stat.isDirectory()) walk(path)
      else if (stat.isSymbolicLink()) found[path] = `-> ${stat.ino}`
      else found[path] = `${statSync(service.path(path)).mode} ${readFileSync(service.path(path), 'base64')}`
    }
  }
  for (const folder of ['etc', 'usr', 'proc']) if (existsSync(service.path(folder))) walk(folder)
  return found
}
