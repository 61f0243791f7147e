/**
 * The card for the Raspberry Pi, in the emulated board, and on the virtual one for its picture. PROOF=1 also cuts the power of
 * the emulated board, and updates it: it takes minutes to start.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { NEEDS_PROOF } from '../support/needs.ts'
import { cardOnVirt, copyToCard, raspberryPi } from './boards.ts'
import { makeBundle } from './bundle.ts'
import { type Disk, factoryDisk, Machine } from './machine.ts'
import { joinsNetworks } from './radio.ts'
import { qrCodeIn, SCREEN_MS, Screen } from './screen.ts'
import { Tunnel } from './tunnel.ts'
import { TRIAL_MS, updating } from './updating.ts'

const KEY = 'a-key-that-its-owner-knows.0123456789'
/** The addresses are those of QEMU's network. */
const SETTINGS = `hostname=lobby
name=Lobby, left screen
api-key=${KEY}
address=10.0.2.15/24
gateway=10.0.2.2
dns=10.0.2.3
`
/** Milliseconds until the tunnel is up, on a busy emulator. */
const TUNNEL_MS = 180_000
/** Each card's ID at its first start. */
const machineIds = new Set<string>()

t.setTimeout(90 * 60_000)

/** Prepares the card as its owner would on a PC. */
function prepare({ path }: Disk, files: Readonly<Record<string, string>>): void {
  const folder = temporaryFolder(t)
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text)
    copyToCard(path, join(folder, name))
  }
}

t.test('a Raspberry Pi 3 starts from the card, with the settings of its owner', async t => {
  const disk = factoryDisk(raspberryPi)
  prepare(disk, { 'receiver.txt': SETTINGS })
  const device = new Machine(disk)
  t.teardown(() => device.cutPower())
  t.comment(`the API answered after ${(await device.boot()).toFixed(0)} s`)

  await device.untilStarted()
  t.equal(await device.shell('systemctl --failed --plain --no-legend'), '')
  t.equal(device.key, KEY)
  machineIds.add(await device.shell('cat /etc/machine-id'))
  const { value } = await device.system()
  t.match(value, {
    hostname: 'lobby',
    deviceName: 'Lobby, left screen',
    hardware: { model: 'Raspberry Pi 3 Model B' },
    network: { eth0: { method: 'static', address: '10.0.2.15/24', gateway: '10.0.2.2', addresses: ['10.0.2.15/24'] } },
  })

  t.equal(
    await device.readFile('/boot/firmware/receiver.txt'),
    SETTINGS.replace(/^(?=.)/gm, '#').replace(KEY, ''),
    'settings that were taken are comments, and the key is gone',
  )
  t.match(await device.shell('findmnt --noheadings --output OPTIONS /boot/firmware'), /^ro,/)
  const gibibytes = Number(await device.shell('df --output=size --block-size=1M /data | tail -1')) / 1024
  t.ok(gibibytes > 3.3, `the data partition has ${gibibytes.toFixed(1)} GiB of the card's 8`)

  await t.test('the power is cut', { skip: NEEDS_PROOF }, async t => {
    await device.patch({ hostname: 'changed' })
    device.cutPower()
    await device.boot()
    t.match((await device.system()).value, { hostname: 'changed', deviceName: 'Lobby, left screen' })
    t.match(
      await device.readFile('/run/initramfs/fsck.log'),
      /^data: (clean|recovering journal)/m,
      'the data partition was checked',
    )
    await device.untilStarted()
  })

  await t.test('an update, and back', { skip: NEEDS_PROOF }, async t => {
    const { post, settled, upload, install, identity } = updating(device, line => t.comment(line))
    const before = await identity()
    await upload(makeBundle(temporaryFolder(t), raspberryPi, '0.2.0'))
    await install({ restart: 'now' })
    const now = await settled(({ running }) => running.slot === 'B' && running.state === 'good', TRIAL_MS)
    t.match(now, { running: { version: '0.2.0' }, last: { outcome: 'installed' }, other: { state: 'good' } })
    await device.reconnect()
    t.same(await identity(), before)
    t.match(await device.shell('fw_printenv'), /^BOOT_A_LEFT=\w+\nBOOT_B_LEFT=14\nBOOT_ORDER=B A\s*$/m)
    t.equal((await post('/update/rollback')).status, 202)
    await settled(({ running }) => running.slot === 'A' && running.state === 'good', TRIAL_MS)
    await device.reconnect()
    t.same(await identity(), before)
  })
})

t.test('the same card where there is a screen', async t => {
  const disk = factoryDisk(cardOnVirt)
  const tunnel = await Tunnel.open(t)
  prepare(disk, { 'receiver.txt': 'name=Boardroom 7\nhostnme=typo\n', ...tunnel.files })
  const device = new Machine(disk)
  const screen = new Screen(device, join(REPOSITORY, 'build/out/card'))
  t.teardown(() => device.cutPower())
  t.comment(`the API answered after ${(await device.boot()).toFixed(0)} s`)

  t.not(device.key, KEY)
  machineIds.add(await device.shell('cat /etc/machine-id'))
  t.equal(machineIds.size, 2, 'another card of the same image is another device')
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
    const curl = ['curl', '-sS', '--max-time', '10', '--insecure', '--pinnedpubkey', `sha256//${pin}`] as const
    const answer = await eventually(() => tunnel.answerTo(...curl, url), TUNNEL_MS)
    t.match(JSON.parse(answer), { status: 'ok' })
    t.equal(await device.shell('find /boot/firmware -name "wg0*"'), '', 'the key has left the card')
    t.notOk((await device.shell('journalctl --quiet --boot')).includes(tunnel.privateKey))
  })
  await t.test('Wi-Fi', t => joinsNetworks(t, device))
})
