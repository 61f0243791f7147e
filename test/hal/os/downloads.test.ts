/** The protocol between the service and the unit that has a network, in case one of them is of another version. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { DownloadError, Downloads } from '../../../hal/os/downloads.ts'
import { temporaryFolder } from '../../support/folder.ts'

const UNIT = 'build/package/download'
const HELLO = 'receiverd-download 1\n'
const URL = 'https://updates.example.net/b'
const IDLE_MS = 500
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n'

/** A socket that systemd would listen on. */
async function unit(t: Test, serve: (socket: Socket) => void, idleMs = 60_000): Promise<Downloads> {
  const path = join(temporaryFolder(t), 'socket')
  const sockets: Socket[] = []
  const server = createServer(socket => {
    sockets.push(socket.on('error', () => undefined))
    serve(socket)
  }).listen(path)
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return new Downloads(path, idleMs)
}

/** Both that the service asks for. @returns how each failed. */
async function failures(downloads: Downloads): Promise<readonly string[]> {
  const asked = [
    downloads.bundle({ url: URL, max: 10 }),
    downloads.manifest({ url: URL, keyring: '/k', purpose: 'any', isAsOfSigning: false }),
  ]
  return Promise.all(
    asked.map(answer =>
      answer.then(
        () => 'no failure',
        error => (error instanceof DownloadError ? `${error.message} (${error.isTransient})` : String(error)),
      ),
    ),
  )
}

t.test('a unit of another version, or that is stuck, is a failure that says so', async t => {
  const cases: readonly (readonly [name: string, serve: (socket: Socket) => void, message: RegExp])[] = [
    ['it ends without a word', socket => void socket.once('data', () => socket.destroy()), /another version.*true/],
    ['it is one too many', socket => void socket.destroy(), /busy, or of another version.*true/],
    ['it waits for more', socket => void socket.resume(), /did not answer.*true/],
    ['it answers as it did before', socket => void socket.write(`${OK}\r\n`), /is of another version.*false/],
    ['it answers as a later one', socket => void socket.end('receiverd-download 2\n'), /is of another version.*false/],
    ['it refuses', socket => void socket.end('error version\n'), /is of another version.*false/],
    ['it falls silent', socket => void socket.write(HELLO), /too slow.*true/],
    ['it falls silent in the middle', socket => void socket.write(`${HELLO}HTTP/1.1 20`), /too slow.*true/],
    ['it is killed', socket => void socket.end(HELLO), /broke off|connection failed.*true/],
    ['it fails in a way that is not known', socket => void socket.end(`${HELLO}error later\n`), /connection failed/],
  ]
  for (const [name, serve, message] of cases) {
    const idleMs = /^it (waits for more|falls silent)/.test(name) ? IDLE_MS : undefined
    for (const failure of await failures(await unit(t, serve, idleMs))) t.match(failure, message, name)
  }
})

t.test('the unit tells a service of another version so, and does not wait for it', async t => {
  const requests = [
    ['bundle', URL, '10', '0', ''],
    ['manifest', URL, '/k', 'any'],
    ['receiverd-download 2', 'bundle', URL],
  ]
  for (const lines of requests) {
    // Its input stays open.
    const child = spawn('sh', [UNIT], { stdio: ['pipe', 'pipe', 'inherit'] })
    child.stdin.write(`${lines.join('\n')}\n`)
    const [said] = await once(child.stdout, 'data')
    const [status] = await once(child, 'exit')
    t.strictSame([`${said}`, status], ['error version\n', 0], lines.join())
  }
  const { stdout } = spawnSync('sh', [UNIT], { input: `${HELLO}bundle\nhttp://"/\n` })
  t.equal(`${stdout}`, `${HELLO}error 3\n`, 'one of this version is served')
})

t.test('a body comes as far as it comes, and ends when it stands still', async t => {
  const whole = await unit(t, socket => void socket.write(`${HELLO}${OK}ETag: "a"\r\n\r\nab`), IDLE_MS)
  const answer = await whole.bundle({ url: URL, max: 10 })
  t.match(answer, { bytes: 4, offset: 0, etag: '"a"' })
  const chunks: Buffer[] = []
  for await (const chunk of answer.body) chunks.push(chunk)
  t.equal(Buffer.concat(chunks).toString(), 'ab')
})

t.test('a connection that breaks off between the head and the body adds nothing to the bundle', async t => {
  const heads = {
    0: 'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n',
    5: 'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-19/20\r\nContent-Length: 15\r\n',
  }
  for (const [offset, head] of Object.entries(heads)) {
    const web = createServer(socket => {
      socket.on('error', () => undefined).once('data', () => socket.end(`${head}ETag: "a"\r\n\r\n`))
    }).listen(0, '127.0.0.1')
    t.teardown(() => web.close())
    await once(web, 'listening')
    const { port } = web.address() as AddressInfo
    const downloads = await unit(t, socket => {
      const { stdin, stdout } = spawn('sh', [UNIT], { stdio: ['pipe', 'pipe', 'inherit'] })
      socket.pipe(stdin.on('error', () => undefined))
      stdout.pipe(socket)
    })
    const from = { offset: Number(offset), etag: '"a"' }
    const answer = await downloads.bundle({
      url: `http://127.0.0.1:${port}/`,
      max: 20,
      ...(from.offset > 0 && { from }),
    })
    t.match(answer, { bytes: 20, offset: from.offset })
    const chunks: Buffer[] = []
    for await (const chunk of answer.body) chunks.push(chunk)
    t.equal(Buffer.concat(chunks).toString(), '', offset)
    answer.close()
  }
})

t.test('answers that lead to the final one are passed over', async t => {
  const before = 'HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 302 Found\r\nDate: x\r\nlocation: /c\r\n\r\n'
  const downloads = await unit(t, socket => void socket.write(`${HELLO}${before}${OK}\r\nabcd`))
  const answer = await downloads.bundle({ url: URL, max: 10 })
  t.match(answer, { bytes: 4, offset: 0 })
  answer.close()
})

t.test('failures that pass are told from others', async t => {
  for (const [status, isServerBusy] of [
    [503, true],
    [429, true],
    [502, true],
    [404, false],
    [403, false],
    [501, false],
    [304, false],
    [300, false],
  ] as const) {
    const downloads = await unit(t, socket => void socket.write(`${HELLO}HTTP/1.1 ${status} No\r\n\r\n`))
    const error = await downloads.bundle({ url: URL, max: 10 }).catch(error => error)
    t.match(error, { isServerBusy, isTransient: isServerBusy }, `${status}`)
  }
})

t.test('a request is given up when its caller wants no more of it', async t => {
  let ended: Promise<unknown> | undefined
  const giveUp = new AbortController()
  const downloads = await unit(t, socket => {
    ended = once(socket.resume(), 'close')
    giveUp.abort()
  })
  await t.rejects(downloads.bundle({ url: URL, max: 10, signal: giveUp.signal }), { message: /broke off/ })
  await ended
})
