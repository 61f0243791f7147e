/** nginx with TLS in front of a receiver: with the configuration of the package's README, or with the one that ships. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import type { Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { examples, readText } from '../support/readme.ts'
import type { Receiver } from './support.ts'

export const NGINX = ['/usr/sbin/nginx', '/usr/bin/nginx'].find(existsSync)
const [CONFIGURATION = ''] = examples('build/package/README.md', 'TLS', 'nginx')
const SHIPPED = readText('build/package/nginx.conf')
const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']

/**
 * Starts nginx in front of a receiver; resolves with its port.
 * @param prefix A path under which it serves the receiver.
 */
export async function startNginx(t: Test, receiver: Receiver, prefix?: string): Promise<number> {
  const folder = temporaryFolder(t)
  const port = await freePort()
  const server = replaced(CONFIGURATION, {
    '443': `127.0.0.1:${port}`,
    '/etc/ssl/receiver.crt': `${folder}/crt`,
    '/etc/ssl/receiver.key': `${folder}/key`,
    '127.0.0.1:8080': `127.0.0.1:${receiver.port}${prefix === undefined ? '' : '/'}`,
    'location /': `location ${prefix ?? '/'}`,
  })
  await start(t, folder, port, `pid ${folder}/pid; events {} http { access_log off; ${temporary(folder)} ${server} }`)
  return port
}

/** Starts nginx as `receiverd-tls` does; resolves with its ports. */
export async function startShippedNginx(t: Test, receiver: Receiver) {
  const folder = temporaryFolder(t)
  const [port, plainPort] = [await freePort(), await freePort()]
  const configuration = configurationOfNginx(folder, {
    'user www-data;': '',
    '/etc/receiverd/tls/certificate.pem': `${folder}/crt`,
    '/etc/receiverd/tls/key.pem': `${folder}/key`,
    'server 127.0.0.1:8080': `server 127.0.0.1:${receiver.port}`,
    'listen 80;': `listen 127.0.0.1:${plainPort};`,
    // As nginx before 1.25.1 has it.
    'listen 443 ssl;': `listen 127.0.0.1:${port} ssl http2;`,
  })
  await start(t, folder, port, configuration)
  return { port, plainPort }
}

/**
 * The configuration that ships, for a test.
 * @param folder For nginx's files.
 * @param replacements Texts in it, and their replacements.
 */
export function configurationOfNginx(folder: string, replacements: Readonly<Record<string, string>>): string {
  return replaced(SHIPPED, {
    'pid /run/nginx.pid;': `pid ${folder}/pid;`,
    'include /run/receiverd-tls/http.ipv6*;': '',
    'include /run/receiverd-tls/https.ipv6*;': '',
    'http2 on;': '',
    'access_log off;': `${temporary(folder)} access_log off;`,
    ...replacements,
  })
}

/** Each text replaced, which must be there. */
function replaced(text: string, replacements: Readonly<Record<string, string>>): string {
  return Object.entries(replacements).reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`the configuration of nginx has no ${from}`)
    return text.replace(from, to)
  }, text)
}

function temporary(folder: string): string {
  return TEMPORARY.map(name => `${name}_temp_path ${folder}/${name};`).join(' ')
}

async function start(t: Test, folder: string, port: number, configuration: string): Promise<void> {
  const subject = ['-subj', '/CN=localhost', '-keyout', join(folder, 'key'), '-out', join(folder, 'crt')]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', ...subject], {
    stdio: 'pipe',
  })
  const path = join(folder, 'nginx.conf')
  writeFileSync(path, configuration)
  const options = ['-p', folder, '-e', 'stderr', '-c', path, '-g', 'daemon off;']
  const nginx = spawn(NGINX ?? '', options, { stdio: 'ignore' })
  t.teardown(() => nginx.kill())
  await eventually(() => isListening(port))
}

function isListening(port: number): Promise<boolean> {
  return new Promise(resolve => {
    request({ port, path: '/', rejectUnauthorized: false }, response => {
      response.resume()
      resolve(true)
    })
      .on('error', () => resolve(false))
      .end()
  })
}
