import t from 'tap'
import { startTestService, type TestService } from '../support/service.ts'

/** A request to read the configuration with these header lines; the status, and what the answer says about it. */
async function ask(service: TestService, headers: readonly string[], query = ''): Promise<readonly [number, string]> {
  const lines = [...headers, 'Connection: close'].map(line => `${line}\r\n`).join('')
  const answer = await service.raw(Buffer.from(`GET /api/v1/system${query} HTTP/1.1\r\n${lines}\r\n`, 'latin1'))
  const description = /error_description="([^"]+)"/.exec(answer)?.[1] ?? ''
  return [Number(answer.split(' ', 2)[1]), description]
}

const basic = (text: string) => `Authorization: Basic ${Buffer.from(text).toString('base64')}`

t.test('two Authorization headers are refused, whatever is in them', async t => {
  const service = await startTestService(t)
  const good = `Authorization: Bearer ${service.key}`
  for (const [first, second] of [
    [good, good],
    [good, 'Authorization: Bearer x'],
    ['Authorization: Bearer x', good],
    ['Authorization:', good],
    [good, 'authorization:'],
  ] as const)
    t.strictSame(await ask(service, [first, second]), [400, ''], `${first.slice(0, 16)}, ${second.slice(0, 16)}`)
  t.strictSame(
    await ask(service, ['Authorization:', good], `?apiKey=${service.key}`),
    [400, ''],
    'the query heals nothing',
  )
  t.strictSame(await ask(service, ['Authorization:'], `?apiKey=${service.key}`), [200, ''], 'an empty one is none')
})
