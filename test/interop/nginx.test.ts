/** Behind nginx with TLS, with the configuration of the package's README and with the one that ships. */
import { get, request } from 'node:https'
import t, { type Test } from 'tap'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { needs } from '../support/needs.ts'
import { run } from '../support/run.ts'
import { startNginx, startShippedNginx } from './nginx.ts'
import { type Receiver, startReceiver } from './support.ts'

const skip = needs('nginx')

const options = (port: number, { key }: Receiver, path: string, headers: Record<string, string> = {}) => ({
  port,
  path: `/api/v1${path}`,
  rejectUnauthorized: false,
  headers: { Authorization: `Bearer ${key}`, ...headers },
  signal: AbortSignal.timeout(DEADLINE_MS),
})

function ask(port: number, receiver: Receiver, path: string, headers: Record<string, string> = {}) {
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    get(options(port, receiver, path, headers), response => {
      let body = ''
      response.setEncoding('utf8').on('data', chunk => {
        body += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode, body }))
    }).on('error', reject)
  })
}

const starts: [what: string, start: (t: Test, receiver: Receiver) => Promise<number>][] = [
  ['the README', (t, receiver) => startNginx(t, receiver)],
  ['the package', async (t, receiver) => (await startShippedNginx(t, receiver)).port],
]

for (const [what, start] of starts)
  t.test(`${what}: a stream passes unbuffered, and a poll is held`, { skip }, async t => {
    const receiver = await startReceiver(t)
    const port = await start(t, receiver)
    const { etag, id } = await receiver.system()
    t.equal((await ask(port, receiver, '/system')).status, 200)

    let seen = ''
    const stream = request(options(port, receiver, '/events', { Accept: 'text/event-stream', 'Last-Event-ID': id }))
    stream.on('response', response =>
      response.setEncoding('utf8').on('data', chunk => {
        seen += chunk
      }),
    )
    stream.on('error', () => undefined)
    stream.end()
    const poll = ask(port, receiver, '/events', { 'If-None-Match': etag, Prefer: 'wait=60' })
    const took: number[] = []
    for (const deviceName of ['One', 'Two']) {
      const began = performance.now()
      await receiver.patch({ deviceName })
      await eventually(() => seen.includes(`"${deviceName}"`))
      took.push(performance.now() - began)
    }
    t.ok(Math.min(...took) < 1_000 && Math.max(...took) < 10_000, `at once, and not with a heartbeat: ${took} ms`)
    t.match(await poll, { status: 200, body: '"One"' })
    stream.destroy()
  })

t.test('the package: refusals are problems, those of nginx, too', { skip }, async t => {
  const receiver = await startReceiver(t, { env: { RECEIVERD_STREAMS_PER_ADDRESS: '512' } })
  const { port, plainPort } = await startShippedNginx(t, receiver)
  const curl = async (...args: readonly string[]) => (await run('curl', ['-ksS', '-i', ...args])).stdout
  const api = `https://127.0.0.1:${port}/api/v1`
  const auth = ['-H', `Authorization: Bearer ${receiver.key}`]
  t.match(await curl('--http2', `${api}/health`), /^HTTP\/2 200/)
  t.match(
    await curl(`http://127.0.0.1:${plainPort}/api/v1/system?a=%20b`),
    /^HTTP\/1\.1 308 [\s\S]*^Location: https:\/\/127\.0\.0\.1\/api\/v1\/system\?a=%20b\r/m,
  )
  const large = ['-X', 'PATCH', '-H', 'Content-Type: application/json', '-d', `"${'x'.repeat(70_000)}"`]
  t.match(await curl(...auth, ...large, `${api}/system`), /413 [\s\S]*"urn:receiverd:problem:body-too-large"/)

  const answers: Awaited<ReturnType<typeof ask>>[] = []
  const poll = async () =>
    answers.push(await ask(port, receiver, '/events', { Prefer: 'wait=60', 'If-None-Match': '*' }))
  const polls = Array.from({ length: 100 }, poll)
  await eventually(() => answers.length === 4)
  const held = async () => ((await (await receiver.fetch('/status')).json()) as { heldPolls: number }).heldPolls
  await eventually(async () => (await held()) === 96)
  // Ends them.
  await receiver.patch({ deviceName: 'Over' })
  await Promise.all(polls)
  const refused = answers.filter(({ status }) => status === 429)
  t.equal(refused.length, 4)
  for (const { body } of refused) t.match(JSON.parse(body), { type: /:too-many-streams$/, status: 429 })

  await receiver.stop()
  const down = await curl(`${api}/health`)
  t.match(down, /^HTTP\/2 503/)
  t.match(down, /^content-type: application\/problem\+json\r$[\s\S]*^retry-after: 5\r$[\s\S]*:unavailable"/im)
})
