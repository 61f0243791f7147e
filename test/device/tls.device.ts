/** TLS of the booted device, from the other end of its network, and from a machine beside it. */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import type { JsonObject } from '../../src/json.ts'
import { NO_RIG } from '../rig/available.ts'
import { startRig } from '../rig/rig.ts'
import { eventually } from '../support/eventually.ts'
import { factoryDisk, Machine, OUTSIDE_PORT } from './machine.ts'

const OUT = join(REPOSITORY, 'build/out')
const PACKAGE = join(OUT, readdirSync(OUT).find(name => name.startsWith('receiverd-tls_')) ?? '')
const CHANGE_MS = 180_000
const run = promisify(execFile)
/** Of the interface on the host that leads to the device's second network. */
const LAN = `rd-lan-${process.pid % 10_000}`
const KEY = 'a-key-that-its-owner-knows.0123456789'
const NO_LAN = NO_RIG || (!existsSync('/dev/net/tun') && 'there is no /dev/net/tun')
const device = new Machine(factoryDisk(), {
  credentials: { 'receiverd.api-key': KEY },
  ...(NO_LAN ? {} : { lan: LAN }),
})
t.setTimeout(20 * 60_000)

const curl = async (...args: string[]) => (await run('curl', ['-sS', '--max-time', '30', ...args])).stdout
const pinned = (pin: string, path: string, ...args: string[]) =>
  curl('--insecure', '--pinnedpubkey', `sha256//${pin}`, ...args, `https://${device.address}${path}`)

/** The pin and the fingerprint, once there is a certificate. */
async function certificate(): Promise<{ readonly pin: string; readonly fingerprint: string }> {
  const text = await eventually(() => device.receiverd('key', 'show', '--verbose').catch(() => undefined), CHANGE_MS)
  const [, pin = ''] = /sha256\/\/([\w+/]{43}=)/.exec(text) ?? []
  const [, fingerprint = ''] = /(([0-9A-F]{2}:){31}[0-9A-F]{2})/.exec(text) ?? []
  return { pin, fingerprint }
}

/** The names in the certificate that nginx presents. */
async function presented(): Promise<string> {
  const connect = `openssl s_client -connect ${device.address}:443 </dev/null 2>/dev/null`
  const command = `${connect} | openssl x509 -noout -ext subjectAltName 2>/dev/null || true`
  return (await run('sh', ['-c', command])).stdout
}

t.test('a client that knows the pin reaches the device, and nobody reaches the API without TLS', async t => {
  await device.boot()
  t.equal(device.key, KEY, 'the key that the firmware passed to systemd')
  const { pin } = await certificate()
  const answer = await eventually(() => pinned(pin, '/api/v1/health').catch(() => undefined), CHANGE_MS)
  t.match(JSON.parse(answer), { status: 'ok' })
  const system = await pinned(pin, '/api/v1/system', '-H', `Authorization: Bearer ${device.key}`)
  t.match(JSON.parse(system), { hostname: /^receiver-/ })
  await t.rejects(pinned(Buffer.alloc(32).toString('base64'), '/'), /public key does not match/)
  t.match(await curl('-i', `http://${device.address}/`), /^HTTP\/1\.1 308 [\s\S]*^Location: https:\/\//m)
  await t.rejects(curl(`http://${device.address}:${OUTSIDE_PORT}/api/v1/health`))
  const names = await eventually(async () => {
    const names = await presented()
    return names.includes('IP Address:10.0.2.15') && names
  }, CHANGE_MS)
  t.match(names, /DNS:receiver-[0-9a-f]{6}, DNS:receiver-[0-9a-f]{6}\.local/)
  t.equal((await device.shell('systemctl is-system-running --wait || true')).trim(), 'running')
})

t.test('another machine of the network finds it by avahi, and reaches it by its pin', { skip: NO_LAN }, async t => {
  const files = {
    '/etc/systemd/network/10-lan.network':
      '[Match]\nName=lan0\n[Network]\nAddress=192.168.77.1/24\nDHCPServer=yes\n[DHCPServer]\nEmitRouter=no\nEmitDNS=no\n',
  }
  const neighbour = await startRig(t, { files })
  await run('ip', ['link', 'set', LAN, 'netns', `${neighbour.pid}`, 'name', 'lan0'])
  const { value } = await device.system()
  const found = await eventually(async () => {
    const all: { name: string; url: string; pin: string }[] = JSON.parse(
      await neighbour.receiverd('discover', '--json'),
    )
    return all.find(({ name, url }) => name === value.deviceName && url.startsWith('https://192.168.77.'))
  }, CHANGE_MS)
  const { pin } = await certificate()
  t.match(found, { pin, model: (value.hardware as JsonObject).model })
  const answer = ['-H', `Authorization: Bearer ${KEY}`, `${found.url}api/v1/system`]
  const curl = ['curl', '-sS', '--max-time', '60', '--insecure', '--pinnedpubkey']
  const system = await run('nsenter', [
    '--target',
    `${neighbour.pid}`,
    '--net',
    ...curl,
    `sha256//${found.pin}`,
    ...answer,
  ])
  t.equal(JSON.parse(system.stdout).deviceName, value.deviceName)
  const names = await neighbour.shell(`avahi-browse --resolve --parsable --terminate _https._tcp`)
  t.match(names, new RegExp(`^=;lan0;IPv4;${value.deviceName};.*;192\\.168\\.77\\.\\d+;443;`, 'm'))
})

t.test('another name, another certificate, the same pin', async t => {
  const { pin, fingerprint } = await certificate()
  t.equal((await device.patch({ hostname: 'boardroom' })).status, 200)
  await eventually(async () => (await presented()).includes('DNS:boardroom, DNS:boardroom.local'), CHANGE_MS)
  const renewed = await certificate()
  t.equal(renewed.pin, pin)
  t.not(renewed.fingerprint, fingerprint)
  t.match(JSON.parse(await pinned(pin, '/api/v1/health')), { status: 'ok' })
})

t.test('removed and installed again, nobody reaches the API without TLS', async t => {
  const { pin } = await certificate()
  await device.upload(PACKAGE, '/tmp/tls.deb')
  const outside = () => curl(`http://${device.address}:${OUTSIDE_PORT}/api/v1/health`)
  await device.shell('dpkg --remove receiverd-tls')
  t.match(JSON.parse(await outside()), { status: 'ok' })
  await device.shell('dpkg --install /tmp/tls.deb')
  await eventually(() => pinned(pin, '/api/v1/health').catch(() => undefined), CHANGE_MS)
  await t.rejects(outside())
})

t.test('after a power cut the same certificate; after a factory reset another key', async t => {
  const before = await certificate()
  device.cutPower()
  await device.boot()
  t.same(await certificate(), before)
  await eventually(() => pinned(before.pin, '/api/v1/health').catch(() => undefined), CHANGE_MS)
  t.equal((await device.fetch('/operations/factory-reset', { method: 'POST' })).status, 202)
  await eventually(async () => (await certificate()).pin !== before.pin, 10 * 60_000)
})

t.test('off', async () => device.cutPower())
