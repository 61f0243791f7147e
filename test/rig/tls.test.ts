/** TLS in front of the service, by a real nginx under the units that ship. */
import { execFile, execFileSync, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { presented } from '../support/presented.ts'
import { NO_RIG } from './available.ts'
import { type Rig, startRig } from './rig.ts'

const run = promisify(execFile)
const FOLDER = '/etc/receiverd/tls'
/** Milliseconds that a stream goes on after a new certificate, at least. The rest of the test takes about as long. */
const LONGER_MS = 12_000
/** Seconds that a network is late: longer than receiverd waits for systemctl. */
const LATE_S = 60

/** By HTTP/2, an nginx that reads its files again may end a connection that has had no request yet. */
const curl = async (...args: string[]) => (await run('curl', ['-sS', '--http1.1', '--max-time', '10', ...args])).stdout
/** As a client that knows the pin and nothing else. */
const pinned = (pin: string, ...args: string[]) => curl('--insecure', '--pinnedpubkey', `sha256//${pin}`, ...args)

async function discovered(rig: Rig): Promise<{ readonly pin: string; readonly url: string } | undefined> {
  const [found] = JSON.parse(await rig.receiverd('discover', '--json')) as { pin: string; url: string; port: number }[]
  return found
}

/** The subject and the names of the certificate that is presented. */
async function names({ address }: Rig): Promise<string> {
  const { subject, subjectAltName } = (await presented(address)) ?? {}
  return `${subject}; ${subjectAltName}`
}

/** Installs a pair of the owner by hand. Resolves when it is in force. */
async function putOwners(t: Test, rig: Rig): Promise<void> {
  const folder = temporaryFolder(t)
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  const options = ['-newkey', 'rsa:2048', '-nodes', '-subj', '/O=Example/CN=room-4.example', '-days', '1']
  execFileSync('openssl', ['req', '-x509', ...options, '-keyout', key, '-out', certificate], { stdio: 'pipe' })
  await rig.replaceFile(`${FOLDER}/key.pem`, readFileSync(key, 'utf8'))
  await rig.replaceFile(`${FOLDER}/certificate.pem`, readFileSync(certificate, 'utf8'))
  await eventually(async () => (await names(rig)).includes('room-4.example'))
}

t.test('TLS from the first boot', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { isTls: true })
  const { pin = '', url = '' } = await eventually(() => discovered(rig))
  t.equal(url, `https://${rig.address}/`, 'found with its pin')
  const health = () => pinned(pin, `${url}api/v1/health`)
  await eventually(() => health().catch(() => undefined))

  t.match(await rig.run(['receiverd', 'key', 'show']), `${rig.key}\n`)
  const status = (await (await rig.fetch('/status')).json()) as {
    certificate: { expiresAt: string; pin: string }
    certificatePin: string
  }
  t.equal(status.certificate.pin, pin)
  t.equal(status.certificatePin, pin, 'where older clients look for it')
  const expiry = Date.parse(status.certificate.expiresAt) / 1000
  t.ok(expiry > Date.now() / 1000)
  t.match(await (await rig.fetch('/metrics')).text(), `receiverd_certificate_expiry_timestamp_seconds ${expiry}\n`)
  const verbose = await rig.receiverd('key', 'show', '--verbose')
  t.match(verbose, `sha256//${pin}`)
  const [command = ''] = /^curl .*$/m.exec(verbose) ?? []
  t.match(JSON.parse((await run('sh', ['-c', command])).stdout), { hostname: 'receiver' }, 'as pasted')
  for (const host of [rig.address, `[${rig.address6}]`])
    t.match(JSON.parse(await pinned(pin, `https://${host}/api/v1/health`)), { status: 'ok' }, host)
  await t.rejects(pinned(Buffer.alloc(32).toString('base64'), `${url}api/v1/health`), /public key does not match/)
  // The machine's cable is not hardware, so its addresses are not part of the configuration.
  t.match(await names(rig), /^O=receiverd\n.*; DNS:receiver, DNS:receiver\.local$/ms)

  t.match(
    await curl('-i', `http://${rig.address}/api/v1/health?a=b`),
    new RegExp(`^HTTP/1.1 308 [\\s\\S]*Location: https://${rig.address}/api/v1/health\\?a=b\r`, 'm'),
  )
  await t.rejects(curl(`http://${rig.address}:8080/`), /Failed to connect|refused/i)
  await pinned(pin, '-H', 'Authorization: Bearer wrong', '-H', 'X-Real-IP: 192.0.2.1', `${url}api/v1/system`)
  await eventually(async () => {
    const warnings = await rig.journal('--unit=receiverd', '--priority=warning')
    return warnings.some(({ MESSAGE = '' }) => MESSAGE.startsWith(`${rig.hostAddress}: refused a credential`))
  })
  t.pass('the log names the client')
  t.match(await pinned(pin, '-I', '--http2', url), /^HTTP\/2 200/)
  const old = ['--tls-max', '1.1', '--ciphers', 'DEFAULT@SECLEVEL=0']
  await t.rejects(pinned(pin, ...old, `${url}api/v1/health`), /SSL|TLS|alert|protocol/i)
  const modes = await rig.run(['stat', '-c', '%a %U %n', `${FOLDER}/key.pem`, `${FOLDER}/certificate.pem`])
  t.equal(modes, `600 root ${FOLDER}/key.pem\n644 root ${FOLDER}/certificate.pem\n`)

  const stream = spawn('curl', [
    ...['-sSN', '--insecure', '-H', `Authorization: Bearer ${rig.key}`, '-H', 'Accept: text/event-stream'],
    `${url}api/v1/events`,
  ])
  t.teardown(() => stream.kill())
  let events = ''
  stream.stdout.on('data', chunk => {
    events += chunk
  })
  await eventually(() => events.length > 0)
  t.equal((await rig.patch({ hostname: 'room-4' })).status, 200)
  await eventually(async () => (await names(rig)).includes('DNS:room-4, DNS:room-4.local'))
  t.match(JSON.parse(await health()), { status: 'ok' }, 'the same pin')
  const renewedAt = performance.now()

  await putOwners(t, rig)
  // The old worker may accept one more connection.
  await eventually(() =>
    health().then(
      () => false,
      ({ stderr }) => /public key does not match/.test(stderr),
    ),
  )
  const owners = await eventually(async () => {
    const found = await discovered(rig)
    return found && found.pin !== pin && found.pin
  })

  await rig.replaceFile(`${FOLDER}/key.pem`, 'garbage\n')
  await eventually(async () =>
    (await rig.journal('-u', 'receiverd')).some(({ MESSAGE }) => MESSAGE?.includes('the key is not valid PEM')),
  )
  t.match(await names(rig), 'room-4.example', 'the server that runs is left alone')

  await rig.shell(`rm ${FOLDER}/*`)
  await eventually(async () => (await names(rig)).includes('DNS:room-4'))
  const next = await eventually(async () => {
    const found = await discovered(rig)
    return found && ![pin, owners].includes(found.pin) && found.pin
  })
  t.match(JSON.parse(await pinned(next, `${url}api/v1/health`)), { status: 'ok' }, 'a new identity')
  await sleep(Math.max(0, renewedAt + LONGER_MS - performance.now()))
  t.equal((await rig.patch({ deviceName: 'Room 4' })).status, 200)
  await eventually(() => events.includes('"deviceName":"Room 4"'))
  t.pass('a new certificate, or a new key, ends no request')
  t.equal(await rig.shell('systemctl is-failed nginx.service receiverd.service || true'), 'active\nactive\n')
})

t.test("an owner's pair outlives a boot whose network is late", { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { isTls: true })
  await eventually(async () => (await names(rig)).includes('DNS:receiver'))
  await putOwners(t, rig)
  // Debian's nginx.service starts after network-online.target.
  const late = '/etc/systemd/system/late.service'
  const unit = `[Unit]\nDefaultDependencies=no\nBefore=network-online.target\n[Service]\nType=oneshot\nExecStart=sleep ${LATE_S}\n`
  await rig.replaceFile(late, unit)
  const wants = '/etc/systemd/system/network-online.target.d'
  await rig.shell(`mkdir ${wants} && printf '[Unit]\\nWants=late.service\\n' >${wants}/late.conf`)
  await rig.shell(`touch --date='1 hour ago' ${FOLDER}/* && sync`)
  await rig.powerOff()
  await rig.boot()
  const said = () => rig.journal('--boot', '--unit=receiverd')
  await eventually(
    async () => (await said()).some(({ MESSAGE }) => MESSAGE?.startsWith('TLS: ')),
    LATE_S * 1000 + DEADLINE_MS,
  )
  t.match(
    (await said()).at(-1)?.MESSAGE,
    'TLS: systemctl did not end within 20 s; the server in front is left as it is',
  )
  await eventually(async () => (await presented(rig.address)) !== undefined, LATE_S * 1000 + DEADLINE_MS)
  t.match(await names(rig), 'room-4.example')
})

t.test('a kernel without IPv6', { skip: NO_RIG }, async t => {
  // As with ipv6.disable=1, for nginx.
  const without =
    '[Service]\nRestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX AF_INET\nInaccessiblePaths=/proc/sys/net/ipv6\n'
  const rig = await startRig(t, {
    isTls: true,
    files: { '/etc/systemd/system/nginx.service.d/zz-no-ipv6.conf': without },
  })
  const { pin = '', url = '' } = await eventually(() => discovered(rig))
  t.match(await eventually(() => pinned(pin, `${url}api/v1/health`).catch(() => undefined)), '"ok"')
  t.match(await curl('-i', `http://${rig.address}/`), /^HTTP\/1.1 308 /)
  await t.rejects(curl('--insecure', `https://[${rig.address6}]/`), /Failed to connect|refused/i)
})

t.test('a client cannot take all streams, and streams pass', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { isTls: true })
  const { pin = '', url = '' } = await eventually(() => discovered(rig))
  await eventually(() => pinned(pin, `${url}api/v1/health`).catch(() => undefined))
  const stream = ['-N', '-H', `Authorization: Bearer ${rig.key}`, '-H', 'Accept: text/event-stream']
  const script = `for n in $(seq 100); do curl -skN --max-time 40 -o $0/$n -w '%{http_code}\\n' "$@" & done; wait`
  const { stdout } = await run('sh', ['-c', script, temporaryFolder(t), ...stream, `${url}api/v1/events`])
  t.same([stdout.match(/^200$/gm)?.length, stdout.match(/^429$/gm)?.length], [96, 4])
})
