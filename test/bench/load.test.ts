/** The clients that the bench trusts: they must notice if a server does not deliver every event once and in order. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const SOURCE = new URL('load.c', import.meta.url).pathname
const folder = temporaryFolder(t)
const program = join(folder, 'load')

const skip = needs('cc')
if (!skip) execFileSync('cc', ['-O1', '-o', program, SOURCE], { stdio: ['ignore', 'ignore', 'pipe'] })

/** The frames of the events with these numbers. */
const frames = (...numbers: number[]) =>
  numbers.map(n => `id: x\nevent: system.changed\ndata: {"deviceName":"bench-${String(n).padStart(8, '0')}"}\n\n`)

/** Publishes three events to two clients. With the third, the first client gets `first`, the second what it should. */
async function publishThree(t: Test, first: readonly string[], inPieces = false) {
  const streams: ServerResponse[] = []
  let published = 0
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    if (request.method === 'GET') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
      streams.push(response)
      return
    }
    response.end()
    if (++published < 3) return
    const second = frames(1, 2, 3).join('')
    if (inPieces) for (const character of second) streams[1]?.write(character)
    else streams[1]?.write(second)
    for (const frame of first) streams[0]?.write(frame)
    // load would wait for the missing events.
    if (first.length < 3) streams[0]?.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const subscribe = join(folder, 'subscribe')
  const publish = join(folder, 'publish')
  writeFileSync(subscribe, 'GET / HTTP/1.1\r\nHost: bench\r\n')
  writeFileSync(publish, 'POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: 8\r\n\r\n########')
  const load: ChildProcess = spawn(program, [String(port), 'stream', subscribe, publish])
  const output = { said: '', complained: '' }
  load.stdout?.on('data', text => {
    output.said += text
  })
  load.stderr?.on('data', text => {
    output.complained += text
  })
  load.stdin?.end('connect 2\npublish 3 0 1\n')
  const [status] = await once(load, 'close')
  return { status, ...output }
}

const CASES: readonly [what: string, sent: readonly string[], complaint: RegExp][] = [
  ['a lost event', [...frames(1, 3), ':\n\n'], /lost/],
  ['a duplicate event', frames(1, 1, 2, 3), /twice/],
  ['events out of order', frames(2, 1, 3), /out of order/],
  ['an event that nobody published', frames(1, 2, 4), /never sent/],
  ['a stream that ends', frames(1, 2), /has ended/],
]

for (const [what, sent, complaint] of CASES)
  t.test(`notices ${what}`, { skip }, async t => {
    const { status, complained } = await publishThree(t, sent)
    t.equal(status, 1)
    t.match(complained, complaint)
  })

t.test('counts events that come once and in order, also in pieces', { skip }, async t => {
  const { status, said } = await publishThree(t, frames(1, 2, 3), true)
  t.equal(status, 0)
  t.match(said, /"deliveries":6,/)
})
