/** Behind nginx with TLS, by the configuration that the README has. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { get, request } from 'node:https'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { type Receiver, startReceiver } from './support.ts'

const NGINX = ['/usr/sbin/nginx', '/usr/bin/nginx'].find(existsSync)
const [, CONFIGURATION = ''] = /```nginx\n(.*?)```/s.exec(readFileSync(join(REPOSITORY, 'README.md'), 'utf8')) ?? []

/** nginx in front of a receiver; resolves with its port. */
async function startNginx(t: Test, receiver: Receiver): Promise<number> {
  const folder = temporaryFolder(t)
  const port = await freePort()
  const files = { crt: join(folder, 'crt'), key: join(folder, 'key') }
  const subject = ['-subj', '/CN=localhost', '-keyout', files.key, '-out', files.crt]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', ...subject], {
    stdio: 'pipe',
  })
  const server = CONFIGURATION.replace('443', `127.0.0.1:${port}`)
    .replace('/etc/ssl/receiver.crt', files.crt)
    .replace('/etc/ssl/receiver.key', files.key)
    .replace('127.0.0.1:8080', `127.0.0.1:${receiver.port}`)
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path ${folder}/${name};`)
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; pid ${folder}/pid; error_log stderr; events {} http { access_log off; ${paths.join(' ')} ${server} }`,
  )
  const nginx = spawn(NGINX ?? '', ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')], {
    stdio: 'ignore',
  })
  t.teardown(() => nginx.kill())
  await eventually(() =>
    ask(port, receiver, '/health')
      .then(({ status }) => status === 200)
      .catch(() => false),
  )
  return port
}

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

t.test('a stream passes unbuffered, a poll is held', { skip: !NGINX && 'nginx is not installed' }, async t => {
  const receiver = await startReceiver(t)
  const port = await startNginx(t, receiver)
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
  for (const deviceName of ['One', 'Two']) {
    const began = performance.now()
    await receiver.patch({ deviceName })
    await eventually(() => seen.includes(`"${deviceName}"`))
    t.ok(performance.now() - began < 1_000, 'at once')
  }
  t.match(await poll, { status: 200, body: '"One"' })
  stream.destroy()
})
