import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { RtspConnection } from './rtsp.ts'

/** A receiver that answers each request with the next of `answers`, and the requests that it got. */
async function serve(t: Test, ...answers: readonly string[]) {
  const requests: string[] = []
  const sockets: Socket[] = []
  const server = createServer(socket => {
    sockets.push(socket)
    socket.setEncoding('latin1').on('data', text => {
      requests.push(String(text))
      const answer = answers[requests.length - 1]
      if (answer === undefined) return
      // In two parts, as a network may deliver it.
      socket.write(answer.slice(0, 20))
      setTimeout(() => socket.write(answer.slice(20)), 10)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const open = (options = {}) => RtspConnection.open({ host: '127.0.0.1', port, timeoutMs: 5_000, ...options })
  return { server, requests, open }
}

t.test('requests, one after the other', async t => {
  const { requests, open } = await serve(
    t,
    'RTSP/1.0 200 OK\r\nServer: a: b\r\nContent-Length: 5\r\n\r\nhello',
    'RTSP/1.0 409 Conflict: Server is connected\r\n\r\n',
  )
  const rtsp = await open()
  const [first, second] = await Promise.all([
    rtsp.request('POST', '/feedback', Buffer.from('body')),
    rtsp.request('GET', '/info'),
  ])
  t.match(first, { status: 200, reason: 'OK', headers: { server: 'a: b' } })
  t.equal(first.body.toString(), 'hello')
  t.match(second, { status: 409, reason: 'Conflict: Server is connected' })
  t.match(requests[0], /^POST \/feedback RTSP\/1\.0\r\nCSeq: 0\r\n(.+\r\n)*Content-Length: 4\r\n\r\nbody$/)
  t.match(requests[1], /^GET \/info RTSP\/1\.0\r\nCSeq: 1\r\n(.+\r\n)*\r\n$/)
})

t.test('a challenge is answered once, by digest', async t => {
  const challenge = 'RTSP/1.0 401 Unauthorized\r\nWWW-Authenticate: Digest realm="raop", nonce="abc"\r\n\r\n'
  const { requests, open } = await serve(t, challenge, 'RTSP/1.0 200 OK\r\n\r\n', challenge)
  const rtsp = await open({ password: 'secret' })
  t.equal((await rtsp.request('GET', '/info')).status, 200)
  const md5 = (text: string) => createHash('md5').update(text).digest('hex')
  const response = md5(`${md5('AirPlay:raop:secret')}:abc:${md5('GET:/info')}`)
  t.match(requests[1], `Digest username="AirPlay", realm="raop", nonce="abc", uri="/info", response="${response}"`)
  t.equal((await rtsp.request('GET', '/info')).status, 401, 'the wrong password')
})

t.test('the end of the connection is told, and rejects what waits', async t => {
  const { server, open } = await serve(t)
  server.once('connection', socket => socket.once('data', () => socket.end()))
  const rtsp = await open()
  const closed = once(rtsp, 'closed')
  const answer = rtsp.request('GET', '/info')
  await t.rejects(answer, { message: 'FIN' })
  t.same(await closed, ['FIN'])
  t.equal(rtsp.closed, 'FIN')
  await t.rejects(rtsp.request('GET', '/info'), { message: 'FIN' })
})

t.test('silence is given up', async t => {
  const { open } = await serve(t)
  const rtsp = await open({ timeoutMs: 1_000 })
  await t.rejects(rtsp.request('GET', '/info'), { message: 'no answer to GET /info' })
})
