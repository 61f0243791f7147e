import t from 'tap'
import { startTestService } from '../support/service.ts'

t.test('a device without TLS has no certificate', async t => {
  const service = await startTestService(t)
  const json = { 'Content-Type': 'application/json' }
  const pem = { 'Content-Type': 'application/pem-certificate-chain' }
  const requests: readonly (readonly [path: string, init: RequestInit])[] = [
    ['/certificate/request', { method: 'POST' }],
    ['/certificate/request', { method: 'POST', headers: json, body: 'not read' }],
    ['/certificate', { method: 'PUT', headers: pem, body: 'not read' }],
    ['/certificate', { method: 'DELETE' }],
  ]
  for (const [path, init] of requests) {
    const answer = await service.fetch(path, init)
    t.equal(answer.status, 409)
    t.match(await answer.json(), { detail: 'This device does not answer by TLS, so it has no certificate.' })
    t.equal((await service.fetchAs(service.token(['admin:r', 'moderator:rw']), path, init)).status, 403)
    t.equal((await service.fetchAs(service.token(['admin:w']), path, init)).status, 409)
  }
  t.equal((await service.fetch('/certificate')).status, 405)
})
