/**
 * An update of the booted image through its API: to another version, and to one that does not work. PROOF=1 also goes back, to a
 * version that works and to one that does not any more, and tests all broken versions, and a power cut during an installation;
 * FROM=COMMIT starts with the image of that commit.
 */
import { closeSync, fstatSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { Owner } from '../fleet/support.ts'
import { temporaryFolder } from '../support/folder.ts'
import { NEEDS_PROOF } from '../support/needs.ts'
import { earlier, virt } from './boards.ts'
import { initrdWith, makeBareBundle, makeBundle } from './bundle.ts'
import { factoryDisk, Machine } from './machine.ts'
import { INSTALL_MS, TRIAL_MS, updating } from './updating.ts'

t.setTimeout(4 * 60 * 60_000)

const folder = temporaryFolder(t)
const device = new Machine(factoryDisk(process.env.FROM ? earlier : virt))
const { state, post, settled, configure, upload, install, identity } = updating(device, line => t.comment(line))

t.test('the image as it leaves the factory', async t => {
  t.comment(`${(await device.boot()).toFixed(0)} s from power-on to the first answer`)
  await configure()
  t.match(await state(), {
    running: { slot: 'A', state: 'good' },
    other: { state: 'empty' },
    state: 'idle',
    testKeys: true,
  })
})

t.test('the group that it is in gets an update; settings, key and identity stay', async t => {
  const before = await identity()
  const bundle = makeBundle(folder, virt, '0.2.0')
  const owner = new Owner(t, INSTALL_MS + TRIAL_MS)
  owner.write('keys.csv', `lobby,${device.key}\nhall,${device.key}\n`)
  const devices = [
    `lobby: { address: "https://${device.address}", pin: "${before.pin}", groups: [lobby] }`,
    `hall: { address: "https://192.0.2.1", pin: "${before.pin}", groups: [hall] }`,
  ]
  owner.write('fleet.yaml', `keys: keys.csv\ngroups: { lobby: {}, hall: {} }\ndevices:\n  ${devices.join('\n  ')}\n`)
  const began = performance.now()
  const { status, of } = await owner.outcomes(['update', '--group', 'lobby', '--yes', bundle])
  t.comment(`updated by receiverd-fleet in ${((performance.now() - began) / 1000).toFixed(0)} s`)
  t.match(
    { status, of },
    { status: 0, of: { lobby: { state: 'changed', note: 'runs version 0.2.0' }, hall: undefined } },
  )
  t.match(await state(), {
    running: { version: '0.2.0', slot: 'B', state: 'good' },
    last: { version: '0.2.0', outcome: 'installed' },
    other: { state: 'good' },
  })
  await device.reconnect()
  t.same(await identity(), before)
  await device.untilStarted()
  t.match(await device.shell('fw_printenv'), /^BOOT_B_LEFT=14$/m, 'twenty attempts')
})

t.test('and back to the version before', { skip: NEEDS_PROOF }, async t => {
  const before = await identity()
  const answer = await post('/update/rollback')
  t.equal(answer.status, 202, await answer.text())
  const now = await settled(({ running }) => running.slot === 'A' && running.state === 'good', TRIAL_MS)
  t.match(now, {
    // An earlier version may say that it is itself installed.
    ...(!process.env.FROM && { last: { version: '0.2.0', outcome: 'rolled back', reason: 'asked for' } }),
    other: { version: '0.2.0', state: 'good' },
  })
  await device.reconnect()
  t.same(await identity(), before)
  t.match(await device.shell('journalctl --boot --unit receiverd-judge'), /version \S+ is good/, 'it was on trial')
  t.match(await device.readFile('/data/update/refused.json'), /"0\.2\.0"/, 'the policy does not install it again')
})

/** Freezes systemd once nginx has started, so that nobody serves the watchdog. `+` is for outside nginx's sandbox. */
const HANG = "[Service]\nExecStartPost=+/bin/sh -c 'echo 1 >/sys/fs/cgroup/init.scope/cgroup.freeze'\n"
/** The system with other files, under a version. */
const withFiles = (files: Readonly<Record<string, string | Buffer>>) => (version: string) =>
  makeBundle(folder, virt, version, files)
/** The script of the initrd that mounts the data partition. */
const MOUNTS = 'scripts/init-bottom/receiver'
/** A system that starts without the data partition: it has another key, and cannot know that it is on trial. */
const withoutData = (version: string) => {
  const script = readFileSync(join(REPOSITORY, 'build/image/initramfs', MOUNTS), 'utf8')
  const broken = script.replaceAll('mount -t ext4', 'false')
  if (broken === script) throw new Error(`${MOUNTS} mounts the data partition in another way`)
  return makeBundle(folder, virt, version, { '/boot/initrd.img': initrdWith(virt, MOUNTS, broken) })
}
/**
 * Bundles of versions that do not work, and how the device reports it. One that can be loaded gets its attempts, of about a
 * minute.
 */
const BROKEN: Readonly<Record<string, readonly [make: (version: string) => string, reason: RegExp]>> = {
  'no kernel': [
    version => makeBareBundle(folder, virt, version, { '/boot/vmlinuz': 'no kernel\n' }),
    /^did not start$/,
  ],
  ...(process.env.PROOF && {
    'half an initrd': [withFiles({ '/boot/initrd.img': 'half an initrd\n' }), /^did not start$/],
    'a panic': [withFiles({ '/usr/lib/systemd/systemd': 'no program\n' }), /^did not start$/],
    'a hang': [withFiles({ '/usr/lib/systemd/system/nginx.service.d/hang.conf': HANG }), /^did not start$/],
    'a service that does not start': [
      withFiles({ '/usr/lib/receiverd/receiverd.cjs': 'process.exit(1)\n' }),
      /^did not start$/,
    ],
    'a screen that does not draw': [withFiles({ '/usr/bin/weston': '#!/bin/sh\nexit 1\n' }), /weston/],
    'a data partition that it cannot mount': [withoutData, /^did not start$/],
    'a door that is closed': [withFiles({ '/usr/sbin/nginx': '#!/bin/sh\nexit 1\n' }), /nginx/],
  }),
}
/** Three attempts of at most five minutes, and their restarts. */
const FALLBACK_MS = 40 * 60_000

for (const [name, [make, reason]] of Object.entries(BROKEN))
  t.test(`a version that does not work: ${name}; the device is back in the one before, with the settings`, async t => {
    const before = await identity()
    const { running } = await state()
    const version = `0.3.${Object.keys(BROKEN).indexOf(name)}`
    await upload(make(version))
    await install({ restart: 'now' })
    const now = await settled(({ last }) => last?.version === version, FALLBACK_MS)
    t.match(now, { running, other: { state: 'bad' }, state: 'idle' })
    t.match(now.last, { outcome: 'rolled back', reason })
    await device.reconnect()
    t.same(await identity(), before)
    t.match(await device.shell(`fw_printenv BOOT_${running.slot}_LEFT`), /=14$/m, 'it has all its attempts')
  })

t.test('a bundle with other bytes than were signed', { skip: NEEDS_PROOF }, async t => {
  const before = await identity()
  const bundle = makeBundle(folder, virt, '0.3.9')
  const file = openSync(bundle, 'r+')
  // In the middle of the system, far from the signature: only verity reads it before it is written.
  for (const part of [0.3, 0.5, 0.7])
    writeSync(file, Buffer.alloc(4096, 0xa5), 0, 4096, Math.floor(fstatSync(file).size * part))
  closeSync(file)
  await upload(bundle)
  await install({ restart: 'now' })
  const now = await settled(({ state }) => state === 'failed', INSTALL_MS)
  t.match(now, {
    running: { slot: 'A', state: 'good' },
    other: { state: 'bad' },
    last: { version: '0.3.9', outcome: 'failed' },
  })
  t.comment(JSON.stringify(now.error))
  t.match(await device.shell('fw_printenv'), /^BOOT_ORDER=A$/m)
  t.same(await identity(), before)
})

t.test('the power is cut during an installation', { skip: NEEDS_PROOF }, async t => {
  const before = await identity()
  await upload(makeBundle(folder, virt, '0.4.0'))
  for (const percent of [5, 50, 90]) {
    t.equal((await post('/update/install', { restart: 'now' })).status, 202)
    await settled(now => (now.percent ?? 0) >= percent, INSTALL_MS)
    device.cutPower()
    await device.boot()
    const now = await settled(({ last }) => last?.version === '0.4.0', TRIAL_MS)
    t.match(now, { running: { slot: 'A', state: 'good' }, other: { state: 'bad' }, state: 'downloaded' })
    t.match(now.last, { outcome: 'failed', reason: 'interrupted' })
    t.same(await identity(), before)
  }
  await install({ restart: 'now' })
  await settled(({ running }) => running.slot === 'B' && running.state === 'good', TRIAL_MS)
})

t.test(
  'back to a version that does not work any more: the device returns by itself',
  { skip: NEEDS_PROOF },
  async t => {
    await device.reconnect()
    const before = await identity()
    const { running, other } = await state()
    t.match([running, other], [{ slot: 'B', state: 'good' }, { state: 'good' }])
    // As with a file in /etc, which both share, that only the newer version understands.
    const folder = '/etc/systemd/system/nginx.service.d'
    await device.shell(`mkdir -p ${folder}`)
    const refuses = "! grep -q 'rauc[.]slot=A' /proc/cmdline"
    await device.replaceFile(`${folder}/newer.conf`, `[Service]\nExecStartPre=+/bin/sh -c "${refuses}"\n`)
    t.equal((await post('/update/rollback')).status, 202)
    const now = await settled(state => state.running.slot === 'B' && state.other.state === 'bad', FALLBACK_MS)
    t.match(now, { running, other: { version: other.version }, state: 'idle', last: { version: other.version } })
    t.match(now.last, { outcome: 'rolled back', reason: /nginx/ })
    await device.reconnect()
    t.same(await identity(), before)
  },
)

t.test('off', async () => device.cutPower())
