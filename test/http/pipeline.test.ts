import t, { type Test } from 'tap'
import * as Type from 'typebox/type'
import { Authenticator } from '../../src/auth/authenticator.ts'
import { mint } from '../../src/auth/jwt.ts'
import { systemClock } from '../../src/clock.ts'
import { json } from '../../src/http/reply.ts'
import type { Request } from '../../src/http/request.ts'
import type { Route } from '../../src/http/route.ts'
import { Router } from '../../src/http/router.ts'
import { HttpServer } from '../../src/http/server.ts'
import { NO_ISSUERS } from '../support/credential.ts'

const KEY = 'A'.repeat(43)
const docs = { operationId: '', summary: '', answers: {} }
const echo = (request: Request) => json(Buffer.from(JSON.stringify(request.body ?? null)))

/** Serves these routes; resolves with a client of them, which has the API key. */
async function serve(t: Test, routes: readonly Route[], isFronted = false) {
  const options = { clock: systemClock, log: () => undefined, builtAt: 0, leewayS: 0, ...NO_ISSUERS }
  const server = new HttpServer({
    ...options,
    router: new Router(routes),
    authenticator: new Authenticator(KEY, options),
    origins: '*',
    connections: 10,
    connectionsPerAddress: 10,
    timeoutCheckMs: 1_000,
    isFronted,
  })
  const url = await server.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => server.close(() => undefined))
  return (path: string, { headers = {}, ...init }: RequestInit = {}) =>
    fetch(`${url}/api/v1${path}`, { ...init, headers: { Authorization: `Bearer ${KEY}`, ...headers } })
}

t.test('a body is checked against the schema of its route', async t => {
  const schema = Type.Object(
    { roles: Type.Array(Type.String(), { maxItems: 2 }), subject: Type.Optional(Type.String({ maxLength: 64 })) },
    { additionalProperties: false },
  )
  const ask = await serve(t, [
    {
      method: 'POST',
      path: '/tokens',
      needs: 'api-key',
      body: { accepts: ['application/json'], schema },
      handle: echo,
      docs,
    },
  ])
  const post = (body: unknown, type = 'application/json') =>
    ask('/tokens', { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': type } })

  t.same(await (await post({ roles: ['admin:r'] })).json(), { roles: ['admin:r'] })
  const cases: readonly (readonly [body: unknown, ...pointers: readonly string[]])[] = [
    [[], ''],
    [null, ''],
    ['text', ''],
    [{ roles: 'admin:r' }, '/roles'],
    [{ roles: ['a', 'b', 'c'] }, '/roles'],
    [{ roles: [1] }, '/roles/0'],
    [{ roles: [], extra: 1 }, '/extra'],
    [{ roles: [], subject: 'x'.repeat(65) }, '/subject'],
    [{ roles: ['\ud800'] }, '/roles/0'],
    [{ roles: [], '\ud800': 1 }, ''],
  ]
  for (const [body, ...pointers] of cases) {
    const answer = await post(body)
    const problem = (await answer.json()) as { type: string; detail: string; errors: { pointer: string }[] }
    t.equal(answer.status, 422, JSON.stringify(body))
    t.equal(problem.type, 'urn:receiverd:problem:invalid-body')
    t.strictSame(
      problem.errors.map(({ pointer }) => pointer),
      pointers,
    )
    t.match(problem.detail, /[^.]\. Nothing has changed\.$/)
  }
  const type = await post({ roles: [] }, 'text/plain')
  t.equal(type.status, 415)
  t.equal(type.headers.get('accept'), 'application/json', 'POST has no Accept-Patch')
})

t.test('any one of several grants suffices', async t => {
  const ask = await serve(t, [
    { method: 'GET', path: '/status', needs: ['admin:r', 'moderator:r'], handle: echo, docs },
    {
      method: 'DELETE',
      path: '/sessions/{id}',
      needs: 'moderator:w',
      handle: request => json(Buffer.from(request.parameter('id'))),
      docs,
    },
  ])
  const as = (path: string, method: string, ...roles: readonly string[]) =>
    ask(path, { method, headers: { Authorization: `Bearer ${mint(KEY, { roles })}` } })
  t.equal((await as('/status', 'GET', 'admin:r')).status, 200)
  t.equal((await as('/status', 'GET', 'moderator:rw')).status, 200)
  const refused = await as('/status', 'GET', 'admin:w')
  t.equal(refused.status, 403)
  t.equal(
    refused.headers.get('www-authenticate'),
    'Bearer realm="receiverd", error="insufficient_scope", scope="admin:r moderator:r"',
  )
  t.match(await refused.json(), { detail: 'This needs one of the grants admin:r, moderator:r.' })

  const deleted = await as('/sessions/a%20b', 'DELETE', 'moderator:rw')
  t.equal(await deleted.text(), 'a b')
  t.equal((await as('/sessions/1', 'DELETE', 'moderator:r')).status, 403)
  t.equal((await as('/sessions/1', 'GET', 'moderator:r')).headers.get('allow'), 'DELETE')
  const preflight = await ask('/sessions/1', {
    method: 'OPTIONS',
    headers: { Origin: 'https://panel.example', 'Access-Control-Request-Method': 'DELETE' },
  })
  t.equal(preflight.headers.get('access-control-allow-methods'), 'DELETE')
})

t.test('a route without a body refuses one, and its answer arrives whatever the size', async t => {
  const ask = await serve(t, [{ method: 'POST', path: '/confirm', needs: 'admin:w', handle: echo, docs }])
  for (const body of ['{"not JSON', '{}', 'x'.repeat(65_536), 'x'.repeat(1_048_576)]) {
    const answer = await ask('/confirm', { method: 'POST', body })
    t.equal(answer.status, 422)
    t.equal(answer.headers.get('connection'), 'close')
    t.match(await answer.json(), { detail: 'This request takes no body.' })
  }
  t.equal((await ask('/confirm', { method: 'POST', body: '{}', headers: { Authorization: '' } })).status, 401, 'first')
  t.equal(await (await ask('/confirm', { method: 'POST', body: '' })).text(), 'null', 'Content-Length: 0 is no body')
  t.equal(await (await ask('/confirm', { method: 'POST' })).text(), 'null')
})

t.test('a body that may be left out', async t => {
  const body = { accepts: ['application/json'], schema: Type.Object({}), isOptional: true }
  const ask = await serve(t, [{ method: 'POST', path: '/key', needs: 'admin:w', body, handle: echo, docs }])
  t.equal(await (await ask('/key', { method: 'POST' })).text(), 'null')
  const headers = { 'Content-Type': 'application/json' }
  t.equal(await (await ask('/key', { method: 'POST', body: '{}', headers })).text(), '{}')
  t.equal((await ask('/key', { method: 'POST', body: '[]', headers })).status, 422)
  t.equal((await ask('/key', { method: 'POST', body: '{}' })).status, 415)
})

t.test('the log names the client of the server in front, and nobody else who says who it is', async t => {
  const handle = ({ address, network }: Request) => json(Buffer.from(JSON.stringify([address, network])))
  const routes: Route[] = [{ method: 'GET', path: '/who', needs: 'admin:r', handle, docs }]
  const said = async (isFronted: boolean, headers: Record<string, string>) => {
    const ask = await serve(t, routes, isFronted)
    return (await ask('/who', { headers })).json()
  }
  t.same(await said(true, { 'X-Real-IP': '192.0.2.7' }), ['192.0.2.7', '127.0.0.1'], 'limits are not for it')
  t.same(await said(true, { 'X-Real-IP': '2001:db8::7' }), ['2001:db8::7', '127.0.0.1'])
  t.same(await said(true, { 'X-Real-IP': 'Ann, 192.0.2.7' }), ['127.0.0.1', '127.0.0.1'])
  t.same(await said(true, {}), ['127.0.0.1', '127.0.0.1'])
  t.same(await said(false, { 'X-Real-IP': '192.0.2.7' }), ['127.0.0.1', '127.0.0.1'])
})
