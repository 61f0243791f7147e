import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** A client that never closes its side of the connection. */
class HalfOpen {
  readonly socket: Socket
  text = ''
  #timer: NodeJS.Timeout | undefined

  constructor(service: TestService, head: string, everySecond = '') {
    this.socket = connect({ port: service.port, host: '127.0.0.1', allowHalfOpen: true }, () => this.socket.write(head))
    this.socket.setEncoding('utf8').on('data', chunk => {
      this.text += chunk
    })
    this.socket.on('error', () => undefined)
    if (everySecond) this.#timer = setInterval(() => this.socket.write(everySecond), 1_000)
  }

  /** Resolves with what it received when the service has closed its side. */
  async answer(): Promise<string> {
    await Promise.race([once(this.socket, 'end'), once(this.socket, 'close')])
    clearInterval(this.#timer)
    return this.text
  }
}

const PATCH =
  'PATCH /api/v1/system HTTP/1.1\r\nHost: device\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n'

t.test('slow clients get a 408, and their connections are closed', async t => {
  const service = await startTestService(t, { env: { RECEIVERD_CONNECTIONS: '9' } })
  const credential = `Authorization: Bearer ${service.key}\r\n`
  const started = performance.now()
  const clients = {
    'sends nothing': new HalfOpen(service, ''),
    'sends half a line': new HalfOpen(service, 'GET /api/v1/hea'),
    'sends a header a second': new HalfOpen(service, 'GET /api/v1/health HTTP/1.1\r\nHost: device\r\n', 'a: b\r\n'),
    'sends a byte of its body a second': new HalfOpen(service, `${PATCH}${credential}\r\n{`, ' '),
    'sends a chunk of its body a second': new HalfOpen(
      service,
      `${PATCH.replace('Content-Length: 1000', 'Transfer-Encoding: chunked')}${credential}\r\n`,
      '1\r\n \r\n',
    ),
    'sends half of an optional body': new HalfOpen(
      service,
      `POST /api/v1/api-key HTTP/1.1\r\nHost: device\r\nContent-Type: application/json\r\nContent-Length: 9\r\n${credential}\r\n{`,
    ),
    'was refused before its body': new HalfOpen(service, `${PATCH}\r\n{`),
    'sends half a request after another': new HalfOpen(
      service,
      'GET /api/v1/health HTTP/1.1\r\nHost: device\r\n\r\nGET /',
    ),
  }
  const late = JSON.stringify({ deviceName: 'Late' })
  const head = PATCH.replace('1000', `${late.length}`)
  const tooLate = new HalfOpen(service, `${head}${credential}\r\n${late.slice(0, -1)}`)
  t.equal(
    await service.raw('GET /api/v1/health HTTP/1.1\r\nHost: device\r\n\r\n').catch(() => ''),
    '',
    'no connection is left',
  )

  const isRefused = tooLate.answer().then(answer => {
    t.match(answer, /^HTTP\/1\.1 408 /)
    tooLate.socket.write(late.slice(-1))
  })
  await Promise.all(
    Object.entries(clients).map(async ([name, client]): Promise<void> => {
      const answer = await client.answer()
      const seconds = (performance.now() - started) / 1000
      const hasBody = name.includes('body')
      t.ok(seconds > (hasBody ? 14 : 9) && seconds < 50, `${name}: ${seconds} s`)
      if (name.includes('refused'))
        t.strictSame(answer.match(/HTTP\/1.1 \d+/g), ['HTTP/1.1 401'], `${name}: one answer to one request`)
      else t.match(answer, /HTTP\/1\.1 408 Request Timeout\r\n.*application\/problem\+json.*"status":408/s, name)
    }),
  )
  await isRefused
  // They closed nothing, so each of them kept its place for a second after its answer.
  const { value } = await eventually(() => service.system().catch(() => undefined))
  t.equal(value.deviceName, 'Meeting Room 4', 'their connections are free, and a change that was refused is not made')
  for (const { socket } of [...Object.values(clients), tooLate]) socket.destroy()
})
