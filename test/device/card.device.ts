/** The card for the Raspberry Pi, on the virtual board, where it has a screen. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { eventually } from '../support/eventually.ts'
import { CARDS_ID, cardOnVirt, prepare } from './boards.ts'
import { factoryDisk, Machine } from './machine.ts'
import { joinsNetworks } from './radio.ts'
import { qrCodeIn, SCREEN_MS, Screen } from './screen.ts'
import { HOST, OWNERS_NAME, Tunnel } from './tunnel.ts'

/** Milliseconds until the tunnel is up, on a busy emulator. */
const TUNNEL_MS = 180_000
/** An address of QEMU's network that nobody has. */
const NOBODY = '10.0.2.99'

t.setTimeout(90 * 60_000)

t.test('the card where there is a screen', async t => {
  const disk = factoryDisk(cardOnVirt)
  const tunnel = await Tunnel.open(t)
  prepare(disk.path, { 'receiver.txt': 'name=Boardroom 7\nhostnme=typo\n', ...tunnel.files })
  const device = new Machine(disk)
  const screen = new Screen(device, join(REPOSITORY, 'build/out/card'))
  t.teardown(() => device.cutPower())
  t.comment(`the API answered after ${(await device.boot()).toFixed(0)} s`)

  writeFileSync(CARDS_ID, await device.shell('cat /etc/machine-id'))
  const { deviceName } = (await device.system()).value
  t.match(deviceName, /^receiver-[0-9a-f]{6}$/, 'a mistake: nothing is taken')
  await screen.shows('idle', String(deviceName))
  await eventually(async () => qrCodeIn(await screen.shot('idle')).startsWith('https://10.0.2.15/'), SCREEN_MS)
  t.pass('the code is there once the device serves')
  t.match(
    await device.readFile('/boot/firmware/receiver-errors.txt'),
    'line 2: "hostnme" is not a setting; use hostname, name,',
  )
  t.match(await device.shell('journalctl --unit receiverd --priority warning --output cat'), 'line 2: "hostnme"')
  await device.untilStarted()
  await t.test('from behind NAT, its owner reaches it through WireGuard', async t => {
    const [, pin = ''] = /sha256\/\/([\w+/]{43}=)/.exec(await device.receiverd('key', 'show', '--verbose')) ?? []
    const url = `https://${tunnel.address}/api/v1/health`
    const curl = ['curl', '-sS', '--max-time', '60', '--insecure', '--pinnedpubkey', `sha256//${pin}`] as const
    const isAt = (address: string) => device.shell(`echo '${address} ${OWNERS_NAME}' >>/etc/hosts`)
    // At first the name leads to where nobody is: systemd-networkd finds out once there is a name at all.
    await isAt(NOBODY)
    await eventually(async () => (await device.shell('wg show wg0 endpoints')).includes(`${NOBODY}:`), TUNNEL_MS)
    await device.shell(`sed -i '/${OWNERS_NAME}$/d' /etc/hosts`)
    await isAt(HOST)
    t.equal(await device.shell('systemctl is-active vpn-endpoint.timer'), 'active\n')
    await device.shell('systemctl start vpn-endpoint.service')
    const answer = await eventually(() => tunnel.answerTo(...curl, url), TUNNEL_MS)
    t.match(JSON.parse(answer), { status: 'ok' })
    t.equal(await device.shell('find /boot/firmware -name "wg0*"'), '', 'the key has left the card')
    t.notOk((await device.shell('journalctl --quiet --boot')).includes(tunnel.privateKey))
  })
  await t.test('Wi-Fi', t => joinsNetworks(t, device))
})
