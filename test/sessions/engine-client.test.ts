/** The engine's side of the socket, against a service that answers as the test says. */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openSession, SessionRefused } from '../../src/sessions/engine-client.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { PIXEL } from '../support/sessions.ts'

const OK = 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'
const GOING_ON = { ...PIXEL, state: 'active', id: 'an id', since: '2026-01-02T03:04:05Z' } as const

/** A service that writes these pieces, mostly to be read one by one, and then ends the connection if `ends`. */
async function answering(t: Test, pieces: readonly (string | Buffer)[], ends = true) {
  const path = join(temporaryFolder(t), 'engines')
  const requests: string[] = []
  const sockets: Socket[] = []
  const server = createServer(async socket => {
    sockets.push(socket.on('error', () => undefined))
    requests.push(String(await once(socket, 'data')))
    for (const piece of pieces) {
      socket.write(piece)
      await new Promise(resolve => setTimeout(resolve, 5))
    }
    if (ends) socket.end()
  })
  server.listen(path)
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { path, requests, sockets }
}

async function linesOf(path: string): Promise<object[]> {
  const { lines } = await openSession(path, PIXEL)
  const seen: object[] = []
  for await (const line of lines) seen.push(line)
  return seen
}

t.test('the request has the device, and the session that goes on', async t => {
  const { path, requests } = await answering(t, [OK])
  await openSession(path, GOING_ON)
  const body = JSON.stringify(GOING_ON)
  const head = `Host: engine\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close`
  t.strictSame(requests, [`POST /sessions HTTP/1.1\r\n${head}\r\n\r\n${body}`])
})

t.test('lines, however they arrive', async t => {
  const bytes = Buffer.from('{"state":"active","since":"é"}\n')
  const cut = bytes.indexOf(Buffer.from('é')) + 1
  const NO_SESSION = 'the response of the service is not a session'
  const long = (length: number) => JSON.stringify({ id: '' }).replace('""', `"${'x'.repeat(length - 9)}"`)
  const pending = { state: 'pending' }
  for (const [pieces, expected] of [
    [[OK], []],
    [[`${OK}{"state":"pending"}\n`], [pending]],
    [[OK, '{"state":', '"pending"}', '\n'], [pending]],
    [
      [OK, '{"state":"pending"}\n{"state":"pending"}\n{"state":"active"}\n{"sta', 'te":"ended"}\n'],
      [pending, pending, { state: 'active' }, { state: 'ended' }],
    ],
    [[OK, bytes.subarray(0, cut), bytes.subarray(cut)], [{ state: 'active', since: 'é' }]],
    [[OK, '{"state":"pending"}\n{"state":"active"}'], [pending]],
    [['HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"state":"pending"}\n'], [pending]],
    [[OK, '{"state":"pending"}\n', 'It works!\n'], NO_SESSION],
    [[OK, '\n'], NO_SESSION],
    [[OK, long(4_096), '\n'], [JSON.parse(long(4_096))]],
    [[OK, `${long(200_000)}\n`], NO_SESSION],
  ] as const) {
    const { path } = await answering(t, pieces)
    const label = String(pieces.slice(1)).slice(0, 60)
    const seen = linesOf(path)
    if (typeof expected !== 'string') t.strictSame(await seen, expected, label)
    else await t.rejects(seen, { constructor: SessionRefused, message: expected, isPassing: false }, label)
  }
})

t.test('refusals: the reason that the service gives, and whether it may change its mind', async t => {
  const NO_REASON = 'the service refused the session'
  const long = JSON.stringify({ detail: 'Not now.', filler: 'x'.repeat(5_000) })
  for (const [status, body, message, isPassing] of [
    [422, '{"detail":"/name: too long."}', '/name: too long.', false],
    [428, '{"detail":"é"}', 'é', false],
    [429, '{"detail":"Not now."}', 'Not now.', true],
    [430, '{"detail":"Not now."}', 'Not now.', false],
    [499, '{"detail":"Not now."}', 'Not now.', false],
    [500, '{"detail":"Not now."}', 'Not now.', true],
    [503, '{"detail":"Not now."}', 'Not now.', true],
    [201, '{"detail":"Not now."}', 'Not now.', false],
    [503, '{"detail":7}', NO_REASON, true],
    [503, '["detail"]', NO_REASON, true],
    [503, 'null', NO_REASON, true],
    [502, '<h1>Bad Gateway</h1>', NO_REASON, true],
    [404, '', NO_REASON, false],
    [503, long, NO_REASON, true],
  ] as const) {
    const { path, sockets } = await answering(
      t,
      [`HTTP/1.1 ${status} x\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`, body],
      false,
    )
    const what = `${status} ${body.slice(0, 30)}`
    await t.rejects(openSession(path, PIXEL), { constructor: SessionRefused, message, isPassing }, what)
    await eventually(() => sockets[0]?.closed)
  }
})

t.test('no service: the error of the socket', async t => {
  const path = join(temporaryFolder(t), 'engines')
  await t.rejects(openSession(path, PIXEL), { code: 'ENOENT' })
  for (const pieces of [[], ['HTTP/1.1 503 x\r\nContent-Length: 9\r\n\r\n{']]) {
    const cut = await answering(t, pieces)
    await t.rejects(openSession(cut.path, PIXEL), { code: 'ECONNRESET' }, `${pieces}`)
  }
})

t.test('the service hears when the device is gone', async t => {
  const { path, sockets } = await answering(t, [OK, '{"state":"active"}\n'], false)
  const link = await openSession(path, PIXEL)
  const lines = link.lines[Symbol.asyncIterator]()
  t.match(await lines.next(), { value: { state: 'active' } })
  link.close()
  t.match(await lines.next(), { done: true })
  await eventually(() => sockets[0]?.closed)
})
