/** The image's recipe for rsyslog, to a collector that is rsyslog, too, by TLS. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { newAuthority } from '../support/authority.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { examples } from '../support/readme.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

const [RSYSLOG = ''] = examples('build/image/README.md', 'Logs of many devices', 'rsyslog')
const HOST = 'logs.example'
const ARRIVED = '/var/log/arrived'
const COLLECTOR = `global(workDirectory="/var/spool/rsyslog" defaultNetstreamDriverCAFile="/etc/ssl/collector.pem"
       defaultNetstreamDriverCertFile="/etc/collector/certificate.pem" defaultNetstreamDriverKeyFile="/etc/collector/key.pem")
module(load="imtcp" streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="anon")
input(type="imtcp" port="6514")
action(type="omfile" file="${ARRIVED}")
`

t.test('the log of a device goes to a collector of syslog', { skip: NO_RIG || needs('openssl') }, async t => {
  const authority = newAuthority(t)
  const key = join(temporaryFolder(t), 'key')
  const request = execFileSync('openssl', [
    ...['req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key],
    ...['-subj', `/CN=${HOST}`, '-addext', `subjectAltName=DNS:${HOST}`, '-outform', 'DER'],
  ])
  const rig = await startRig(t, {
    files: {
      '/etc/rsyslog.conf': RSYSLOG,
      '/etc/ssl/collector.pem': readFileSync(newAuthority(t).rootPath, 'utf8'),
      '/etc/collector/certificate.pem': authority.sign(request) + authority.chain,
      '/etc/collector/key.pem': readFileSync(key, 'utf8'),
      '/etc/collector/rsyslog.conf': COLLECTOR,
    },
  })
  await rig.shell(`echo "${rig.address} ${HOST}" >>/etc/hosts`)
  await rig.run([
    'systemd-run',
    '--unit=collector',
    'rsyslogd',
    '-n',
    '-f',
    '/etc/collector/rsyslog.conf',
    '-i',
    'NONE',
  ])
  await eventually(() => rig.isListening(6514))
  const arrived = () => rig.readFile(ARRIVED).catch(() => '')

  await t.test('not to one of another authority', async t => {
    await rig.run(['systemctl', 'enable', '--quiet', '--now', 'rsyslog.service'])
    await rig.run(['logger', 'the first line'])
    await eventually(async () =>
      (await rig.journal('--unit=collector')).some(({ MESSAGE = '' }) => /gnutls|tls|session/i.test(MESSAGE)),
    )
    t.equal(await arrived(), '')
  })

  await t.test('with its authority, what the service logs arrives', async t => {
    await rig.run(['sh', '-c', 'cat >/etc/ssl/collector.pem'], readFileSync(authority.rootPath, 'utf8'))
    await rig.run(['systemctl', 'restart', 'rsyslog.service'])
    await rig.patch({ deviceName: 'Later' })
    await eventually(async () => /receiverd.*changed deviceName/.test(await arrived()))
    t.match(await rig.shell('ls /var/log'), /^(?!.*syslog)/s, 'no file of its own')
  })
})
