/** The image's recipe for logs that leave the device: systemd's own upload, to systemd's own receiver, by mutual TLS. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { newAuthority } from '../support/authority.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { examples } from '../support/readme.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

const DROP_IN = '/etc/systemd/system/systemd-journal-upload.service.d/card.conf'
const UNIT = 'systemd-journal-upload.service'
const CARD = '/boot/firmware'
const PKI = '/etc/ssl/collector'
const README = ['build/image/README.md', 'Logs of many devices'] as const
const [NGINX = ''] = examples(...README, 'nginx')
const [SOCKET = '', SERVICE = ''] = examples(...README, 'ini')
/** The collector, as README.md has it; its nginx is beside that of the device. */
const COLLECTOR = {
  '/etc/collector.conf': `events {}\npid /run/collector.pid;\nerror_log stderr;\nhttp { access_log off;\n${NGINX}}\n`,
  '/etc/systemd/system/systemd-journal-remote.socket.d/local.conf': SOCKET,
  '/etc/systemd/system/systemd-journal-remote.service.d/local.conf': SERVICE,
}

t.test('the log of a device goes to its owner', { skip: NO_RIG || needs('openssl') }, async t => {
  const authority = newAuthority(t)
  const root = readFileSync(authority.rootPath, 'utf8')
  const rig = await startRig(t, {
    isTls: true,
    files: {
      [DROP_IN]: readFileSync(join(REPOSITORY, 'build/image/overlay', DROP_IN), 'utf8'),
      ...COLLECTOR,
    },
  })
  const write = (path: string, text: string, mode = '644') =>
    rig.run(['sh', '-c', `mkdir -p "\${0%/*}" && umask 077 && cat >"$0" && chmod ${mode} "$0"`, path], text)
  const property = async (name: string) =>
    (await rig.run(['systemctl', 'show', `--property=${name}`, '--value', UNIT])).trim()
  const said = async () => (await rig.journal(`--unit=${UNIT}`)).map(({ MESSAGE = '' }) => MESSAGE).join('\n')
  /** Arrived lines. */
  const arrived = (text: string) =>
    rig
      .shell(`journalctl --directory=/var/log/journal/remote --quiet --output=cat --grep='${text}'`)
      .then(lines => lines !== '')
      .catch(() => false)

  await t.test('without the file on the card, it is off', async t => {
    await rig.run(['systemctl', 'start', UNIT])
    t.equal(await property('ConditionResult'), 'no')
    t.equal(await property('ActiveState'), 'inactive')
  })

  // The collector, at the address of this machine.
  const folder = temporaryFolder(t)
  const request = execFileSync('openssl', [
    ...[
      'req',
      '-new',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-keyout',
      join(folder, 'key'),
    ],
    ...['-subj', '/CN=collector', '-addext', `subjectAltName=IP:${rig.address}`, '-outform', 'DER'],
  ])
  await write(`${PKI}/certificate.pem`, authority.sign(request) + authority.chain)
  await write(`${PKI}/key.pem`, readFileSync(join(folder, 'key'), 'utf8'), '640')
  await write(`${PKI}/root.pem`, root)
  await rig.run(['systemctl', 'start', 'systemd-journal-remote.socket'])
  await rig.run(['systemd-run', '--unit=collector', 'nginx', '-c', '/etc/collector.conf', '-g', 'daemon off;'])

  await t.test('a device whose certificate the authority has not signed is refused, and goes on trying', async t => {
    await write(`${CARD}/journal-upload.pem`, root)
    // As Notepad ends its lines.
    await write(`${CARD}/journal-upload.conf`, `URL=https://${rig.address}:19532\r\n`)
    await rig.shell(`chmod 700 ${CARD} && systemctl start ${UNIT} || true`)
    await eventually(async () => Number(await property('NRestarts')) > 0)
    t.match(await said(), /refus|alert|401|403|certificate|failed/i)
    t.notOk(await arrived('Management API'))
  })

  await t.test('with a certificate of it, all of the log arrives, and what comes later', async t => {
    const csr = await rig.fetch('/certificate/request', { method: 'POST' })
    const extensions = `extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:${rig.address}\n`
    const body = authority.sign(new Uint8Array(await csr.arrayBuffer()), { extensions }) + authority.chain
    const headers = { 'Content-Type': 'application/pem-certificate-chain' }
    t.equal((await rig.fetch('/certificate', { method: 'PUT', headers, body })).status, 204)
    await eventually(() => arrived('Management API of the receiver'))
    await rig.patch({ deviceName: 'Later' })
    await eventually(() => arrived('changed deviceName'))
    t.equal(await property('ActiveState'), 'active')
  })

  await t.test('a collector of another authority gets nothing', async t => {
    await write(`${CARD}/journal-upload.pem`, readFileSync(newAuthority(t).rootPath, 'utf8'))
    await rig.run(['systemctl', 'restart', UNIT])
    await rig.run(['logger', 'a line for nobody'])
    await eventually(async () => Number(await property('NRestarts')) > 1)
    t.notOk(await arrived('a line for nobody'))
  })
})
