/** `receiverd update`, against a real service with RAUC at the other end of busctl(1). */
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { KERNEL } from '../../hal/files/kernel.ts'
import { type LargeFile, largeFile } from '../../hal/files/read.ts'
import { passingToken } from '../../src/cli/commands.ts'
import { ServiceClient } from '../../src/cli/service-client.ts'
import { discardUpdate, type InstallChoices, installUpdate, rollBack, updateStatus } from '../../src/cli/update.ts'
import { ManualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { MIB, startUpdateDevice, type UpdateDevice } from '../support/update-device.ts'

const ASKING: InstallChoices = { isSure: false, allowOlder: false, restart: undefined }
const RESTART_TAKES = 'The restart takes about two minutes, and a trial up to five more.'
const SURE = { ...ASKING, isSure: true }

/** An answer, or what happens before it. */
type Reply = boolean | (() => Promise<boolean>)

interface Told {
  readonly read: readonly string[]
  readonly shown: readonly string[]
  readonly failure: string | undefined
}

async function deviceOf(t: Test, prepare?: Parameters<typeof startUpdateDevice>[1]) {
  const wall = new ManualClock()
  const device = await startUpdateDevice(t, prepare, undefined, wall)
  const { network } = device
  const token = () => passingToken(device.service.key, { roles: ['admin:rw'], subject: 'update' }, wall.now(), 0)
  const client = new ServiceClient({ host: '127.0.0.1', port: network.port }, token)
  /** Does it with these answers to the questions in turn. */
  const told = async (act: (person: PersonOfTest) => Promise<void>, ...answers: readonly Reply[]): Promise<Told> => {
    const [read, shown, left]: [string[], string[], Reply[]] = [[], [], [...answers]]
    const failure = await act({
      say: line => void read.push(line),
      show: line => void shown.push(line),
      ask: async question => {
        read.push(question)
        const reply = left.shift() ?? false
        return typeof reply === 'boolean' ? reply : reply()
      },
    }).catch(error => error)
    return { read, shown, failure: failure?.message }
  }
  /** The clock of the command, which its pauses advance. */
  const clock = { ms: 0, perPause: 0 }
  return {
    ...device,
    clock,
    wall,
    status: () => updateStatus(client),
    /** An installation ends as soon as the command looks at it for the second time. */
    install: (path: string | LargeFile, choices: InstallChoices, end: () => unknown, ...answers: readonly Reply[]) => {
      const file = typeof path === 'string' ? opened(path) : path
      // The service needs some time to notice that a connection has broken.
      const wait = async (ms: number) => {
        clock.ms += Math.max(ms, clock.perPause)
        await sleep(ms / 20)
        if (device.rauc.operation === 'installing') await end()
      }
      return told(person => installUpdate(client, file, choices, person, { wait, now: () => clock.ms }), ...answers)
    },
    discard: (isSure: boolean, ...answers: readonly boolean[]) =>
      told(person => discardUpdate(client, isSure, person), ...answers),
    rollBack: (isSure: boolean, ...answers: readonly boolean[]) =>
      told(person => rollBack(client, isSure, person), ...answers),
  }
}

type PersonOfTest = Parameters<typeof rollBack>[2]

function opened(path: string): LargeFile {
  const file = largeFile(KERNEL, path)
  if (!file) throw new Error(`there is no ${path}`)
  return file
}

function fileOf(t: Test, bytes: number): string {
  const path = join(temporaryFolder(t), 'receiver.raucb')
  writeFileSync(path, randomBytes(bytes))
  return path
}

const digest = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex')

function whole({ service }: UpdateDevice): string {
  return digest(service.path('data/update/bundle'))
}

t.test('a bundle is sent, and installed and started after two questions', async t => {
  const device = await deviceOf(t)
  const { rauc, says, install, status, jobs } = device
  t.strictSame(await status(), ['Version 1.0.0 runs, in system A.', 'The other system is empty.'])
  says({ version: '1.1.0' })
  const path = fileOf(t, 3 * MIB)
  const no = await install(path, ASKING, () => undefined, false)
  t.strictSame(no.read, ['Install version 1.1.0? 1.0.0 runs.'])
  t.equal(no.failure, 'nothing was installed; the bundle stays on the device')
  t.ok(no.shown.includes('Sending: 100 % (3 of 3 MiB)'), no.shown.join('\n'))
  t.equal(whole(device), digest(path))
  t.equal((await status()).at(-1), 'Version 1.1.0 is on the device, checked, and not installed.')

  const lines: (readonly string[])[] = []
  const end = async () => {
    lines.push(await status())
    rauc.succeed('1.1.0')
  }
  const yes = await install(path, ASKING, end, true, true)
  t.strictSame(yes.read, [
    'Install version 1.1.0? 1.0.0 runs.',
    'Version 1.1.0 is installed.',
    'Restart the device now? Mirroring ends.',
    RESTART_TAKES,
  ])
  t.equal(yes.failure, undefined)
  t.match(lines[0]?.slice(1), [/^Version 1\.1\.0 is being installed, which takes some minutes: \d+ %\.$/])
  t.strictSame(jobs, ['reboot'])
})

t.test('a bundle that somebody left is not taken for another one of its size', async t => {
  const device = await deviceOf(t)
  device.says({ version: '1.1.0' })
  const [left, named] = [fileOf(t, 3 * MIB), fileOf(t, 3 * MIB)]
  await device.install(left, ASKING, () => undefined, false)
  t.equal(whole(device), digest(left))
  await device.install(named, ASKING, () => undefined, false)
  t.equal(whole(device), digest(named))
})

t.test('a bundle that somebody replaces before the answer is not installed', async t => {
  const { rauc, says, install, status } = await deviceOf(t)
  says({ version: '1.1.0' })
  const replaced = async () => {
    says({ version: '1.2.0' })
    await install(fileOf(t, 2 * MIB), ASKING, () => undefined, false)
    return true
  }
  const { read, failure } = await install(fileOf(t, MIB), ASKING, () => rauc.succeed('1.2.0'), replaced, false)
  t.strictSame(read, ['Install version 1.1.0? 1.0.0 runs.'])
  t.equal(failure, 'nothing was installed: the bundle of version 1.1.0 was replaced or removed meanwhile')
  t.equal((await status()).at(-1), 'Version 1.2.0 is on the device, checked, and not installed.')
})

t.test('an empty file, as of a download that failed, is not taken for what somebody left', async t => {
  const { rauc, says, install } = await deviceOf(t)
  says({ version: '1.1.0' })
  await install(fileOf(t, MIB), ASKING, () => undefined, false)
  const empty = await install(fileOf(t, 0), SURE, () => rauc.succeed('1.1.0'))
  t.strictSame(empty.read, [])
  t.equal(empty.failure, 'the bundle is an empty file')
})

t.test('a script is asked nothing, and learns what failed', async t => {
  const { rauc, says, install, jobs, status } = await deviceOf(t)
  const path = fileOf(t, MIB)
  says('signature verification failed: Verify error: self-signed certificate')
  t.match((await install(path, SURE, () => undefined)).failure, /^the service refused: .*not signed/)
  says({ version: '0.9.0' })
  t.equal(
    (await install(path, SURE, () => undefined)).failure,
    'version 0.9.0 is older than 1.0.0, which runs; --allow-older installs it',
  )
  const failed = await install(path, { ...SURE, allowOlder: true }, () => rauc.fail('write error'))
  t.match(failed.failure, /^the installation failed: /)
  const done = await install(path, { ...SURE, allowOlder: true }, () => rauc.succeed('0.9.0'))
  t.strictSame(done, {
    ...done,
    read: ['Version 0.9.0 is installed.', 'It starts when the device restarts.', RESTART_TAKES],
  })
  t.equal(done.failure, undefined)
  t.strictSame(jobs, [])
  t.match((await status()).join('\n'), /Version 0\.9\.0 is installed, and starts when the device restarts\./)
})

t.test('the service restarts meanwhile, and RAUC has ended without installing it', async t => {
  const device = await deviceOf(t)
  const { rauc, says, install } = device
  says({ version: '1.1.0' })
  const end = async () => {
    await device.service.close()
    Object.assign(rauc, { operation: 'idle', percent: 0 })
    await device.restartInto('A', '1.0.0')
  }
  const { read, failure } = await install(fileOf(t, MIB), SURE, end)
  t.equal(failure, 'the installation failed: interrupted')
  t.strictSame(read, [])
})

t.test('a device that comes no further is given up', async t => {
  const { rauc, says, install, clock, network, status } = await deviceOf(t)
  says({ version: '1.1.0' })
  const path = fileOf(t, MIB)
  clock.perPause = 20 * 60_000
  rauc.hold('InspectBundle')
  const checking = install(path, SURE, () => undefined)
  await eventually(() => rauc.isWaiting)
  network.breakOff()
  t.equal((await checking).failure, 'the bundle was not checked within 30 minutes')
  rauc.release()
  await eventually(async () => (await status()).at(-1)?.startsWith('Version 1.1.0 is on the device'))

  const percents = [50, 60, 60, 70]
  const { failure } = await install(path, SURE, async () => {
    const percent = percents.shift()
    if (percent === undefined) return
    rauc.percent = percent
    await eventually(async () => (await status()).some(line => line.endsWith(`: ${percent} %.`)))
  })
  t.equal(failure, 'the installation has stood still at 70 % for 30 minutes')
  t.strictSame(percents, [])
})

t.test('an installation that goes on without an end is given up', async t => {
  const { rauc, says, install, clock, status } = await deviceOf(t)
  says({ version: '1.1.0' })
  clock.perPause = 20 * 60_000
  let percent = 50
  const { failure } = await install(fileOf(t, MIB), SURE, async () => {
    percent++
    rauc.percent = percent
    await eventually(async () => (await status()).some(line => line.endsWith(`: ${percent} %.`)))
  })
  t.equal(failure, 'the installation was not over within 3 hours')
})

t.test('a connection that breaks off costs nothing that has arrived', async t => {
  const device = await deviceOf(t)
  const { says, install, network } = device
  says({ version: '1.1.0' })
  const path = fileOf(t, 24 * MIB)
  network.breaksAfter = 8 * MIB
  const { failure, shown } = await install(path, ASKING, () => undefined, false)
  t.equal(failure, 'nothing was installed; the bundle stays on the device')
  t.equal(shown.filter(line => line.includes('100 %')).length, 1)
  t.equal(whole(device), digest(path))
})

t.test('a bundle that changes while it is sent is not sent on', async t => {
  const { install, says } = await deviceOf(t)
  says({ version: '1.1.0' })
  const path = fileOf(t, 2 * MIB)
  const { chunks, ...rest } = opened(path)
  let tries = 0
  const rebuilt: LargeFile = {
    ...rest,
    async *chunks(from) {
      tries++
      for await (const chunk of chunks(from)) {
        yield chunk
        truncateSync(path, MIB)
      }
    },
  }
  const { failure } = await install(rebuilt, ASKING, () => undefined, false)
  t.equal(failure, 'the bundle cannot be read: the file has changed since it was opened')
  t.equal(tries, 1)
})

t.test('a token of the command that expires while a bundle is sent is replaced by another one', async t => {
  const device = await deviceOf(t)
  const { says, install, wall } = device
  says({ version: '1.1.0' })
  const path = fileOf(t, 2 * MIB)
  const { chunks, ...rest } = opened(path)
  let tries = 0
  const slow: LargeFile = {
    ...rest,
    async *chunks(from) {
      if (++tries === 1) wall.step(3_600_000)
      yield* chunks(from)
    },
  }
  const { failure } = await install(slow, ASKING, () => undefined, false)
  t.equal(failure, 'nothing was installed; the bundle stays on the device')
  t.equal(tries, 2)
  t.equal(whole(device), digest(path))
})

t.test('going back asks first', async t => {
  const { rollBack, rauc } = await deviceOf(t, ({ rauc }) =>
    Object.assign(rauc.slots['rootfs.1'] ?? {}, { status: 'ok', 'boot-status': 'good', 'bundle.version': '0.9.0' }),
  )
  const question = 'Restart into version 0.9.0? 1.0.0 runs. Mirroring ends, and all settings stay.'
  t.match(await rollBack(false, false), { read: [question], failure: 'nothing has changed' })
  t.notOk(rauc.did.some(call => call.startsWith('Mark')))
  t.match(await rollBack(false, true), {
    read: [question, `The device restarts into version 0.9.0. ${RESTART_TAKES}`],
  })
  t.ok(rauc.did.includes('Mark active rootfs.1'))
})

t.test('the new version is discarded, as a bundle or installed', async t => {
  const device = await deviceOf(t)
  t.match(await device.discard(true), { read: [], failure: 'there is no new version; 1.0.0 runs' })
  device.says({ version: '1.1.0' })
  const discarded = 'Version 1.1.0 is discarded.'
  await device.install(fileOf(t, MIB), ASKING, () => undefined, false)
  t.match(await device.discard(true), { read: [discarded], failure: undefined })
  await device.install(fileOf(t, MIB), { ...SURE, restart: 'manual' }, () => device.rauc.succeed('1.1.0'))
  const question = 'Discard version 1.1.0? 1.0.0 runs, and stays.'
  t.match(await device.discard(false, false), { read: [question], failure: 'nothing has changed' })
  t.match(await device.discard(false, true), { read: [question, discarded], failure: undefined })
  t.strictSame(await device.status(), [
    'Version 1.0.0 runs, in system A.',
    'The other system, version 1.1.0, cannot be started.',
    'Last: version 1.1.0 was discarded.',
  ])
})

t.test('there is nothing to go back to, or no answer: one line', async t => {
  const { rollBack, network, install } = await deviceOf(t)
  t.match((await rollBack(true)).failure, /^the service refused: The other system is empty/)
  network.isDown = true
  const { failure } = await install(fileOf(t, MIB), SURE, () => undefined)
  t.match(failure, /^the service at 127\.0\.0\.1:\d+ ended the connection before it had answered$/)
})
