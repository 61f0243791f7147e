import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { deviceRoot } from '../support/device.ts'
import { TestIssuer } from '../support/issuer.ts'
import { startTestService, type TestService } from '../support/service.ts'

const FOLDER = 'etc/receiverd/issuers'

const put = (service: TestService, name: string, body: string, token = service.key) =>
  service.fetchAs(token, `/issuers/${name}`, {
    method: 'PUT',
    body,
    headers: { 'Content-Type': 'application/json' },
  })
const remove = (service: TestService, name: string, token = service.key) =>
  service.fetchAs(token, `/issuers/${name}`, { method: 'DELETE' })
const listed = async (service: TestService) => (await service.fetch('/issuers')).json()
const rotate = async (service: TestService, body: object) => {
  const headers = { 'Content-Type': 'application/json' }
  return service.fetch('/api-key', { method: 'POST', body: JSON.stringify(body), headers })
}

/** The root of a device whose image has an issuer. */
function rootWith(t: Parameters<typeof deviceRoot>[0], issuer: TestIssuer): string {
  const root = deviceRoot(t)
  mkdirSync(join(root, FOLDER), { recursive: true })
  writeFileSync(join(root, FOLDER, `${issuer.name}.json`), issuer.file({ roles: ['admin:r'] }))
  return root
}

t.test('an issuer is put, listed, replaced and removed; each change is in the log', async t => {
  const image = new TestIssuer('monitoring', 'ES256')
  const service = await startTestService(t, { root: rootWith(t, image) })
  const fleet = new TestIssuer('fleet')
  const added = await put(service, 'fleet', fleet.file({ maxAgeS: 3600 }))
  t.equal(added.status, 201)
  const shown = { name: 'fleet', algorithm: 'EdDSA', roles: ['admin:rw', 'moderator:rw'], maxAgeS: 3600, source: 'api' }
  t.strictSame(await added.json(), shown)
  const ofImage = { name: 'monitoring', algorithm: 'ES256', roles: ['admin:r'], maxAgeS: 86_400, source: 'image' }
  t.strictSame(await listed(service), { issuers: [shown, ofImage] })
  t.equal(statSync(service.path(`${FOLDER}/fleet.json`)).mode & 0o777, 0o644)
  const token = fleet.token()
  t.equal((await service.fetchAs(token)).status, 200, 'in force when it is answered')
  t.strictSame(await (await service.fetchAs(token, '/issuers')).json(), { issuers: [shown, ofImage] })
  t.match(await (await service.fetchAs(token, '/credential')).json(), { kind: 'token', grants: ['admin:r', 'admin:w'] })

  t.equal((await put(service, 'fleet', new TestIssuer('fleet').file())).status, 200)
  t.equal((await service.fetchAs(token)).status, 401)
  const removed = await remove(service, 'fleet')
  t.equal(removed.status, 204)
  t.notOk(existsSync(service.path(`${FOLDER}/fleet.json`)))
  t.equal((await remove(service, 'fleet')).status, 404)
  t.equal((await remove(service, 'monitoring')).status, 204)
  t.strictSame(await listed(service), { issuers: [] })
  t.strictSame(
    service.said.filter(line => line.startsWith('warning: 127.0.0.1 (')),
    [
      'warning: 127.0.0.1 (the API key) put the issuer fleet: EdDSA, admin:rw, moderator:rw',
      'warning: 127.0.0.1 (the API key) put the issuer fleet: EdDSA, admin:rw, moderator:rw',
      'warning: 127.0.0.1 (the API key) removed the issuer fleet',
      'warning: 127.0.0.1 (the API key) removed the issuer monitoring',
    ],
  )
})

t.test('only the API key changes issuers', async t => {
  const fleet = new TestIssuer('fleet')
  const service = await startTestService(t, { root: rootWith(t, fleet) })
  for (const token of [service.token(['admin:rw', 'moderator:rw']), fleet.token({ roles: ['admin:r'] })]) {
    t.equal((await put(service, 'fleet', fleet.file(), token)).status, 403)
    t.equal((await remove(service, 'fleet', token)).status, 403)
    t.equal((await service.fetchAs(token, '/issuers')).status, 200)
    t.equal((await service.fetchAs(token, '/api-key', { method: 'POST' })).status, 403)
  }
  t.equal((await service.fetchAs(service.token(['moderator:rw']), '/issuers')).status, 403)
})

t.test('a body that does not fit is 422 with a pointer, and a seventeenth issuer 409', async t => {
  const service = await startTestService(t)
  const issuer = new TestIssuer('x')
  for (const [name, body, pointer] of [
    ['X', issuer.file(), ''],
    ['a.b', issuer.file(), ''],
    ['..%2fx', issuer.file(), ''],
    ['a'.repeat(33), issuer.file(), ''],
    ['x', issuer.file({ publicKey: 'AAAA' }), '/publicKey'],
    ['x', issuer.file({ publicKey: issuer.privateKey.export({ type: 'pkcs8', format: 'pem' }) }), '/publicKey'],
    ['x', issuer.file({ roles: [] }), '/roles'],
    ['x', issuer.file({ roles: ['admin'] }), '/roles/0'],
    ['x', issuer.file({ maxAgeS: 0 }), '/maxAgeS'],
    ['x', issuer.file({ source: 'image' }), '/source'],
    ['x', '{}', ''],
  ] as const) {
    const answer = await put(service, name, body)
    t.equal(answer.status, 422, `${name} ${pointer}`)
    t.equal(((await answer.json()) as { errors: { pointer: string }[] }).errors[0]?.pointer, pointer)
  }
  t.strictSame(await listed(service), { issuers: [] })
  for (let n = 0; n < 16; n++) t.equal((await put(service, `i-${n}`, issuer.file())).status, 201)
  t.equal((await put(service, 'one-more', issuer.file())).status, 409)
  t.equal((await put(service, 'i-3', issuer.file())).status, 200, 'one of them can be replaced')
})

t.test('a new API key leaves issuers alone, and names them; on request, those of the API go', async t => {
  const image = new TestIssuer('image')
  const service = await startTestService(t, { root: rootWith(t, image) })
  const planted = new TestIssuer('planted')
  await put(service, 'planted', planted.file())
  const token = planted.token()
  t.equal((await service.fetchAs(token)).status, 200)
  t.match(await (await rotate(service, {})).json(), { apiKey: String, issuers: ['image', 'planted'] })
  t.equal((await service.fetchAs(token)).status, 200)
  const stream = await service.stream('/events', { Authorization: `Bearer ${token}` })

  const refused = await rotate(service, { apiKey: 'short', removeIssuers: true })
  t.equal(refused.status, 422)
  t.match(await listed(service), { issuers: [{ name: 'image' }, { name: 'planted' }] }, 'nothing has changed')

  t.match(await (await rotate(service, { removeIssuers: true })).json(), { issuers: ['image'] })
  t.match(await stream.event(), { event: 'events.closed', data: { reason: 'issuer removed' } })
  t.equal((await service.fetchAs(token)).status, 401)
  t.equal((await service.fetchAs(image.token({ roles: ['admin:r'] }))).status, 200)
  t.match(service.said.join('\n'), 'warning: 127.0.0.1 removed the issuer planted, with the API key')
})

t.test('issuers are removed before a new API key fails to be stored: the answer and the log say so', async t => {
  const service = await startTestService(t)
  await put(service, 'planted', new TestIssuer('planted').file())
  const [path, headers] = [service.path('var/lib/receiverd/api-key'), { Authorization: `Bearer ${service.key}` }]
  rmSync(path)
  mkdirSync(join(path, 'in the way'), { recursive: true })
  const ask = {
    method: 'POST',
    body: '{"removeIssuers":true}',
    headers: { ...headers, 'Content-Type': 'application/json' },
  }
  const answer = await fetch(`${service.url}/api/v1/api-key`, ask)
  t.equal(answer.status, 500)
  t.match(await answer.json(), { detail: / The old key stays in force\. These issuers are removed: planted\.$/ })
  t.match(await (await fetch(`${service.url}/api/v1/issuers`, { headers })).json(), { issuers: [] })
  t.match(service.said.join('\n'), 'warning: 127.0.0.1 removed the issuer planted, with the API key')
})

t.test('a factory reset knows the files as they were', async t => {
  const image = new TestIssuer('image')
  const service = await startTestService(t, { root: rootWith(t, image) })
  await put(service, 'image', new TestIssuer('image').file())
  await put(service, 'fleet', new TestIssuer('fleet').file())
  const originals = readFileSync(service.path('var/lib/receiverd/originals'), 'utf8')
  t.match(originals, `${FOLDER}/image.json`)
  t.match(originals, `${FOLDER}/fleet.json`)
})

t.test('requests that are sent ahead are answered in their order, whether or not their tokens are known', async t => {
  const fleet = new TestIssuer('fleet')
  const service = await startTestService(t, { root: rootWith(t, fleet) })
  const token = () => fleet.token({ roles: ['admin:r'], jti: Math.random() })
  const tokens = Array.from({ length: 12 }, (_, n) => (n % 3 === 0 ? token() : n % 3 === 1 ? service.key : 'x.y.z'))
  const heads = tokens.map((each, n) => {
    const close = n === tokens.length - 1 ? 'Connection: close\r\n' : ''
    return `GET /api/v1/credential HTTP/1.1\r\nHost: d\r\nAuthorization: Bearer ${each}\r\n${close}\r\n`
  })
  const text = await service.raw(heads.join(''))
  const kinds = Array.from(text.matchAll(/"kind":"([a-z-]+)"|"status":(401)/g), ([, kind, status]) => kind ?? status)
  t.strictSame(
    kinds,
    tokens.map((_, n) => ['token', 'api-key', '401'][n % 3]),
  )
})

t.test('a new token in many requests at once is verified once, and none of them is turned away', async t => {
  const fleet = new TestIssuer('fleet')
  const service = await startTestService(t, { root: rootWith(t, fleet), env: { RECEIVERD_STREAMS_PER_ADDRESS: '5' } })
  const token = fleet.token({ roles: ['admin:r'] })
  const answers = await Promise.all(Array.from({ length: 40 }, () => service.fetchAs(token)))
  t.strictSame([...new Set(answers.map(answer => answer.status))], [200])
  const another = fleet.token({ roles: ['admin:r'], jti: 1 })
  const streams = await Promise.all(
    Array.from({ length: 20 }, () => service.stream('/events', { Authorization: `Bearer ${another}` })),
  )
  const open = streams.filter(({ status }) => status === 200).length
  t.equal(open, 5, 'and the limits hold')
  for (const stream of streams) stream.close()
})

t.test('a client that goes away while its token is verified leaves nothing behind', async t => {
  const fleet = new TestIssuer('fleet')
  const service = await startTestService(t, { root: rootWith(t, fleet) })
  const gone = Array.from({ length: 8 }, async (_, n) => {
    const token = fleet.token({ roles: ['admin:r'], jti: n })
    const socket = connect(service.port, '127.0.0.1', () =>
      socket.write(
        `GET /api/v1/events HTTP/1.1\r\nHost: d\r\nAccept: text/event-stream\r\nAuthorization: Bearer ${token}\r\n\r\n`,
        () => socket.resetAndDestroy(),
      ),
    )
    await new Promise(resolve => socket.on('close', resolve))
  })
  await Promise.all(gone)
  for (;;) {
    const status = (await (await service.fetch('/status')).json()) as { connections: number; streams: number }
    if (status.connections > 1) continue
    t.equal(status.streams, 0)
    break
  }
})
