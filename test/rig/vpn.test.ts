/** WireGuard from the card, as the image takes it. The tunnel itself needs a module that the kernel of a test machine may lack. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { eventually } from '../support/eventually.ts'
import { examples } from '../support/readme.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

const OVERLAY = join(REPOSITORY, 'build/image/overlay')
const SCRIPT = '/usr/local/sbin/own-vpn'
const UNIT = '/etc/systemd/system/own-vpn.service'
const OWNERS = '/usr/lib/tmpfiles.d/own-vpn.conf'
const [NETDEV = '', NETWORK = ''] = examples('build/image/README.md', 'Across networks', 'ini')
/** Base64 of 32 bytes, as `wg genkey` prints them. */
const PRIVATE = Buffer.alloc(32, 'private').toString('base64')
const PUBLIC = Buffer.alloc(32, 'public').toString('base64')

t.test('the tunnel of the card', { skip: NO_RIG }, async t => {
  const netdev = NETDEV.replace(/^PrivateKey=.*/m, `PrivateKey=${PRIVATE}`).replace(
    /^PublicKey=.*/m,
    `PublicKey=${PUBLIC}`,
  )
  t.match(netdev, `PrivateKey=${PRIVATE}`)
  const rig = await startRig(t, {
    files: {
      [SCRIPT]: readFileSync(join(OVERLAY, SCRIPT), 'utf8'),
      [UNIT]: readFileSync(join(OVERLAY, UNIT), 'utf8'),
      [OWNERS]: readFileSync(join(OVERLAY, OWNERS), 'utf8'),
    },
  })
  const put = (name: string, text: string) =>
    rig.run(['sh', '-c', 'mkdir -p /boot/firmware && cat >/boot/firmware/$0', name], text)
  await rig.shell(`chmod 755 ${SCRIPT} && systemctl --quiet enable own-vpn.service`)
  await rig.run(['systemctl', 'start', 'own-vpn.service'])
  t.equal(await rig.run(['systemctl', 'show', '--property=ConditionResult', '--value', 'own-vpn']), 'no\n', 'off')

  await put('wg0.netdev', netdev)
  await put('wg0.network', NETWORK)
  await rig.reboot()

  t.equal(await rig.shell('systemctl is-failed own-vpn.service receiverd-card.service || true'), 'inactive\ninactive\n')
  t.equal(await rig.shell('ls /boot/firmware'), '', 'the key has left the card')
  t.equal(
    await rig.shell("cd /etc/systemd/network && stat -c '%n %a %U %G' wg0.* && find . -name '.*.new'"),
    'wg0.netdev 640 root systemd-network\nwg0.network 640 root systemd-network\n',
  )
  t.equal(await rig.readFile('/etc/systemd/network/wg0.netdev'), netdev)
  await t.rejects(
    rig.run([
      'setpriv',
      '--reuid=nobody',
      '--regid=nogroup',
      '--clear-groups',
      'cat',
      '/etc/systemd/network/wg0.netdev',
    ]),
    /Permission denied/,
  )
  // It understands every line, and tries to make the interface: with the kernel's module it is there, otherwise networkd says so.
  const said = async () => (await rig.journal('--unit=systemd-networkd', '--boot')).map(({ MESSAGE = '' }) => MESSAGE)
  await eventually(async () => (await said()).some(line => /^wg0: /.test(line)))
  const lines = await said()
  t.notMatch(lines.join('\n'), /wg0\.net\w+:\d+|Unknown|Failed to parse|Ignoring/, 'no line is refused')
  t.notMatch(lines.join('\n'), PRIVATE)
  t.comment(lines.filter(line => line.includes('wg0')).join('\n'))

  t.equal((await rig.patch({ deviceName: 'Still managed' })).status, 200)

  t.comment('a new system in which the group has another number reads the files, too')
  await rig.shell('chgrp 12345 /etc/systemd/network/wg0.*')
  await rig.reboot()
  t.equal(await rig.shell("stat -c '%a %U %G' /etc/systemd/network/wg0.*"), '640 root systemd-network\n'.repeat(2))

  t.comment('a file that a power cut damaged while it was overwritten is not taken')
  await put('wg0.netdev', `${'\0'.repeat(40)}${netdev.slice(40)}`)
  await put('wg0.network', '')
  await rig.run(['systemctl', 'start', 'own-vpn.service'])
  t.equal(await rig.shell('ls /boot/firmware'), '')
  t.equal(await rig.readFile('/etc/systemd/network/wg0.netdev'), netdev)
  t.equal(await rig.readFile('/etc/systemd/network/wg0.network'), NETWORK)

  t.comment('nor is a file that a PC has not written to its end')
  await put('wg0.netdev', `${netdev.slice(0, -40)}${'\0'.repeat(40)}`)
  await rig.run(['systemctl', 'start', 'own-vpn.service'])
  t.equal(await rig.shell('ls /boot/firmware'), 'wg0.netdev\n', 'it is left for somebody to look at')
  t.equal(await rig.readFile('/etc/systemd/network/wg0.netdev'), netdev)
  t.match(await rig.shell('journalctl --quiet --unit own-vpn --output cat'), /wg0.netdev on the card is damaged/)

  t.comment('while the data partition is away, nothing leaves the card, because /etc is in memory')
  await rig.shell('touch /run/receiver-without-data')
  await put('wg0.netdev', netdev.replace('10.99.0.1', '10.98.0.1'))
  await rig.run(['systemctl', 'start', 'own-vpn.service'])
  t.match(await rig.readFile('/etc/systemd/network/wg0.netdev'), '10.98.0.1')
  t.equal(await rig.shell('ls /boot/firmware'), 'wg0.netdev\n')
})
