/**
 * Storage that misbehaves: the boot script's state is lost, the data partition cannot be mounted or is full, the second system
 * cannot be written, and the card is slow. In each case, the device answers, reports its state, and is intact again afterwards.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { BadCard } from './bad-card.ts'
import { virt } from './boards.ts'
import { makeBundle } from './bundle.ts'
import { digest, partition, read, STATE_BYTES, STATE_COPY_OFFSET, STATE_OFFSET, superblocks, write } from './disk.ts'
import { factoryDisk, Machine } from './machine.ts'
import { INSTALL_MS, TRIAL_MS, updating } from './updating.ts'

t.setTimeout(6 * 60 * 60_000)

const MIB = 1024 ** 2
const VERSION = '0.2.0'
const folder = temporaryFolder(t)
const card = new BadCard(folder)
const device = new Machine(factoryDisk(), { isPlain: true, env: card.env })
const { state, post, settled, configure, upload, install, identity } = updating(device, line => t.comment(line))
let bundle: string | undefined

/** Boots the device, and sets it up as somebody would. */
async function setUp(): Promise<void> {
  await device.boot()
  await configure()
}

/** Makes sure that the device has a bundle that is not installed yet. */
async function withBundle(): Promise<void> {
  const { bundle: there, state: now } = await state()
  if (there && now !== 'receiving') return
  bundle ??= makeBundle(folder, virt, VERSION)
  await upload(bundle)
}

/** Switches the device off with all changes durable, as its owner would. */
async function off(): Promise<void> {
  await device.shell('sync')
  device.cutPower()
  await device.isOff
}

async function problemOf(answer: Response): Promise<readonly [status: number, type: string]> {
  const { type } = (await answer.json()) as { type: string }
  return [answer.status, type.replace(/^.*:/, '')]
}

async function storage(): Promise<{ readonly temporary: boolean; readonly availableBytes: number }> {
  return ((await (await device.fetch('/status')).json()) as { storage: { temporary: boolean; availableBytes: number } })
    .storage
}

t.before(setUp)
t.teardown(() => device.cutPower())

t.test('the boot state is lost: the device answers in A, and makes itself a new state', async t => {
  const torn = () => {
    const bytes = read(device.disk, STATE_OFFSET, STATE_BYTES)
    bytes.fill(0xff, 40, STATE_BYTES)
    return bytes
  }
  const losses = { zeros: () => Buffer.alloc(STATE_BYTES), torn, noise: () => randomBytes(STATE_BYTES) }
  const before = await identity()
  for (const [what, lost] of Object.entries(losses)) {
    await off()
    write(device.disk, [{ offset: STATE_OFFSET, bytes: lost() }])
    t.comment(`${what}: up in ${(await device.boot()).toFixed(0)} s`)
    t.match(await state(), { running: { slot: 'A', state: 'good' }, other: { state: 'empty' } }, what)
    await eventually(async () => /^BOOT_A_LEFT=14$/m.test(await device.shell('fw_printenv')), TRIAL_MS)
    t.same(await identity(), before)
  }
})

t.test('it is lost while the device runs: an update makes a new one, and the device can go back', async t => {
  await withBundle()
  const before = await identity()
  await device.shell(
    `dd if=/dev/zero of=/dev/receiver/disk bs=${STATE_BYTES} seek=${STATE_OFFSET / STATE_BYTES} count=1 conv=notrunc,fsync`,
  )
  await install({ restart: 'now' })
  const now = await settled(({ running }) => running.slot === 'B' && running.state === 'good', TRIAL_MS)
  t.match(now, { last: { version: VERSION, outcome: 'installed' }, other: { state: 'good' } })
  await device.reconnect()
  t.same(await identity(), before)
  t.equal((await post('/update/rollback')).status, 202)
  await settled(({ running }) => running.slot === 'A' && running.state === 'good', TRIAL_MS)
  await device.reconnect()
})

t.test('the second system cannot be written: the installation fails, A runs on, and later it goes through', async t => {
  await withBundle()
  const b = partition(device.disk, 3)
  const before = await identity()
  card.set({ unwritable: { offset: b.offset + 100 * MIB, bytes: MIB } })
  t.equal((await post('/update/install', { restart: 'manual' })).status, 202)
  const now = await settled(({ state }) => state !== 'installing', INSTALL_MS)
  t.match(now, { state: 'failed', running: { slot: 'A', state: 'good' }, other: { state: 'bad' } })
  t.match(now.last, { version: VERSION, outcome: 'failed', reason: /replace the card/ })
  t.comment(JSON.stringify(now.last))
  t.match(await device.shell('fw_printenv'), /^BOOT_ORDER=A$/m, 'nobody starts what is half written')
  t.same(await identity(), before)
  card.set({})
  await install({ restart: 'now' })
  await settled(({ running }) => running.slot === 'B' && running.state === 'good', TRIAL_MS)
  await device.reconnect()
  t.same(await identity(), before)
})

t.test('the boot state is lost while B is in use: B starts, or without its copy A, which says so', async t => {
  const before = await identity()
  await off()
  const lost = [{ offset: STATE_OFFSET, bytes: Buffer.alloc(STATE_BYTES) }]
  write(device.disk, lost)
  await device.boot()
  t.match(await state(), { running: { slot: 'B', state: 'good' } })
  t.same(await identity(), before)

  await off()
  write(device.disk, [...lost, { offset: STATE_COPY_OFFSET, bytes: Buffer.alloc(STATE_BYTES) }])
  await device.boot()
  t.match(await state(), {
    running: { slot: 'A', state: 'good' },
    other: { version: VERSION, state: 'good' },
    last: { version: VERSION, outcome: 'rolled back', reason: /boot loader/ },
  })
  t.same(await identity(), before)
})

t.test(
  'the data partition cannot be mounted: the device says so, leaves it alone, and has all back with it',
  async t => {
    const before = await identity()
    await off()
    const data = partition(device.disk, 4)
    const good = superblocks(device.disk, data)
    write(
      device.disk,
      good.map(({ offset, bytes }) => ({ offset, bytes: Buffer.alloc(bytes.length, 0xff) })),
    )
    const damaged = await digest(device.disk, data)

    t.comment(`up in ${(await device.boot()).toFixed(0)} s, ${good.length} superblocks are damaged`)
    t.equal((await storage()).temporary, true)
    t.match(
      await device.shell('journalctl --quiet --boot --unit receiverd --output cat'),
      /data partition could not be/,
    )
    t.not(device.key, before.key, 'it is as a new one')
    t.ok((await device.patch({ deviceName: 'Elsewhere' })).ok, 'and can be used')
    t.same(await problemOf(await device.fetch('/operations/factory-reset', { method: 'POST' })), [409, 'conflict'])
    t.match(await device.shell('systemctl is-system-running || true'), /running|degraded|starting/)
    t.comment(await device.shell('systemctl list-units --failed --no-legend'))
    await off()
    t.equal(await digest(device.disk, data), damaged, 'nothing was written to the partition')

    write(device.disk, good)
    await device.boot()
    t.equal((await storage()).temporary, false)
    t.same(await identity(), before)
  },
)

t.test('the data partition takes no writes: the device is what it was, and keeps no changes', async t => {
  const before = await identity()
  // Its journal has yet to be replayed.
  device.cutPower()
  await device.isOff
  card.set({ unwritable: partition(device.disk, 4) })
  t.comment(`up in ${(await device.boot()).toFixed(0)} s`)
  t.equal((await storage()).temporary, true)
  t.same(await identity(), before)
  t.ok((await device.patch({ deviceName: 'Elsewhere' })).ok)

  device.cutPower()
  await device.isOff
  card.set({})
  await device.boot()
  t.equal((await storage()).temporary, false)
  t.same(await identity(), before)
})

/** Fills the storage as a program that runs as root could. The journal would give way, and make room again. */
async function fill(): Promise<void> {
  await device.shell('journalctl --relinquish-var')
  await device.shell(
    'cd /data; fallocate -l $(($(stat -f -c %f .) * $(stat -f -c %S .) - 8388608)) filler; ' +
      'dd if=/dev/zero of=filler-2 bs=64k; sync; dd if=/dev/zero of=filler-3 bs=1k; sync',
    300_000,
  )
}

t.test('the data partition is full: a refused request changes nothing, and a factory reset is possible', async t => {
  await withBundle()
  const before = await identity()
  await fill()
  t.same(await problemOf(await device.patch({ deviceName: 'Hall' })), [507, 'no-space'])
  t.same(await problemOf(await device.fetch('/api-key', { method: 'POST' })), [507, 'no-space'])
  t.same(await problemOf(await post('/update/install', { restart: 'manual' })), [507, 'no-space'])
  t.match(await state(), { state: 'failed', last: { outcome: 'failed', reason: /no space left on device/ } })
  t.match(await device.shell('fw_printenv'), /^BOOT_A_LEFT=14$/m)
  const tooLarge = Buffer.alloc(260 * MIB)
  const headers = { 'Content-Type': 'application/vnd.rauc.bundle' }
  const answer = await device.fetch('/update/bundle', { method: 'PUT', headers, body: tooLarge })
  t.same(await problemOf(answer), [507, 'no-space'])
  t.same(await identity(), before)

  await device.restartsBy(async () => {
    t.equal((await device.fetch('/operations/factory-reset', { method: 'POST' })).status, 202)
  })
  const after = await identity()
  t.equal(after.machineId, before.machineId)
  t.not(after.key, before.key)
  t.not(after.deviceName, before.deviceName)
  await device.shell('rm /data/filler*')
})

/** A bad card's delays, and the time of the test. */
const SLOW = { writeMs: 50, flushMs: 200 }
const MEASURED_MS = 60_000
const LOOP_DELAY = join(REPOSITORY, 'test/device/loop-delay.cjs')
const DROP_IN = '/run/systemd/system/receiverd.service.d/loop-delay.conf'

interface LoopDelay {
  readonly p50: number
  readonly p99: number
  readonly max: number
  readonly held: Readonly<Record<string, { readonly times: number; readonly ms: number }>>
}

/** The delay of the event loop since the last call. */
async function loopDelay(): Promise<LoopDelay> {
  await device.shell('rm -f /run/receiverd/loop-delay; systemctl kill --kill-whom=main --signal=SIGUSR2 receiverd')
  return JSON.parse(await device.shell('until cat /run/receiverd/loop-delay 2>/dev/null; do sleep 0.2; done'))
}

/** Measures while one client changes a setting again and again, and another one looks at the status. */
async function measured(t: Test, what: string) {
  await loopDelay()
  const { writes, flushes } = card.counts
  const until = performance.now() + MEASURED_MS
  const changes: number[] = []
  const looks: number[] = []
  const timed = async (into: number[], request: () => Promise<Response>) => {
    while (performance.now() < until) {
      const began = performance.now()
      const answer = await request()
      await answer.arrayBuffer()
      if (!answer.ok) throw new Error(`${answer.status}`)
      into.push(performance.now() - began)
      await sleep(50)
    }
  }
  await Promise.all([
    timed(changes, () => device.patch({ deviceName: `Room ${changes.length % 2}` })),
    timed(looks, () => device.fetch('/status')),
  ])
  const delay = await loopDelay()
  const [change, look] = [changes, looks].map(all => all.sort((a, b) => a - b))
  const at = (all: number[] = [], part: number) => all[Math.floor(all.length * part)]?.toFixed(0)
  t.comment(
    `${what}: ${changes.length} changes, ${at(change, 0.5)} ms in the median, ${at(change, 0.99)} at the most but 1 %`,
  )
  t.comment(`${what}: ${looks.length} looks at the status: ${at(look, 0.5)}, ${at(look, 0.99)} ms`)
  t.comment(`${what}: the card took ${card.counts.writes - writes} writes and ${card.counts.flushes - flushes} flushes`)
  t.comment(`${what}: the event loop was held ${JSON.stringify(delay)}`)
  return delay
}

t.test('a slow card: changes take their time, and nobody else waits for them', async t => {
  const options = (await device.shell('systemctl show --property Environment --value receiverd')).match(
    /NODE_OPTIONS=([^"]*)/,
  )
  await device.upload(LOOP_DELAY, '/run/loop-delay.cjs')
  const text = `[Service]\nEnvironment="NODE_OPTIONS=${options?.[1]?.trim()} --require /run/loop-delay.cjs"\n`
  await device.shell(
    `mkdir -p ${DROP_IN.replace(/\/[^/]*$/, '')}; echo '${Buffer.from(text).toString('base64')}' | base64 -d >${DROP_IN}; systemctl daemon-reload; systemctl restart receiverd`,
  )
  const quick = await measured(t, 'a quick card')
  card.set(SLOW)
  const slow = await measured(t, 'a slow card')
  card.set({})
  t.ok(
    slow.p99 <= quick.p99 + 20,
    `the event loop is held for ${slow.p99} ms at the most but 1 %, and ${quick.p99} otherwise`,
  )
  t.match(await device.shell('systemctl show --property NRestarts --value receiverd'), /^0$/m, 'no watchdog has bitten')
})
