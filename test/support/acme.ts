/** An authority that speaks ACME (RFC 8555): Pebble, and the name server that it asks. */
import { execFile, execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { eventually } from './eventually.ts'
import { temporaryFolder } from './folder.ts'
import { freePort } from './port.ts'

export interface Acme {
  /** The URL of its directory. */
  readonly url: string
  /** The certificate by which clients recognize the authority itself, in PEM. */
  readonly certificatePath: string
  /** The URL of the name server: `/set-txt` and `/clear-txt` take `{"host", "value"}`. */
  readonly dnsUrl: string
  /** The root of the certificates that it issues, in PEM. */
  readonly root: string
}

export async function startAcme(t: Test): Promise<Acme> {
  const folder = temporaryFolder(t)
  const path = (name: string) => join(folder, name)
  const [port, management, dns, dnsManagement] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ]
  const names = ['-subj', '/CN=Pebble', '-addext', 'subjectAltName=IP:127.0.0.1', '-days', '2']
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', path('key.pem')]
  execFileSync('openssl', ['req', '-x509', ...key, ...names, '-out', path('certificate.pem')], { stdio: 'pipe' })
  const pebble = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: path('certificate.pem'),
    privateKey: path('key.pem'),
  }
  writeFileSync(path('pebble.json'), JSON.stringify({ pebble }))
  const ended: string[] = []
  const start = (program: string, args: readonly string[]) => {
    const env = { ...process.env, PEBBLE_VA_NOSLEEP: '1' }
    const child = execFile(program, args, { env }, (_, stdout, stderr) => ended.push(`${program}: ${stdout}${stderr}`))
    t.teardown(() => child.kill('SIGKILL'))
  }
  const listen = ['-dns01', `127.0.0.1:${dns}`, '-management', `127.0.0.1:${dnsManagement}`]
  start('pebble-challtestsrv', [...listen, '-http01', '', '-https01', '', '-tlsalpn01', ''])
  start('pebble', ['-config', path('pebble.json'), '-dnsserver', `127.0.0.1:${dns}`])
  const ask = (url: string) =>
    execFileSync('curl', ['-sSf', '--cacert', path('certificate.pem'), url], { encoding: 'utf8', stdio: 'pipe' })
  const url = `https://127.0.0.1:${port}/dir`
  const dnsUrl = `http://127.0.0.1:${dnsManagement}`
  await eventually(async () => {
    if (ended.length > 0) throw new Error(ended.join(''))
    try {
      return ask(url) !== '' && (await fetch(`${dnsUrl}/clear-txt`, { method: 'POST', body: '{"host":"a."}' })).ok
    } catch {
      return false
    }
  })
  return { url, certificatePath: path('certificate.pem'), dnsUrl, root: ask(`https://127.0.0.1:${management}/roots/0`) }
}
