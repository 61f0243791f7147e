import t from 'tap'
import { startTestService } from '../support/service.ts'

t.test('any valid credential is told what it grants, and nothing else', async t => {
  const service = await startTestService(t)
  await service.patch({ deviceName: 'Aula 3' })
  const read = async (credential: string) => {
    const answer = await service.fetchAs(credential, '/credential')
    return [answer.status, await answer.json()]
  }
  const deviceName = 'Aula 3'
  t.strictSame(await read(service.key), [
    200,
    { kind: 'api-key', grants: ['admin:r', 'admin:w', 'moderator:r', 'moderator:w'], deviceName },
  ])
  t.strictSame(
    await read(service.token(['moderator:wr', 'moderator:r', 'admin:r'], { sub: 'panel-4', exp: 4_000_000_000.5 })),
    [
      200,
      {
        kind: 'token',
        grants: ['admin:r', 'moderator:r', 'moderator:w'],
        subject: 'panel-4',
        expiresAt: '2096-10-02T07:06:40Z',
        deviceName,
      },
    ],
  )
  t.strictSame(await read(service.token([])), [200, { kind: 'token', grants: [], deviceName }], 'grants nothing')
  t.strictSame(
    await read(service.token(['admin:r'], { exp: 1e300 })),
    [200, { kind: 'token', grants: ['admin:r'], deviceName }],
    'an expiry that no date can tell',
  )
  t.equal((await service.fetchAs(service.token([], { exp: 1 }), '/credential')).status, 401)
  t.equal((await service.fetchAs('', '/credential')).status, 401)
})
