/** The card for the Raspberry Pi in the emulated board, which takes minutes to start. PROOF=1 also cuts its power, and updates it. */
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { temporaryFolder } from '../support/folder.ts'
import { NEEDS_PROOF } from '../support/needs.ts'
import { CARDS_ID, prepare, raspberryPi } from './boards.ts'
import { makeBundle } from './bundle.ts'
import { factoryDisk, Machine } from './machine.ts'
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

t.setTimeout(90 * 60_000)

t.test('a Raspberry Pi 3 starts from the card, with the settings of its owner', async t => {
  const disk = factoryDisk(raspberryPi)
  prepare(disk.path, { 'receiver.txt': SETTINGS })
  const device = new Machine(disk)
  t.teardown(() => device.cutPower())
  t.comment(`the API answered after ${(await device.boot()).toFixed(0)} s`)

  await device.untilStarted()
  t.equal(await device.shell('systemctl --failed --plain --no-legend'), '')
  t.equal(device.key, KEY)
  const machineId = await device.shell('cat /etc/machine-id')
  if (existsSync(CARDS_ID))
    t.not(machineId, readFileSync(CARDS_ID, 'utf8'), 'another card of the same image is another device')
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
