import t from 'tap'
import type { AnyRoute, Method } from '../../src/http/route.ts'
import { Router } from '../../src/http/router.ts'
import { Problem } from '../../src/problem.ts'

const docs = { operationId: '', summary: '', answers: {} }
const route = (method: Method, path: string): AnyRoute => ({
  method,
  path,
  needs: 'nothing',
  handle: () => ({ status: 204, headers: [] }),
  docs,
})

const router = new Router([
  route('GET', '/sessions'),
  route('GET', '/sessions/events'),
  route('POST', '/sessions/{id}/admit'),
  route('GET', '/sessions/{id}'),
  route('DELETE', '/sessions/{id}'),
  route('GET', '/{any}/events/{n}'),
  route('GET', '/sessions/{id}/{n}'),
])

/** The path of the route and its parameters, or the status of the problem and what it allows. */
function find(method: string, path: string): readonly unknown[] {
  try {
    const { route, parameters } = router.find(method, `/api/v1${path}`)
    return [route.path, Object.fromEntries(parameters)]
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return [error.status, ...error.headers]
  }
}

t.test('a segment that is spelled out wins over a parameter', async t => {
  const id = '64c06ef3-db81-45e8-9130-1f80a0fdf6ad'
  const cases: readonly (readonly [method: string, path: string, ...found: readonly unknown[]])[] = [
    ['GET', '/sessions', '/sessions', {}],
    ['HEAD', '/sessions', '/sessions', {}],
    ['GET', '/sessions/events', '/sessions/events', {}],
    ['DELETE', '/sessions/events', 405, 'Allow', 'GET, HEAD'],
    ['GET', `/sessions/${id}`, '/sessions/{id}', { id }],
    ['HEAD', `/sessions/${id}`, '/sessions/{id}', { id }],
    ['DELETE', `/sessions/${id}`, '/sessions/{id}', { id }],
    ['PATCH', `/sessions/${id}`, 405, 'Allow', 'GET, HEAD, DELETE'],
    ['POST', `/sessions/${id}/admit`, '/sessions/{id}/admit', { id }],
    ['GET', `/sessions/${id}/admit`, 405, 'Allow', 'POST'],
    ['GET', `/sessions/${id}/7`, '/sessions/{id}/{n}', { id, n: '7' }],
    ['GET', '/sessions/events/7', '/sessions/{id}/{n}', { id: 'events', n: '7' }],
    ['GET', '/other/events/7', '/{any}/events/{n}', { any: 'other', n: '7' }],
    ['GET', '/other/7', 404],
    ['GET', '/sessions/', 404],
    ['GET', '/sessions//admit', 404],
    ['GET', `/sessions/${id}/`, 404],
    ['GET', `/sessions/${id}/7/8`, 404],
    ['GET', '', 404],
  ]
  for (const [method, path, ...found] of cases) t.strictSame(find(method, path), found, `${method} ${path}`)
})

t.test('a parameter is percent-decoded once, and bounded', async t => {
  const cases = [
    ['Room%204', 'Room 4'],
    ['a%2Fb', 'a/b'],
    ['%2541', '%41'],
    ['%C3%A9', 'é'],
    ['..', '..'],
    ['{id}', '{id}'],
    ['__proto__', '__proto__'],
    ['x'.repeat(256), 'x'.repeat(256)],
  ] as const
  for (const [segment, id] of cases)
    t.strictSame(find('GET', `/sessions/${segment}`), ['/sessions/{id}', { id }], segment)
  for (const segment of ['%', '%4', '%zz', '%E0%A4', '%ff', '%C0%AF', 'x'.repeat(257)])
    t.strictSame(find('GET', `/sessions/${segment}`), [404], segment)
  t.strictSame(find('GET', '/s%65ssions'), [404], 'nothing else is decoded')
  t.strictSame(find('GET', `/sessions${'/x'.repeat(4_000)}`), [404])
})

t.test('methods that are allowed at a path, for a preflight', async t => {
  t.equal(router.allowed('/api/v1/sessions'), 'GET, HEAD')
  t.equal(router.allowed('/api/v1/sessions/1'), 'GET, HEAD, DELETE')
  t.throws(() => router.allowed('/api/v1/nothing'), { message: /^There is no resource/ })
  t.throws(() => router.find('GET', '/sessions'), {
    message: 'There is no resource at this path.',
  })
})
