/** Advice to a client that made an easy mistake. */
import t from 'tap'
import { mint } from '../../src/auth/jwt.ts'
import { startTestService } from '../support/service.ts'

t.test('a misspelled parameter does not make a change permanent', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  const detail = async (query: string) => {
    const answer = await service.patch({ hostname: 'other' }, {}, query)
    t.equal(answer.status, 400, query)
    return ((await answer.json()) as { detail: string }).detail
  }
  t.equal(await detail('?confirmwithin=60'), 'The query has an unknown parameter; did you mean confirmWithin?')
  t.equal(await detail('?x=1'), 'The query has an unknown parameter; known are apiKey, confirmWithin, validateOnly.')
  t.notMatch(await detail(`?${service.key}`), service.key, 'it may be a credential in the wrong place')
  t.equal((await service.system()).id, id)
  t.equal((await service.fetch('/system?_=1')).status, 200, 'a request that only reads may have more')
})

t.test('a token of the key that is made wrong', async t => {
  const service = await startTestService(t)
  for (const claims of [{}, { roles: 'admin:r' }, { roles: ['admin'] }, { roles: [], exp: '8h' }]) {
    const answer = await service.fetchAs(mint(service.key, claims))
    t.equal(answer.status, 401)
    t.match(await answer.json(), {
      detail: /^The token is malformed\. It must be signed with HS256, its roles must be a list/,
    })
  }
})

t.test('a wrong path', async t => {
  const service = await startTestService(t)
  for (const [path, meant] of [
    ['/sytem', '; did you mean /api/v1/system?'],
    ['/system/', '; did you mean /api/v1/system?'],
    ['/lamps', '. GET /api/v1/openapi.json lists them all.'],
  ])
    t.match(await (await service.fetch(path ?? '')).json(), { detail: `There is no resource at this path${meant}` })
})

t.test('a weak ETag in If-Match, an empty body, a coding that nobody decodes', async t => {
  const service = await startTestService(t)
  const { etag } = await service.system()
  const weak = await service.patch({ deviceName: 'x' }, { 'If-Match': `W/${etag}` })
  t.equal(weak.status, 412)
  t.match(await weak.json(), { detail: 'If-Match names a weak ETag, which matches nothing. Send it without W/.' })
  t.match(await (await service.patch('')).json(), { status: 400, detail: 'The body is empty.' })
  const coded = await service.raw(
    `PATCH /api/v1/system HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.key}\r\nConnection: close\r\n` +
      'Content-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
  )
  t.match(coded, /^HTTP\/1\.1 501 /)
  t.strictSame(service.said, [], 'no error of the device')
})
