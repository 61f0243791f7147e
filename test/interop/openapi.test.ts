/** The OpenAPI document is valid, and every answer conforms to it. */

import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import t, { type Test } from 'tap'
import { MAX_WAITING_CHANGES } from '../../src/limits.ts'
import { openSession } from '../../src/sessions/engine-client.ts'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startTestService } from '../support/service.ts'
import { SlowSetting } from '../support/slow-setting.ts'
import { type Answer, Contract, type Document, documentOf } from './document.ts'
import { type Receiver, receiverd, startReceiver } from './support.ts'

async function readWhole(response: Response): Promise<Answer> {
  return { status: response.status, headers: response.headers, body: await response.text() }
}

/** A stream's answer, up to its first event. */
async function readStream(response: Response): Promise<Answer> {
  let body = ''
  const utf8 = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    body += utf8.decode(chunk, { stream: true })
    if (body.includes('data: ')) break
  }
  return { status: response.status, headers: response.headers, body }
}

t.test('the document is valid OpenAPI 3.1', async t => {
  const receiver = await startReceiver(t)
  const response = await fetch(`${receiver.url}/api/v1/openapi.json`)
  t.equal(response.headers.get('content-type'), 'application/json')
  const document = (await response.json()) as Document
  t.match(document.openapi, /^3\.1\./)
  const validator = new Validator()
  t.match(await validator.validate({ ...document }), { valid: true, errors: undefined })
  t.equal(validator.version, '3.1')

  const broken = await new Validator().validate({ ...document, paths: { '/api/v1/system': { get: 'nothing' } } })
  t.equal(broken.valid, false, 'the validator does find what is wrong')
})

t.test('operations and schemas have names', async t => {
  const receiver = await startReceiver(t)
  const document = await documentOf(receiver)
  const operations = Object.values(document.paths).flatMap(methods => Object.values(methods))
  const ids = operations.map(operation => operation.operationId)
  t.strictSame(new Set(ids).size, ids.length, 'each its own')
  for (const id of ids) t.match(id, /^[a-z][A-Za-z]+$/)
  const { schemas } = document.components
  for (const name of ['System', 'SystemPatch', 'Hostname', 'Ntp', 'Network', 'Firmware', 'Event', 'Problem', 'ApiKey'])
    t.ok(name in schemas, name)
  t.match(schemas.System, { properties: { ntp: { $ref: '#/components/schemas/Ntp' } } })
  t.match(schemas.Firmware, { readOnly: true })
  const text = JSON.stringify(document)
  t.notMatch(text, '"$id"')
  const referenced = new Set(Array.from(text.matchAll(/"#\/components\/schemas\/(\w+)"/g), ([, name]) => name))
  t.strictSame([...referenced].sort(), Object.keys(schemas).sort(), 'each is referred to, and each reference resolves')
})

t.test('every answer conforms to the document', async t => {
  const engines = join(temporaryFolder(t), 'engines')
  const receiver = await startReceiver(t, { env: { RECEIVERD_HOLD_S: '1', RECEIVERD_ENGINES: engines } })
  const contract = new Contract(await documentOf(receiver))
  const mint = async (role: string) =>
    (await receiverd(['token', '--root', receiver.root, '--role', role])).stdout.trim()
  const reader = await mint('admin:r')
  const moderator = await mint('moderator:rw')

  const check = async (
    status: number,
    method: string,
    path: string,
    init: RequestInit & { token?: string | null; query?: string; id?: string } = {},
  ) => {
    const { token = receiver.key, query = '', id = '', headers, ...rest } = init
    const authorization = token === null ? {} : { Authorization: `Bearer ${token}` }
    const isStream = JSON.stringify(headers ?? {}).includes('event-stream')
    const response = await fetch(`${receiver.url}${path.replace(/\{\w+\}/, id)}${query}`, {
      ...rest,
      method,
      headers: { ...authorization, ...headers },
      signal: AbortSignal.timeout(DEADLINE_MS),
    })
    const answer = await (isStream && response.status === 200 ? readStream(response) : readWhole(response))
    t.equal(answer.status, status, `${method} ${path} ${status}: ${answer.body.slice(0, 200)}`)
    t.same(contract.misfits(method, path, answer), [], `${method} ${path} ${status} is as the document says`)
    return answer
  }
  const patch = (status: number, body: string, headers: Record<string, string> = {}, token = receiver.key) =>
    check(status, 'PATCH', '/api/v1/system', {
      body,
      token,
      headers: { 'Content-Type': 'application/merge-patch+json', ...headers },
    })

  await check(200, 'GET', '/api/v1/health', { token: null })
  await check(200, 'GET', '/api/v1/openapi.json', { token: null })

  const { headers } = await check(200, 'GET', '/api/v1/system')
  const etag = headers.get('etag') ?? ''
  await check(304, 'GET', '/api/v1/system', { headers: { 'If-None-Match': etag } })
  await check(400, 'GET', '/api/v1/system', { query: '?apiKey=another' })
  await check(401, 'GET', '/api/v1/system', { token: null })
  await check(401, 'GET', '/api/v1/system', { token: 'nobody' })
  await check(403, 'GET', '/api/v1/system', { token: moderator })
  await check(431, 'GET', '/api/v1/system', { headers: { X: 'x'.repeat(9000) } })

  await check(200, 'GET', '/api/v1/events')
  await check(304, 'GET', '/api/v1/events', { headers: { 'If-None-Match': etag } })
  await patch(200, '{"deviceName":"Ω","ntp":{"servers":["2001:db8::1"]}}', { 'If-Match': etag })
  await patch(200, '{}')
  const onTrial = { body: '{"deviceName":"On trial"}', headers: { 'Content-Type': 'application/json' } }
  await check(200, 'PATCH', '/api/v1/system', { ...onTrial, query: '?confirmWithin=60' })
  await patch(409, '{"deviceName":"Another"}')
  await check(200, 'POST', '/api/v1/system/confirm')
  await check(409, 'POST', '/api/v1/system/confirm')
  await check(200, 'PATCH', '/api/v1/system', {
    ...onTrial,
    body: '{"deviceName":"Undone"}',
    query: '?confirmWithin=60',
  })
  await check(409, 'PATCH', '/api/v1/system', { ...onTrial, query: '?validateOnly=true' })
  await check(412, 'DELETE', '/api/v1/system/confirm', { headers: { 'If-Match': etag } })
  await check(200, 'DELETE', '/api/v1/system/confirm')
  await check(409, 'DELETE', '/api/v1/system/confirm')
  await check(400, 'PATCH', '/api/v1/system', { ...onTrial, query: '?confirmWithin=1' })
  await check(400, 'PATCH', '/api/v1/system', { ...onTrial, query: '?validateOnly=1' })
  await check(200, 'PATCH', '/api/v1/system', { ...onTrial, query: '?validateOnly=true' })
  await check(200, 'GET', '/api/v1/events', { headers: { 'If-None-Match': etag } })
  await check(200, 'GET', '/api/v1/events', { query: '?initialEventId=00000000-0000-4000-8000-000000000000' })
  await check(200, 'GET', '/api/v1/events', {
    query: `?initialEventId=${etag.replaceAll('"', '')}`,
    headers: { Accept: 'text/event-stream' },
  })
  await check(400, 'GET', '/api/v1/events', { query: '?initialEventId=' })
  await check(401, 'GET', '/api/v1/events', { token: null })
  await check(403, 'GET', '/api/v1/events', { token: moderator })

  await patch(400, '{')
  await patch(400, '{}', { 'If-Match': 'no quotes' })
  await patch(401, '{}', {}, 'nobody')
  await patch(403, '{}', {}, reader)
  await patch(412, '{}', { 'If-Match': etag })
  await patch(413, ' '.repeat(65_537))
  await patch(415, '{}', { 'Content-Type': 'text/plain' })
  await patch(422, '{"deviceName":"","hostname":"-","ntp":{"servers":[1]},"hardware":{"model":"x"},"nothing":0}')
  await patch(422, '[]')

  const [list, admit, end] = ['/api/v1/sessions', '/api/v1/sessions/{id}/admit', '/api/v1/sessions/{id}']
  await check(200, 'GET', '/api/v1/sessions/events', {
    query: '?initialEventId=00000000-0000-4000-8000-000000000000',
    headers: { Accept: 'text/event-stream' },
  })
  const before = (await check(200, 'GET', '/api/v1/sessions/events')).headers.get('etag') ?? ''
  const device = { protocol: 'miracast', name: 'Pixel 9', model: 'Pixel 9', deviceId: '', address: '192.0.2.9' }
  const link = await openSession(engines, { ...device, state: 'active' })
  t.teardown(link.close)
  const poll = { headers: { 'If-None-Match': before } }
  await check(200, 'GET', '/api/v1/sessions/events', poll)
  const listed = await check(200, 'GET', list)
  await check(304, 'GET', list, { headers: { 'If-None-Match': listed.headers.get('etag') ?? '' } })
  const id = (JSON.parse(listed.body) as { sessions: { id: string }[] }).sessions[0]?.id ?? ''
  await check(200, 'POST', admit, { id })
  await check(400, 'POST', admit, { id, query: '?replace=perhaps' })
  await check(403, 'POST', admit, { id, token: reader })
  await check(404, 'POST', admit, { id: 'nobody' })
  await check(403, 'GET', list, { token: reader })
  await check(404, 'DELETE', end, { id: 'nobody' })
  await check(504, 'DELETE', end, { id })
  let isToldAgain = false
  const ending = check(204, 'DELETE', end, { id })
  for await (const { state } of link.lines) {
    if (state === 'ended' && isToldAgain) break
    isToldAgain = state === 'ended'
  }
  link.close()
  await ending

  await check(200, 'GET', '/api/v1/status')
  await check(403, 'GET', '/api/v1/status', { token: moderator })
  // The receiver here has no second system: see test/rig/update.test.ts.
  for (const path of ['/update', '/update/events', '/update/bundle']) await check(409, 'GET', `/api/v1${path}`)
  const bundle = { body: 'bundle', headers: { 'Content-Type': 'application/octet-stream' } }
  await check(409, 'PUT', '/api/v1/update/bundle', bundle)
  await check(409, 'DELETE', '/api/v1/update/bundle')
  await check(409, 'DELETE', '/api/v1/update/install')
  for (const name of ['install', 'rollback', 'check', 'download']) await check(409, 'POST', `/api/v1/update/${name}`)
  // Nor is there TLS: see test/rig/authority.test.ts.
  const chain = { body: 'chain', headers: { 'Content-Type': 'application/pem-certificate-chain' } }
  await check(409, 'POST', '/api/v1/certificate/request')
  await check(409, 'PUT', '/api/v1/certificate', chain)
  await check(403, 'PUT', '/api/v1/certificate', { ...chain, token: reader })
  await check(409, 'DELETE', '/api/v1/certificate')
  const issuer = '/api/v1/issuers/{name}'
  const publicKey = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' })
  const given = (body: object, token?: string) => ({
    ...{ id: 'monitoring', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } },
    ...(token !== undefined && { token }),
  })
  await check(201, 'PUT', issuer, given({ publicKey, roles: ['admin:r'] }))
  await check(200, 'PUT', issuer, given({ publicKey, roles: ['admin:r'], maxAgeS: 3600 }))
  await check(422, 'PUT', issuer, given({ publicKey: 'none', roles: ['admin:r'] }))
  await check(403, 'PUT', issuer, given({ publicKey, roles: ['admin:r'] }, reader))
  await check(200, 'GET', '/api/v1/issuers', { token: reader })
  await check(204, 'DELETE', issuer, { id: 'monitoring' })
  await check(404, 'DELETE', issuer, { id: 'monitoring' })
  const choices = await check(200, 'GET', '/api/v1/system/choices')
  const known = choices.headers.get('etag') ?? ''
  await check(304, 'GET', '/api/v1/system/choices', { headers: { 'If-None-Match': known } })
  await check(200, 'GET', '/api/v1/metrics')
  await check(200, 'GET', '/api/v1/metrics', { headers: { Accept: 'application/openmetrics-text' } })
  await check(400, 'GET', '/api/v1/logs', { query: '?lines=0' })
  await check(409, 'GET', '/api/v1/logs')
  const deviceOperations = contract.operations.filter(name => name.startsWith('POST /api/v1/operations/'))
  t.ok(deviceOperations.length > 0)
  for (const [method = '', path = ''] of deviceOperations.map(name => name.split(' '))) {
    await check(409, method, path)
    await check(403, method, path, { token: reader })
  }

  await check(200, 'GET', '/api/v1/credential')
  await check(200, 'GET', '/api/v1/credential', { token: reader })
  await check(401, 'GET', '/api/v1/credential', { token: null })

  const makeToken = (status: number, body: string, token = receiver.key, type = 'application/json') =>
    check(status, 'POST', '/api/v1/tokens', { body, token, headers: { 'Content-Type': type } })
  await makeToken(201, '{"roles":["admin:r"]}')
  await makeToken(201, '{"roles":["admin:r"],"expiresIn":"8h","subject":"panel-4"}')
  await makeToken(403, '{"roles":["admin:r"]}', reader)
  await makeToken(413, ' '.repeat(65_537))
  await makeToken(415, '{}', receiver.key, 'text/plain')
  await makeToken(422, '{"roles":[]}')

  obstruct(receiver, 'etc/machine-info')
  await patch(500, '{"deviceName":"cannot be written"}')

  await check(400, 'POST', '/api/v1/api-key', { query: '?apiKey=another' })
  await check(401, 'POST', '/api/v1/api-key', { token: null })
  await check(403, 'POST', '/api/v1/api-key', { token: reader })
  const stale = receiver.key
  await check(200, 'POST', '/api/v1/api-key')
  await check(401, 'GET', '/api/v1/system', { token: stale })
  const { key } = receiver
  obstruct(receiver, 'var/lib/receiverd/api-key')
  await check(500, 'POST', '/api/v1/api-key', { token: key })
  await check(200, 'GET', '/api/v1/system', { token: key })

  await t.test('answers outside of any operation are problems as well', async t => {
    const cases: [status: number, method: string, path: string][] = [
      [404, 'GET', '/api/v1/nothing'],
      [404, 'GET', '/api/v2/system'],
      [405, 'PUT', '/api/v1/system'],
      [405, 'POST', '/api/v1/events'],
      [405, 'GET', '/api/v1/api-key'],
      [405, 'DELETE', '/api/v1/health'],
    ]
    for (const [status, method, path] of cases) {
      const response = await fetch(receiver.url + path, { method })
      t.equal(response.status, status, `${method} ${path}`)
      t.equal(response.headers.get('content-type'), 'application/problem+json')
      t.same(contract.problemMisfits(await response.text()), [])
    }
  })

  const exercised = new Set([...contract.seen].map(seen => seen.replace(/ \d+$/, '')))
  t.same(
    contract.operations.filter(operation => !exercised.has(operation)),
    [],
    'every operation of the document was exercised',
  )
  t.equal(await receiver.stop(), 0)
})

t.test('answers at the limits conform to the document', async t => {
  const checkFull = async (t: Test, env: NodeJS.ProcessEnv, status: number) => {
    const receiver = await startReceiver(t, { env })
    const contract = new Contract(await documentOf(receiver))
    const { etag } = await receiver.system()
    const held = receiver.fetch('/events', { headers: { 'If-None-Match': etag, Prefer: 'wait=60' } })
    const full = await eventually(async () => {
      const headers = { 'If-None-Match': etag, Prefer: 'wait=1' }
      const answer = await readWhole(await receiver.fetch('/events', { headers }))
      return answer.status !== 304 && answer
    })
    t.equal(full.status, status)
    t.same(contract.misfits('GET', '/api/v1/events', full), [])
    t.equal(await receiver.stop(), 0)
    t.equal((await held).status, 304, 'the one that was held is answered at the end')
  }
  await t.test('streams of this address', t => checkFull(t, { RECEIVERD_STREAMS_PER_ADDRESS: '1' }, 429))
  await t.test('streams of all addresses', t => checkFull(t, { RECEIVERD_STREAMS: '1' }, 503))

  await t.test('changes that wait', async t => {
    const slow = new SlowSetting()
    const service = await startTestService(t, { setting: () => slow.setting })
    const contract = new Contract(await documentOf(service))
    const change = async (patch: object) => readWhole(await service.patch(patch))
    const first = change({ slow: true })
    await slow.begun
    const others = Array.from({ length: MAX_WAITING_CHANGES }, (_, at) => change({ deviceName: `Name ${at}` }))
    t.equal((await Promise.race(others)).status, 503, 'one too many')
    slow.end()
    const answers = await Promise.all([first, ...others])
    t.same(new Set(answers.map(answer => answer.status)), new Set([200, 503]))
    t.same(
      answers.flatMap(answer => contract.misfits('PATCH', '/api/v1/system', answer)),
      [],
    )
  })
})

/** Replaces a file with a folder that is not empty, which can be neither read nor replaced. */
function obstruct(receiver: Receiver, name: string): void {
  rmSync(receiver.path(name))
  mkdirSync(receiver.path(`${name}/something`), { recursive: true })
}
