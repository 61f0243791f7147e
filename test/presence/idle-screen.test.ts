import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Run } from '../../hal/os/command.ts'
import type { Environment } from '../../src/config.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { startTestService } from '../support/service.ts'

const IDENTIFY = 'screen@identify.service'

async function startWithScreen(t: Test, env: Environment = {}) {
  const root = deviceRoot(t)
  const { options } = new FakeReceiver(root)
  writeFileSync(join(root, 'usr/lib/systemd/system/screen@.service'), '')
  mkdirSync(join(root, 'run/receiverd/screen'), { recursive: true })
  const ran: string[] = []
  const run: Run = async (argv, env) => {
    ran.push(argv.join(' '))
    return argv.includes(IDENTIFY) || argv.includes('nginx.service') ? '' : (options.run?.(argv, env) ?? '')
  }
  const service = await startTestService(t, { root, env, ...options, run, listen: '0.0.0.0:0' })
  const picture = (name: string) => join(root, `run/receiverd/screen/${name}.svg`)
  const shows = (...texts: string[]) =>
    eventually(() => {
      const svg = existsSync(picture('idle')) ? readFileSync(picture('idle'), 'utf8') : ''
      return texts.every(text => svg.includes(text))
    })
  return { service, ran, picture, shows }
}

t.test('the idle screen follows the configuration', async t => {
  const { service, picture, shows } = await startWithScreen(t)
  const { value } = await service.system()
  await shows(String(value.deviceName), 'open Screen Mirroring')
  t.equal(statSync(picture('idle')).mode & 0o777, 0o640, 'the program that shows it is in its group')
  await service.patch({ deviceName: 'Atrium' })
  await shows('>Atrium<')
  const long = 'Seminar room 2.14 (North building, second floor), left'
  await service.patch({ deviceName: long, airplay: { name: '' } })
  await shows(`>and choose ${long.slice(0, 50)}.<`)
  await service.patch({ moderation: { approval: 'moderator' } })
  await shows('Then wait until you are let in.')
  await service.patch({ airplay: { enabled: false } })
  await shows('Screen mirroring is switched off.')
})

t.test(
  'until its first use, the key is in the QR code, if that is asked for',
  { skip: needs('rsvg-convert', 'zbarimg') },
  async t => {
    const env = { RECEIVERD_SCREEN_KEY: 'on' }
    const { service, picture, shows } = await startWithScreen(t, env)
    const link = () => {
      const png = join(temporaryFolder(t), 'idle.png')
      execFileSync('rsvg-convert', ['--output', png, picture('idle')])
      return execFileSync('zbarimg', ['--quiet', '--raw', png], { encoding: 'utf8', stdio: 'pipe' }).trim()
    }
    await shows('Scan to set up this device')
    t.match(link(), new RegExp(`^http://[^/]+/#key=${service.key}&setup$`))
    t.notMatch(readFileSync(picture('idle'), 'utf8'), service.key)
    t.equal((await service.fetchAs('wrong')).status, 401)
    t.match(link(), service.key, 'a wrong key changes nothing')

    t.equal((await service.fetch('/system')).status, 200)
    await shows('Manage this device')
    t.notMatch(link(), service.key)
    await service.close()
    const again = await startTestService(t, { root: service.root, env })
    t.notOk(existsSync(again.path('var/lib/receiverd/api-key.unused')), 'nor after a restart')
  },
)

t.test('with TLS: an https address, and the pin once there is a certificate', async t => {
  const { service, shows } = await startWithScreen(t, { RECEIVERD_TLS_PORT: '443' })
  await shows('>https://192.0.2.', 'sha256//')
  const [, pin = ''] = /sha256\/\/(\S+)$/.exec(service.log.at(-1) ?? '') ?? []
  await shows(`sha256//${pin}<`)
})

t.test('with TLS, while the key is on the screen: the fingerprint that a browser shows', async t => {
  const { service, shows } = await startWithScreen(t, { RECEIVERD_TLS_PORT: '443', RECEIVERD_SCREEN_KEY: 'on' })
  const path = service.path('etc/receiverd/tls/certificate.pem')
  const certificate = await eventually(() => existsSync(path) && readFileSync(path))
  const { fingerprint256 } = new X509Certificate(certificate)
  await shows(`>SHA-256 ${fingerprint256.slice(0, 47)}<`)
  await shows(`>${fingerprint256.slice(48)}<`)
})

t.test("with an owner's certificate for the host name alone: that name", async t => {
  const { service, shows } = await startWithScreen(t, { RECEIVERD_TLS_PORT: '443' })
  await shows('>https://192.0.2.')
  t.equal((await service.patch({ hostname: 'room-4.example' })).status, 200)
  const inPlace = () => new X509Certificate(readFileSync(service.path('etc/receiverd/tls/certificate.pem')))
  await eventually(() => inPlace().checkHost('room-4.example'))
  const out = ['-keyout', service.path('key.pem'), '-out', service.path('certificate.pem')]
  const subject = ['-subj', '/O=Example', '-addext', 'subjectAltName=DNS:room-4.example']
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...subject, ...out], { stdio: 'pipe' })
  for (const name of ['key.pem', 'certificate.pem'])
    renameSync(service.path(name), service.path(`etc/receiverd/tls/${name}`))
  await shows('>https://room-4.example/<')
})

t.test('identify shows the name over what is there', async t => {
  const { service, ran, picture } = await startWithScreen(t)
  await service.patch({ deviceName: 'Atrium' })
  t.equal((await service.fetch('/operations/identify', { method: 'POST' })).status, 202)
  t.match(readFileSync(picture('identify'), 'utf8'), '>Atrium<')
  t.ok(ran.includes(`systemctl restart ${IDENTIFY}`))
})
