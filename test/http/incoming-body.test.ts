/** A body that the handler takes as it arrives. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Authenticator } from '../../src/auth/authenticator.ts'
import { mint } from '../../src/auth/jwt.ts'
import { json } from '../../src/http/reply.ts'
import type { Route, StreamRules } from '../../src/http/route.ts'
import { Router } from '../../src/http/router.ts'
import { HttpServer } from '../../src/http/server.ts'
import { Problem } from '../../src/problem.ts'
import { ManualClock } from '../support/clock.ts'
import { NO_ISSUERS } from '../support/credential.ts'
import { eventually } from '../support/eventually.ts'

const KEY = 'A'.repeat(43)
const GIB = 1024 ** 3
const docs = { operationId: '', summary: '', answers: {} }

/** A server whose route counts bytes, and holds them up until it is let go. */
async function startServer(t: Test, rules: Partial<StreamRules> = {}) {
  const clock = new ManualClock()
  const options = { clock, log: () => undefined, builtAt: 0, leewayS: 0, ...NO_ISSUERS }
  const authenticator = new Authenticator(KEY, options)
  const taken: number[] = []
  const ended: string[] = []
  let letGo: () => void = () => undefined
  let held: Promise<void> | undefined
  const route: Route = {
    method: 'PUT',
    path: '/file',
    needs: 'admin:w',
    body: {
      accepts: ['application/octet-stream'],
      maxBytes: GIB,
      stallMs: 60_000,
      totalMs: 60_000,
      precondition: request => {
        if (request.header('if-match')) throw new Problem('precondition-failed', 'It has changed.')
      },
      ...rules,
    },
    handle: async ({ incoming }) => {
      try {
        for await (const chunk of incoming?.chunks() ?? []) {
          taken.push(chunk.length)
          await held
        }
      } catch (error) {
        ended.push(error instanceof Problem ? `${error.status} ${error.message}` : String(error))
        throw error
      }
      return json(Buffer.from(JSON.stringify(sum(taken))))
    },
    docs,
  }
  const server = new HttpServer({
    ...options,
    router: new Router([route]),
    authenticator,
    origins: '*',
    connections: 100,
    connectionsPerAddress: 100,
    timeoutCheckMs: 100,
  })
  const port = Number(new URL(await server.listen({ host: '127.0.0.1', port: 0 })).port)
  t.teardown(() => server.close(() => undefined))
  return {
    server,
    port,
    clock,
    authenticator,
    taken,
    ended,
    hold: () => {
      held = new Promise(resolve => {
        letGo = resolve
      })
    },
    letGo: () => letGo(),
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0)

/** A client that sends what it is told, and collects the answer. */
class Client {
  readonly socket: Socket
  text = ''

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    this.socket.setEncoding('latin1').on('data', chunk => {
      this.text += chunk
    })
    this.socket.on('error', () => undefined)
  }

  send(headers: readonly string[], body: string | Buffer = '', credential = KEY): this {
    const head = ['PUT /api/v1/file HTTP/1.1', 'Host: device', `Authorization: Bearer ${credential}`, ...headers]
    this.socket.write(`${head.join('\r\n')}\r\n\r\n`)
    this.socket.write(body)
    return this
  }

  /** All answers, once the server has ended the connection. */
  async ended(): Promise<string> {
    if (!this.socket.readableEnded && !this.socket.destroyed)
      await Promise.race([once(this.socket, 'end'), once(this.socket, 'close')])
    this.socket.destroy()
    return this.text
  }
}

const TYPE = 'Content-Type: application/octet-stream'
const sized = (length: number) => [TYPE, `Content-Length: ${length}`]

t.test('refusals come before any byte of the body, and the rest is not read', async t => {
  const { port, taken } = await startServer(t, { maxBytes: 1_000_000 })
  const cases: readonly (readonly [name: string, headers: readonly string[], status: number, credential?: string])[] = [
    ['no credential that holds', sized(900_000), 401, 'B'.repeat(43)],
    ['no grant', sized(900_000), 403, mint(KEY, { roles: ['admin:r'] })],
    ['a precondition, before the media type', ['Content-Length: 900000', 'If-Match: "x"'], 412],
    ['a media type, before the length', ['Content-Type: text/plain', 'Transfer-Encoding: chunked'], 415],
    ['compressed', [...sized(900_000), 'Content-Encoding: gzip'], 415],
    ['in chunks', [TYPE, 'Transfer-Encoding: chunked'], 411],
    ['no length', [TYPE], 411],
    ['nothing', sized(0), 400],
    ['too large', sized(GIB), 413],
    ['too large, and it waits to be asked', [...sized(GIB), 'Expect: 100-continue'], 413],
  ]
  for (const [name, headers, status, credential] of cases) {
    const client = new Client(port).send([...headers, 'Connection: close'], '', credential)
    t.match(await client.ended(), new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*application/problem\\+json`), name)
  }
  t.same(taken, [])

  // A client that sends without looking: it can get rid of no more than the kernel's buffers hold.
  const blind = new Client(port).send(sized(GIB))
  const chunk = Buffer.alloc(1024 * 1024)
  const push = () => {
    while (!blind.socket.destroyed && blind.socket.write(chunk));
  }
  blind.socket.on('drain', push)
  push()
  await eventually(() => blind.text.includes('HTTP/1.1 413 '))
  await eventually(() => blind.socket.destroyed)
  const left = blind.socket.bytesWritten - blind.socket.writableLength
  t.ok(left < 64 * 1024 * 1024, `${left} bytes were sent`)
})

t.test('a client is asked for the body when the handler takes it, and the connection goes on', async t => {
  const { port } = await startServer(t)
  const client = new Client(port).send([...sized(4), 'Expect: 100-continue'])
  await eventually(() => client.text === 'HTTP/1.1 100 Continue\r\n\r\n')
  client.socket.write('body')
  await eventually(() => client.text.endsWith('\r\n\r\n4'))
  client.send(sized(3), 'abc')
  await eventually(() => client.text.endsWith('\r\n\r\n7'))
  client.send([...sized(2), 'Connection: close'], 'deGET')
  t.equal((await client.ended()).split('HTTP/1.1 200').length, 4, 'later bytes are no part of the body')
})

t.test('bytes that are not taken stay with the client', async t => {
  const { port, taken, hold, letGo } = await startServer(t)
  hold()
  const length = 64 * 1024 * 1024
  // Other tests of this process have buffers, too.
  const others = process.memoryUsage().arrayBuffers
  const client = new Client(port).send(sized(length), Buffer.alloc(length))
  await eventually(() => taken.length === 1)
  let written = -1
  await eventually(() => {
    const before = written
    written = client.socket.bytesWritten - client.socket.writableLength
    return before === written
  })
  t.equal(taken.length, 1)
  const buffers = process.memoryUsage().arrayBuffers - others
  t.ok(buffers < length + 16 * 1024 * 1024, 'one copy of the body, which is the client’s')
  letGo()
  await eventually(() => client.text.endsWith(String(length)))
  t.ok(Math.max(...taken) <= 256 * 1024, `at most ${Math.max(...taken)} bytes at once`)
  client.socket.destroy()
})

t.test('a client that stalls, or takes too long, gets a 408; slowness alone is no offence', async t => {
  const stall = await startServer(t, { stallMs: 300 })
  const stalled = new Client(stall.port).send(sized(10), 'abc')
  t.match(await stalled.ended(), /^HTTP\/1\.1 408 [\s\S]*No byte of the body has arrived for 0\.3 s/)

  const patient = await startServer(t, { stallMs: 4_000 })
  const slow = new Client(patient.port).send(sized(10))
  for (let n = 0; n < 10; n++) {
    const before = sum(patient.taken)
    slow.socket.write('x')
    await eventually(() => sum(patient.taken) > before)
    await sleep(500)
  }
  await eventually(() => slow.text.startsWith('HTTP/1.1 200 '))
  slow.socket.destroy()

  const total = await startServer(t, { totalMs: 300 })
  const endless = new Client(total.port).send(sized(1_000_000))
  const timer = setInterval(() => endless.socket.write('x'), 20)
  t.match(await endless.ended(), /^HTTP\/1\.1 408 [\s\S]*must arrive within/)
  clearInterval(timer)
})

t.test('a body that is cut short says so to the handler', async t => {
  const { port, taken, ended } = await startServer(t)
  for (const leave of ['destroy', 'resetAndDestroy', 'end'] as const) {
    const client = new Client(port).send(sized(10), 'abc')
    await eventually(() => sum(taken.splice(0)) === 3)
    client.socket[leave]()
    await eventually(() => ended.length === 1)
    t.same(ended.splice(0), ['400 The body was cut short.'], leave)
    client.socket.destroy()
  }
})

t.test('a credential that ends meanwhile ends the body with it', async t => {
  const { port, authenticator, clock, taken, ended } = await startServer(t)
  const exp = Math.floor(clock.now() / 1000) + 60
  for (const revoke of [() => clock.step(120_000), () => authenticator.replaceKey('C'.repeat(43))]) {
    const credential = mint(KEY, { roles: ['admin:w'], ...(ended.length === 0 && { exp }) })
    const client = new Client(port).send(sized(10), 'abc', credential)
    await eventually(() => sum(taken.splice(0)) === 3)
    revoke()
    client.socket.write('d')
    t.match(await client.ended(), /^HTTP\/1\.1 401 /)
  }
})

t.test('a stop does not wait for a body', async t => {
  const { port, server, taken } = await startServer(t)
  const client = new Client(port).send(sized(10), 'abc')
  await eventually(() => taken.length > 0)
  await server.close(() => undefined)
  t.match(await client.ended(), /^HTTP\/1\.1 503 [\s\S]*Retry-After: 5[\s\S]*shutting down/)
})
