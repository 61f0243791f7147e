/** `receiverd-fleet update`, against real services with RAUC at the other end of busctl(1). */
import { randomBytes } from 'node:crypto'
import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { KERNEL } from '../../hal/files/kernel.ts'
import { largeFile } from '../../hal/files/read.ts'
import { versionIn } from '../../src/fleet/bundle.ts'
import { type DeviceClient, Unanswered } from '../../src/fleet/client.ts'
import { discard } from '../../src/fleet/update.ts'
import { TrialRecords } from '../../src/update/trial.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startTestService } from '../support/service.ts'
import { MIB, startUpdateDevice, type UpdateDevice } from '../support/update-device.ts'
import { Network, Owner } from './support.ts'

/** A bundle as RAUC ends it: a signature with the manifest in it, and the signature's size. */
function bundleOf(version: string): Buffer {
  const manifest = `[update]\ncompatible=receiver\nversion=${version}\n\n[bundle]\nformat=verity\n`
  const signature = Buffer.concat([randomBytes(64), Buffer.from(manifest), randomBytes(64)])
  const size = Buffer.alloc(8)
  size.writeBigUInt64BE(BigInt(signature.length))
  return Buffer.concat([randomBytes(2 * MIB), signature, size])
}

/** @param bundle The content of `next.raucb`. */
async function fleetOf(t: Test, devices: readonly UpdateDevice[], bundle = bundleOf('1.1.0')): Promise<Owner> {
  const owner = new Owner(t)
  owner.write('keys.csv', devices.map(({ service }, index) => `room-${index},${service.key}\n`).join(''))
  const lines = devices.map(
    ({ network }, index) => `  room-${index}: { address: "http://127.0.0.1:${network.port}" }\n`,
  )
  owner.write('fleet.yaml', `keys: keys.csv\ndevices:\n${lines.join('')}`)
  writeFileSync(owner.path('next.raucb'), bundle)
  return owner
}

/** A fleet file with one device, at the other end of a network. */
function writeFleet(owner: Owner, { address }: Network): void {
  owner.write('fleet.yaml', `keys: keys.csv\ndevices: { room-0: { address: "http://${address}" } }\n`)
}

const installing = ({ rauc }: UpdateDevice) => eventually(() => rauc.operation === 'installing', 60_000)
/** As the judge does it (receiverd-judge.service). */
const findsGood = ({ service }: UpdateDevice) =>
  new TrialRecords(new Files(service.path('data/update'))).conclude({ version: '1.1.0', outcome: 'installed' })
const restarting = ({ jobs }: UpdateDevice, times = 1) => eventually(() => jobs.length === times, 60_000)

t.test('a bundle is installed in waves, and a device that has it is left alone', async t => {
  const devices = [await startUpdateDevice(t), await startUpdateDevice(t)] as const
  for (const { says } of devices) says({ version: '1.1.0' })
  const owner = await fleetOf(t, devices)
  const [first, second] = devices
  const updating = owner.outcomes(['update', 'next.raucb', '--yes', '--waves', '1'])
  await installing(first)
  first.rauc.succeed('1.1.0')
  await restarting(first)
  t.equal(second.rauc.operation, 'idle', 'the first one has not proved good yet')
  await first.restartInto('B', '1.1.0')
  await findsGood(first)
  await installing(second)
  second.rauc.succeed('1.1.0')
  await restarting(second)
  await second.restartInto('B', '1.1.0')
  await findsGood(second)
  t.match(await updating, { status: 0, of: { 'room-0': { state: 'changed' }, 'room-1': { state: 'changed' } } })

  for (const { says } of devices) says({ version: '1.1.0' })
  const again = await owner.outcomes(['update', 'next.raucb', '--yes', '--waves', '1'])
  t.match(again, { status: 0, of: { 'room-0': { state: 'unchanged' }, 'room-1': { state: 'unchanged' } } })
  for (const { rauc, jobs } of devices) {
    t.equal(rauc.did.filter(call => call.startsWith('InstallBundle')).length, 1)
    t.equal(jobs.length, 1)
  }
})

t.test('no device is believed about the version of the bundle that the others get', async t => {
  const [liar, honest] = [await startUpdateDevice(t), await startUpdateDevice(t)] as const
  liar.says({ version: '1.0.0' })
  honest.says({ version: '1.1.0' })
  const owner = await fleetOf(t, [liar, honest])
  const options = ['--yes', '--restart', 'manual', '--keep-going', '--waves', '1']
  const updating = owner.outcomes(['update', 'next.raucb', ...options])
  await installing(honest)
  honest.rauc.succeed('1.1.0')
  const reason = 'it says that the bundle has version 1.0.0; its manifest has 1.1.0'
  t.match(await updating, {
    status: 1,
    of: { 'room-0': { state: 'failed', reason }, 'room-1': { state: 'changed' } },
  })
})

t.test('a bundle whose manifest cannot be read here is sent to each device', async t => {
  const devices = [await startUpdateDevice(t), await startUpdateDevice(t)] as const
  const owner = await fleetOf(t, devices, randomBytes(MIB))
  for (const { says } of devices) says({ version: '1.0.0' })
  const { status, of } = await owner.outcomes(['update', 'next.raucb', '--yes'])
  t.match({ status, of }, { status: 0, of: { 'room-0': { state: 'unchanged' }, 'room-1': { state: 'unchanged' } } })
  for (const { rauc } of devices) {
    t.ok(
      rauc.did.some(call => call.startsWith('InspectBundle')),
      rauc.did.join(),
    )
    t.notOk(rauc.did.some(call => call.startsWith('InstallBundle')))
  }
})

t.test('a device whose image has one system', async t => {
  const device = await startTestService(t)
  const owner = new Owner(t)
  owner.write('key', `${device.key}\n`)
  const lobby = `{ address: "http://127.0.0.1:${device.port}", key: { file: key } }`
  owner.write('fleet.yaml', `devices: { lobby: ${lobby} }\n`)
  owner.write('next.raucb', 'bundle')
  for (const command of [['update', 'next.raucb'], ['discard-update']]) {
    const { status, of } = await owner.outcomes([...command, '--yes'])
    t.equal(status, 1)
    t.equal(of.lobby?.reason, 'it takes no firmware bundles: its image has only one system')
  }
})

t.test('the version of a bundle is in UTF-8', async t => {
  const path = join(temporaryFolder(t), 'next.raucb')
  writeFileSync(path, bundleOf('1.1.0-bêta'))
  const file = largeFile(KERNEL, path)
  t.equal(file && (await versionIn(file)), '1.1.0-bêta')
})

t.test('a failure on one device stops the waves after it', async t => {
  const devices = [await startUpdateDevice(t), await startUpdateDevice(t)] as const
  const owner = await fleetOf(t, devices, bundleOf('0.9.0'))
  const [first, second] = devices
  const update = (...options: readonly string[]) => owner.outcomes(['update', 'next.raucb', '--yes', ...options])

  first.says('signature verification failed: Verify error: self-signed certificate')
  t.match(await update(), {
    status: 1,
    of: { 'room-0': { state: 'failed', reason: /not signed/ }, 'room-1': { state: 'not begun' } },
  })
  first.says({ version: '0.9.0' })
  t.match((await update()).of['room-0'], {
    state: 'failed',
    reason: 'version 0.9.0 is older than 1.0.0, which runs; --allow-older installs it',
  })
  const failing = update('--allow-older')
  await installing(first)
  first.rauc.fail('write error')
  t.match((await failing).of['room-0'], { state: 'failed', reason: /^the installation failed: / })
  t.strictSame(second.rauc.did, [])
})

t.test('a roll-out goes on past a device that waits for its restart', async t => {
  const devices = [await startUpdateDevice(t), await startUpdateDevice(t)] as const
  const [first, second] = devices
  for (const { says } of devices) says({ version: '1.1.0' })
  const owner = await fleetOf(t, devices)
  const update = (...options: readonly string[]) => owner.outcomes(['update', 'next.raucb', '--yes', ...options])
  const begun = update('--restart', 'manual', '--device', 'room-0')
  await installing(first)
  first.rauc.succeed('1.1.0')
  t.match(await begun, { status: 0, of: { 'room-0': { state: 'changed' } } })

  const goingOn = update('--restart', 'manual', '--waves', '1')
  await installing(second)
  second.rauc.succeed('1.1.0')
  const note = 'version 1.1.0 is installed, and starts with the next restart'
  t.match(await goingOn, {
    status: 0,
    of: { 'room-0': { state: 'unchanged', note }, 'room-1': { state: 'changed', note } },
  })
  t.strictSame(first.jobs, [])
  const otherwise = await update('--restart', 'window', '--device', 'room-0')
  const change = 'to change that, discard-update, and update again'
  t.equal(
    otherwise.of['room-0']?.note,
    `${note}; as it was installed before, it does not restart in a window: ${change}`,
  )

  const restart = update('--device', 'room-0')
  await restarting(first)
  await first.restartInto('B', '1.1.0')
  await findsGood(first)
  t.match(await restart, { status: 0, of: { 'room-0': { state: 'changed', note: 'runs version 1.1.0' } } })
  t.equal(first.rauc.did.filter(call => call.startsWith('InstallBundle')).length, 1)
})

t.test('a device that runs the version, but is about to start another one, has failed', async t => {
  const device = await startUpdateDevice(t)
  device.says({ version: '1.1.0' })
  const owner = await fleetOf(t, [device])
  const begun = owner.outcomes(['update', 'next.raucb', '--yes', '--restart', 'manual'])
  await installing(device)
  writeFileSync(owner.path('back.raucb'), bundleOf('1.0.0'))
  const back = async () => {
    const { status, of } = await owner.outcomes(['update', 'back.raucb', '--yes', '--allow-older'])
    return [status, of['room-0']?.state, of['room-0']?.reason]
  }
  const runs = 'it runs version 1.0.0, but'
  t.same(await back(), [1, 'failed', `${runs} is installing version 1.1.0: give the command again after that`])
  device.rauc.succeed('1.1.0')
  t.equal((await begun).status, 0)
  const waits = 'version 1.1.0 is installed, and starts with the next restart: discard-update keeps it from that'
  t.same(await back(), [1, 'failed', `${runs} ${waits}`])
  t.equal((await owner.outcomes(['discard-update', '--yes'])).status, 0)
  t.same(await back(), [0, 'unchanged', undefined])
})

t.test('a device that is to restart in its window says so to a roll-out that is to be without', async t => {
  const device = await startUpdateDevice(t)
  device.says({ version: '1.1.0' })
  const owner = await fleetOf(t, [device])
  const hour = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString().slice(11, 16)
  const update = { window: { days: [], from: hour(12), to: hour(13) } }
  t.equal((await device.service.patch({ update })).status, 200)
  const begun = owner.outcomes(['update', 'next.raucb', '--yes', '--restart', 'window'])
  await installing(device)
  device.rauc.succeed('1.1.0')
  t.equal((await begun).status, 0)
  const otherwise = await owner.outcomes(['update', 'next.raucb', '--yes', '--restart', 'manual'])
  t.match(otherwise, {
    status: 0,
    of: {
      'room-0': {
        state: 'unchanged',
        note: 'version 1.1.0 is installed, and starts with the next restart; as it was installed before, it restarts in its window: to change that, discard-update, and update again',
      },
    },
  })
})

t.test('a version that has not started yet is discarded on each device that has it', async t => {
  const devices = [await startUpdateDevice(t), await startUpdateDevice(t)] as const
  const [first, second] = devices
  const owner = await fleetOf(t, devices)
  first.says({ version: '1.1.0' })
  const updating = owner.outcomes(['update', 'next.raucb', '--yes', '--restart', 'manual', '--device', 'room-0'])
  await installing(first)
  first.rauc.succeed('1.1.0')
  t.equal((await updating).status, 0)
  const discarding = ['discard-update', '--yes']
  t.match(await owner.outcomes(discarding), {
    status: 0,
    of: { 'room-0': { state: 'changed', note: 'version 1.1.0 is discarded' }, 'room-1': { state: 'unchanged' } },
  })
  t.equal(first.rauc.did.at(-1), 'Mark bad rootfs.1')
  t.strictSame(second.rauc.did, [])
  t.match(await owner.outcomes(discarding), { of: { 'room-0': { state: 'unchanged' } } })
  first.rauc.refused.add('InstallBundle')
  const again = ['update', 'next.raucb', '--yes', '--restart', 'manual', '--device', 'room-0']
  t.equal((await owner.outcomes(again)).status, 1)
  t.match(await owner.outcomes(discarding), { of: { 'room-0': { state: 'changed' } } }, 'a bundle, too')
})

t.test('a lost answer to a discard, and a version that is installed meanwhile', async t => {
  const runs = { running: { version: '1.0.0' }, other: { version: '1.1.0' }, bundle: { version: '1.1.0' } }
  const [stored, installed, gone] = [
    { ...runs, state: 'downloaded' },
    { ...runs, state: 'installed' },
    { ...runs, bundle: undefined, state: 'idle' },
  ]
  const lost = new Unanswered('it broke off')
  const discarded = async (error: Error | undefined, ...states: readonly object[]) => {
    const left = [...states]
    const send = async (method: string) => {
      if (method === 'GET') return { body: left.shift() }
      if (error) throw error
      return { body: {} }
    }
    return discard({ send } as unknown as DeviceClient)
  }
  t.match(await discarded(undefined, stored, gone), { state: 'changed', note: 'version 1.1.0 is discarded' })
  const arriving = { ...runs, bundle: {}, state: 'downloading' }
  const note = 'the bundle that it was receiving is discarded'
  t.match(await discarded(undefined, arriving, gone), { state: 'changed', note })
  t.match(await discarded(lost, stored, gone), { state: 'changed' })
  t.match(await discarded(lost, installed, gone), { state: 'changed' })
  await t.rejects(discarded(lost, stored, stored), { message: 'it broke off' })
  await t.rejects(discarded(lost, installed, installed), { message: 'it broke off' })
  const meanwhile = 'version 1.1.0 was installed in the meantime; give the command again to discard it'
  await t.rejects(discarded(undefined, stored, installed), { message: meanwhile })
})

t.test('a service that restarts while RAUC gives up has installed nothing', async t => {
  const device = await startUpdateDevice(t)
  const owner = await fleetOf(t, [device])
  device.says({ version: '1.1.0' })
  const updating = owner.outcomes(['update', 'next.raucb', '--yes', '--restart', 'manual'])
  await installing(device)
  await device.service.close()
  Object.assign(device.rauc, { operation: 'idle', percent: 0 })
  await device.restartInto('A', '1.0.0')
  const { status, of } = await updating
  t.equal(status, 1)
  t.match(of['room-0'], { state: 'failed', reason: 'the installation failed: interrupted' })
})

t.test('a bundle that changes while it is sent fails here, and not on the device', async t => {
  const device = await startUpdateDevice(t)
  const owner = await fleetOf(t, [device])
  const network = await Network.to(t, device.network.port)
  network.fateOf = head => {
    if (head.startsWith('PUT ')) truncateSync(owner.path('next.raucb'))
    return 'pass'
  }
  writeFleet(owner, network)
  const reason = 'the bundle cannot be read: the file has changed since it was opened'
  t.match(await owner.outcomes(['update', 'next.raucb', '--yes']), {
    status: 1,
    of: { 'room-0': { state: 'failed', reason } },
  })
})

t.test('a request to install that is lost on the way is not waited for', async t => {
  const device = await startUpdateDevice(t)
  device.says({ version: '1.1.0' })
  const owner = await fleetOf(t, [device])
  const network = await Network.to(t, device.network.port)
  network.fateOf = head => (head.startsWith('POST /api/v1/update/install ') ? 'lose it' : 'pass')
  writeFleet(owner, network)
  t.match(await owner.outcomes(['update', 'next.raucb', '--yes']), {
    status: 1,
    of: { 'room-0': { state: 'failed', reason: /^the installation has not begun: .*; give the command again$/ } },
  })
})

t.test('a device that goes back has failed', async t => {
  const device = await startUpdateDevice(t)
  const owner = await fleetOf(t, [device])
  device.says({ version: '1.1.0' })
  const updating = owner.outcomes(['update', 'next.raucb', '--yes'])
  await installing(device)
  device.rauc.succeed('1.1.0')
  await restarting(device)
  // The boot loader has given the new version up.
  device.rauc.primary = 'rootfs.0'
  Object.assign(device.rauc.slots['rootfs.1'] ?? {}, { 'boot-status': 'bad' })
  await device.restartInto('A', '1.0.0')
  const { status, of } = await updating
  t.equal(status, 1)
  t.match(of['room-0'], { state: 'failed', reason: /^version 1\.1\.0 was rolled back: / })
})

t.test('a bundle that is not there', async t => {
  const owner = await fleetOf(t, [])
  t.match(await owner.run(['update', 'no.raucb', '--yes']), { status: 2, stderr: /update: there is no no\.raucb/ })
  t.match(await owner.run(['update', '--yes']), { status: 2, stderr: /update: missing BUNDLE/ })
  t.match(await owner.run(['update', 'next.raucb', '--yes', '--restart', 'later']), {
    status: 2,
    stderr: /none of now, window, manual/,
  })
})
