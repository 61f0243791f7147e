/**
 * An update of the booted image, by its API: to another version and back, and to one that does not work. PROOF=1 has all of
 * those, and a power cut during an installation; FROM=COMMIT begins with the image of that commit.
 */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import type { UpdateState } from '../../src/update/state.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { earlier, virt } from './boards.ts'
import { makeBundle } from './bundle.ts'
import { factoryDisk, Machine } from './machine.ts'

const run = promisify(execFile)
const UPLOAD_MS = 10 * 60_000
const INSTALL_MS = 20 * 60_000
/** A restart, and then at most five minutes in which the version proves itself. */
const TRIAL_MS = 15 * 60_000
t.setTimeout(4 * 60 * 60_000)

const folder = temporaryFolder(t)
const device = new Machine(factoryDisk(process.env.FROM ? earlier : virt))

const state = async () =>
  (await (await device.fetch('/update', { signal: AbortSignal.timeout(10_000) })).json()) as UpdateState
const post = (path: string, body?: object) =>
  device.fetch(path, {
    method: 'POST',
    ...(body && { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
  })

/** Once the device answers, and the state is as wanted. */
async function settled(isWanted: (state: UpdateState) => boolean, withinMs: number): Promise<UpdateState> {
  let last: UpdateState | undefined
  return eventually(async () => {
    await sleep(2_000)
    last = (await state().catch(() => undefined)) ?? last
    return last && isWanted(last) && last
  }, withinMs).catch(() => {
    throw new Error(`the state is ${JSON.stringify(last)}\n${device.console.slice(-4_000)}`)
  })
}

/** As a person does, or a script: through nginx. */
async function upload(bundle: string): Promise<void> {
  const began = performance.now()
  const { stdout } = await run('curl', [
    ...[
      '-sS',
      '--insecure',
      '--max-time',
      `${UPLOAD_MS / 1000}`,
      '--upload-file',
      bundle,
      '--write-out',
      '\n%{http_code}',
    ],
    ...['-H', `Authorization: Bearer ${device.key}`, '-H', 'Content-Type: application/vnd.rauc.bundle'],
    `https://${device.address}/api/v1/update/bundle`,
  ])
  t.match(stdout, /\n201$/)
  t.comment(`uploaded in ${((performance.now() - began) / 1000).toFixed(0)} s`)
}

async function install(body: object): Promise<void> {
  const began = performance.now()
  const answer = await post('/update/install', body)
  t.equal(answer.status, 202, await answer.text())
  await settled(({ state }) => state !== 'installing', INSTALL_MS).catch(error => {
    // It has restarted at once.
    if (!/fetch failed/.test(String(error))) throw error
  })
  t.comment(`installed in ${((performance.now() - began) / 1000).toFixed(0)} s`)
}

/** What no update may change. */
async function identity() {
  const { hostname, deviceName, ntp } = (await device.system()).value
  const pin = /sha256\/\/[\w+/]{43}=/.exec(await device.receiverd('key', 'show', '--verbose'))?.[0]
  return { hostname, deviceName, ntp, pin, key: device.key, machineId: await device.shell('cat /etc/machine-id') }
}

t.test('the image as it leaves the factory', async t => {
  t.comment(`${(await device.boot()).toFixed(0)} s from power-on to the first answer`)
  await device.patch({ hostname: 'lobby', deviceName: 'Lobby', ntp: { servers: ['192.0.2.7'] } })
  t.match(await state(), {
    running: { slot: 'A', state: 'good' },
    other: { state: 'empty' },
    state: 'idle',
    testKeys: true,
  })
  await eventually(() => device.receiverd('key', 'show', '--verbose').catch(() => undefined), 180_000)
})

t.test('an update: uploaded, installed, on trial, good; settings, key and identity stay', async t => {
  const before = await identity()
  await upload(makeBundle(folder, virt, '0.2.0'))
  t.match(await state(), { state: 'downloaded', bundle: { version: '0.2.0', source: 'upload' } })
  await install({ restart: 'now' })
  const now = await settled(({ running }) => running.slot === 'B' && running.state === 'good', TRIAL_MS)
  t.match(now, {
    running: { version: '0.2.0' },
    last: { version: '0.2.0', outcome: 'installed' },
    other: { state: 'good' },
  })
  await device.reconnect()
  t.same(await identity(), before)
  t.equal((await device.shell('systemctl is-system-running --wait || true', 300_000)).trim(), 'running')
  t.match(await device.shell('fw_printenv'), /^BOOT_B_LEFT=14$/m, 'twenty attempts')
})

t.test('and back to the version before', async t => {
  const before = await identity()
  const answer = await post('/update/rollback')
  t.equal(answer.status, 202, await answer.text())
  const now = await settled(({ running }) => running.slot === 'A' && running.state === 'good', TRIAL_MS)
  t.match(now, { last: { version: '0.2.0', outcome: 'rolled back' }, other: { version: '0.2.0', state: 'good' } })
  await device.reconnect()
  t.same(await identity(), before)
})

/** systemd stands still, so that nobody serves the watchdog. */
const HANG = '#!/bin/sh\necho 1 >/sys/fs/cgroup/init.scope/cgroup.freeze\nsleep 1d\n'
/** Files of versions that do not work, and how the device says so. Each gets its attempts, of about a minute. */
const BROKEN: Readonly<Record<string, readonly [files: Readonly<Record<string, string>>, reason: RegExp]>> = {
  'no kernel': [{ '/boot/vmlinuz': 'no kernel\n' }, /^did not start$/],
  ...(process.env.PROOF && {
    'half an initrd': [{ '/boot/initrd.img': 'half an initrd\n' }, /^did not start$/],
    'a panic': [{ '/usr/lib/systemd/systemd': 'no program\n' }, /^did not start$/],
    'a hang': [{ '/usr/sbin/nginx': HANG }, /^did not start$/],
    'a service that does not start': [{ '/usr/lib/receiverd/receiverd.cjs': 'process.exit(1)\n' }, /^did not start$/],
    'a screen that does not draw': [{ '/usr/bin/weston': '#!/bin/sh\nexit 1\n' }, /weston/],
    'a door that is closed': [{ '/usr/sbin/nginx': '#!/bin/sh\nexit 1\n' }, /nginx/],
  }),
}
/** Three attempts of at most five minutes, and their restarts. */
const FALLBACK_MS = 40 * 60_000

for (const [name, [files, reason]] of Object.entries(BROKEN))
  t.test(`a version that does not work: ${name}; the device is back in the one before, with the settings`, async t => {
    const before = await identity()
    const version = `0.3.${Object.keys(BROKEN).indexOf(name)}`
    await upload(makeBundle(folder, virt, version, files))
    await install({ restart: 'now' })
    const now = await settled(({ last }) => last?.version === version, FALLBACK_MS)
    t.match(now, { running: { slot: 'A', state: 'good' }, other: { state: 'bad' }, state: 'idle' })
    t.match(now.last, { outcome: 'rolled back', reason })
    await device.reconnect()
    t.same(await identity(), before)
    t.match(await device.shell('fw_printenv'), /^BOOT_A_LEFT=14$/m, 'it has all its attempts')
  })

t.test('the power is cut during an installation', { skip: !process.env.PROOF && 'PROOF=1 is not set' }, async t => {
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

t.test('off', async () => device.cutPower())
