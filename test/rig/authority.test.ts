/** The recipes for certificates of an authority, pasted: with a real nginx, OpenSSL, and a client of ACME. */
import { execFile } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startAcme } from '../support/acme.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { presented } from '../support/presented.ts'
import { examples } from '../support/readme.ts'
import { NO_RIG } from './available.ts'
import { type Rig, startRig } from './rig.ts'

const run = promisify(execFile)
const PATH = 'build/package/README.md'
const [DEFINITIONS = '', ...RECIPES] = examples(PATH, 'Certificates of an authority', 'sh')
const [MAKE_AUTHORITY = '', SIGN = '', BY_ACME = '', RENEW = ''] = RECIPES

interface Status {
  readonly pin: string
  readonly fingerprint: string
  readonly madeBy: string
  readonly expiresAt: string
}

async function startDevice(t: Test) {
  const rig = await startRig(t, { isTls: true })
  const folder = temporaryFolder(t)
  const status = async () => {
    const answer = (await (await rig.fetch('/status')).json()) as { certificate?: Status }
    return answer.certificate
  }
  const { pin } = await eventually(status)
  const env = { PATH: process.env.PATH, ADDRESS: rig.address, PIN: pin, KEY: rig.key }
  const paste = async (commands: string, more: NodeJS.ProcessEnv = {}) => {
    const script = `set -e\n${DEFINITIONS}\n${commands}`
    return (await run('bash', ['-c', script], { cwd: folder, env: { ...env, ...more } })).stdout
  }
  const untilAnswered = () => eventually(() => paste('device $API/health').catch(() => undefined))
  await untilAnswered()
  return { rig, folder, status, pin, paste }
}

/** Why a client that trusts a root and nothing else does not reach the device by a name; undefined if it does. */
async function whyNotTrusted({ address }: Rig, root: string, name: string): Promise<string | undefined> {
  const options = ['-sSf', '--cacert', root, '--resolve', `${name}:443:${address}`]
  return run('curl', [...options, `https://${name}/api/v1/health`]).then(
    () => undefined,
    error => String(error),
  )
}

const isTrusted = async (...args: Parameters<typeof whyNotTrusted>) => (await whyNotTrusted(...args)) === undefined

t.test("the owner's own authority", { skip: NO_RIG || needs('openssl') }, async t => {
  t.equal(RECIPES.length, 4)
  const { rig, folder, status, pin, paste } = await startDevice(t)
  const path = (name: string) => join(folder, name)
  await rig.patch({ hostname: 'room-4' })
  await paste(MAKE_AUTHORITY)
  t.match(await paste(SIGN), 'DNS:room-4, DNS:room-4.local', 'the names are looked at')
  const after = await status()
  t.match(after, { pin, madeBy: 'owner' })
  for (const name of ['room-4', 'room-4.local'])
    t.ok(await eventually(() => isTrusted(rig, path('ca.pem'), name)), name)
  t.notOk(await isTrusted(rig, path('ca.pem'), 'room-5'))
  await eventually(async () => (await presented(rig.address))?.fingerprint256 === after?.fingerprint)
  const strict = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', path('ca.pem'), path('room-4.pem')]
  t.match((await run('openssl', strict)).stdout, /: OK\n$/)
  t.match(await rig.receiverd('key', 'show', '--verbose'), after?.fingerprint ?? 'none')

  // As nginx reads its files again, the worker before may end a connection that has had no request yet, by HTTP/2.
  const workers = async () => (await rig.shell("pgrep --full 'nginx: worker process$' || true")).trim()
  const before = await workers()
  await rig.restart()
  await eventually(async () => (await status())?.madeBy === 'owner')
  await eventually(async () => {
    const now = await workers()
    return /^\d+$/.test(now) && now !== before
  })
  t.equal(await whyNotTrusted(rig, path('ca.pem'), 'room-4'), undefined, 'after a restart')
  const wrong = paste(`device -T ca.pem -H 'Content-Type: application/pem-certificate-chain' $API/certificate`)
  const { stdout = '' } = await wrong.then(
    () => ({ stdout: 'taken' }),
    error => error as { stdout?: string },
  )
  t.match(JSON.parse(stdout), { status: 422, detail: /not for the key of this device/ })
  t.equal(await whyNotTrusted(rig, path('ca.pem'), 'room-4'), undefined, 'as before')

  await paste('device -X DELETE $API/certificate')
  const own = await status()
  t.match(own, { pin, madeBy: 'device' })
  await eventually(async () => (await presented(rig.address))?.fingerprint256 === own?.fingerprint)
  // For a moment, a worker from before nginx read its files again takes connections, too.
  t.ok(await eventually(async () => !(await isTrusted(rig, path('ca.pem'), 'room-4'))))
  t.equal(await rig.shell('systemctl is-failed nginx.service receiverd.service || true'), 'active\nactive\n')
})

t.test('a public authority, by ACME', { skip: NO_RIG || needs('openssl', 'pebble', 'lego') }, async t => {
  const acme = await startAcme(t)
  const { rig, folder, status, pin, paste } = await startDevice(t)
  const root = join(folder, 'root.pem')
  writeFileSync(root, acme.root)
  // In place of a provider: a program that sets the record (lego dnshelp -c exec).
  const program = join(folder, 'record')
  const set = `curl -sSf -d "{\\"host\\":\\"$2\\",\\"value\\":\\"$3\\"}" ${acme.dnsUrl}`
  writeFileSync(program, `#!/bin/sh\ncase $1 in\npresent) ${set}/set-txt ;;\ncleanup) ${set}/clear-txt ;;\nesac\n`)
  chmodSync(program, 0o755)
  const env = {
    PROVIDER: 'exec',
    EXEC_PATH: program,
    EXEC_PROPAGATION_TIMEOUT: '1',
    LEGO_CA_CERTIFICATES: acme.certificatePath,
  }
  // Pebble has no name servers of the public DNS, in which the record could be looked for.
  const here = (commands: string) => commands.replaceAll('lego ', `lego --server ${acme.url} --dns.disable-cp `)

  await paste(here(BY_ACME), env)
  const first = await status()
  t.match(first, { pin, madeBy: 'owner' })
  t.ok(await eventually(() => isTrusted(rig, root, 'room-4.example.org')), 'by the root alone: the chain is there')
  t.match(
    (await run('openssl', ['req', '-inform', 'DER', '-in', 'room-4.csr', '-noout', '-text'], { cwd: folder })).stdout,
    /DNS:room-4\.example\.org\n/,
  )

  await paste(here(RENEW), env)
  t.equal((await status())?.fingerprint, first?.fingerprint, 'it has long to go')
  await paste(here(RENEW.replace('--days 30', '--days 36500')), env)
  const renewed = await status()
  t.match(renewed, { pin, madeBy: 'owner' })
  t.not(renewed?.fingerprint, first?.fingerprint)
  await eventually(async () => (await presented(rig.address))?.fingerprint256 === renewed?.fingerprint)
  t.ok(await isTrusted(rig, root, 'room-4.example.org'))
})
