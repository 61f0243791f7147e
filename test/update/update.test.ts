import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import type { FileSystem } from '../../hal/files/kernel.ts'
import { realRoot } from '../../hal/files/root.ts'
import { Rauc } from '../../hal/os/rauc.ts'
import { System } from '../../hal/os/system.ts'
import { Problem } from '../../src/problem.ts'
import type { Outcome } from '../../src/update/state.ts'
import { type Trial, TrialRecords } from '../../src/update/trial.ts'
import { type Delay, type KeptBundle, type Restart, Update } from '../../src/update/update.ts'
import type { Wait } from '../../src/update/wait.ts'
import { intercepted, systemError } from '../hal/support/file-system.ts'
import { eventually } from '../support/eventually.ts'
import { FakeRauc } from '../support/fakes/rauc.ts'
import { temporaryFolder } from '../support/folder.ts'

const CONFIGURATION = '[system]\ncompatible=receiver-virt\nmin-bundle-version=0.5.0\n'
const PATH = '/data/update/bundle'
const BUNDLE = { path: PATH, bytes: 1_000, source: 'upload' } as const
/** In place of the time between two attempts. */
const atOnce: Wait = (_, due) => {
  const soon = setImmediate(due)
  return () => clearImmediate(soon)
}
const good = (version: string) => ({ version, compatible: 'receiver-virt' })

/**
 * A device with the fake RAUC; it can be restarted, which begins a new run on the same files.
 * @param wait In place of the time between two looks.
 */
function device(t: Test, fs?: FileSystem, wait?: Wait) {
  const root = realRoot(temporaryFolder(t))
  const write = (path: string, text: string) => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  write('/etc/rauc/system.conf', CONFIGURATION)
  write('/proc/cmdline', 'console=ttyS0 rauc.slot=A quiet\n')
  write('/etc/os-release', 'NAME=Receiver\nIMAGE_VERSION=1.0.0\n')
  const rauc = new FakeRauc()
  const system = new System(root, { run: rauc.run, running: true })
  const records = new TrialRecords(new Files(join(root, 'data/update'), fs))
  mkdirSync(join(root, 'data/update'), { recursive: true })
  const log: string[] = []
  const restarts: string[] = []
  const state = {
    kept: undefined as KeptBundle | undefined,
    hasWindow: false,
    hindrance: undefined as Delay | undefined,
    /** Of the last restart that was asked for. */
    waitsFor: (_: Delay | undefined): void => undefined,
    canceled: 0,
    removal: Promise.resolve(),
  }
  const start = async (kept = records) => {
    const update: Update = new Update({
      system,
      rauc: new Rauc(system, 5),
      records: kept,
      expect: async () => ({ units: ['receiverd.service'], screen: false, interfaces: [] }),
      restarter: {
        get hasWindow() {
          return state.hasWindow
        },
        async restart(when, waitsFor) {
          restarts.push(when)
          state.waitsFor = waitsFor
          waitsFor(state.hindrance)
        },
        cancel: () => {
          state.canceled++
        },
      },
      bundle: () => state.kept,
      removeBundle: async () => {
        await state.removal
        update.removing()
        state.kept = undefined
      },
      ring: { maxEvents: 100, maxBytes: 100_000, newId: randomUUID },
      clock: { now: () => Date.parse('2026-11-25T01:00:00Z') },
      builtAt: 0,
      log: (level, line) => log.push(`${level}: ${line}`),
      ...(wait && { wait }),
    })
    await update.start()
    t.teardown(() => update.stop())
    return update
  }
  /** Has a bundle received. */
  const receive = async (update: Update, version: string) => {
    rauc.bundles.set(PATH, good(version))
    update.receiving('upload', 1_000, 0)
    update.kept(await update.received(PATH))
    state.kept = BUNDLE
  }
  /** Starts, and has begun to install 1.1.0. */
  const installing = async () => {
    const update = await start()
    await receive(update, '1.1.0')
    await update.install({}, 'Ann')
    return update
  }
  /** The device runs 1.1.0, which an update has installed. */
  const updated = async (isTrial: boolean) => {
    const update = await installing()
    rauc.succeed('1.1.0')
    await eventually(() => update.state.state === 'installed')
    rauc.bootSlot = 'B'
    if (!isTrial) await records.conclude({ version: '1.1.0', outcome: 'installed' })
  }
  return { write, rauc, records, log, restarts, state, start, receive, installing, updated }
}

const problem = (kind: string, detail: RegExp) => ({ kind, message: detail })

t.test('where it is impossible, each method says so, and RAUC is not asked', async t => {
  const cases: readonly (readonly [what: string, path: string, text: string])[] = [
    ['not from a slot', '/proc/cmdline', 'console=ttyS0\n'],
    ['no RAUC', '/etc/rauc/system.conf', ''],
  ]
  for (const [what, path, text] of cases) {
    const { write, rauc, start } = device(t)
    write(path, text)
    if (path.startsWith('/etc')) rauc.isAbsent = true
    const update = await start()
    const impossible = { kind: 'conflict', message: 'This device cannot be updated this way.' }
    t.throws(() => update.state, impossible, what)
    t.throws(() => update.receiving('upload', 1, 0), impossible, what)
    await t.rejects(update.install({}, 'Ann'), impossible, what)
    await t.rejects(update.rollback('Ann'), impossible, what)
    t.strictSame(rauc.did, [])
  }
})

t.test('a device as it was delivered', async t => {
  const { start, write } = device(t)
  write('/usr/lib/receiver/test-keys', '')
  const update = await start()
  t.strictSame(JSON.parse(update.current.json), {
    running: { version: '1.0.0', slot: 'A', state: 'good' },
    other: { state: 'empty' },
    state: 'idle',
    testKeys: true,
  })
  await t.rejects(update.install({}, 'Ann'), problem('conflict', /no bundle/))
  await t.rejects(update.rollback('Ann'), problem('conflict', /is empty/))
})

t.test('received, installed, restarted, and good', async t => {
  const { rauc, records, restarts, log, start, receive, write } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  t.match(update.state, { state: 'downloaded', bundle: { version: '1.1.0', bytes: 1_000, source: 'upload' } })
  await update.install({ restart: 'now' }, 'Ann')
  t.match(update.state, { state: 'installing', percent: 0, other: { version: '1.1.0', state: 'bad' } })
  t.match(await records.trial(), { slot: 'B', version: '1.1.0', from: '1.0.0', at: '2026-11-25T01:00:00Z' })
  await t.rejects(update.install({}, 'Bob'), problem('conflict', /being installed/))
  t.throws(() => update.removing(), problem('conflict', /being installed/))
  rauc.succeed('1.1.0')
  await eventually(() => update.state.state === 'restarting')
  t.notOk(update.state.bundle, 'it is not needed any more')
  t.match(update.state, { other: { version: '1.1.0', state: 'good' } })
  t.strictSame(restarts, ['now'])
  t.ok(log.includes('notice: Ann began to install version 1.1.0'))

  rauc.bootSlot = 'B'
  write('/etc/os-release', 'IMAGE_VERSION=1.1.0\n')
  const next = await start()
  t.match(next.state, {
    running: { version: '1.1.0', slot: 'B', state: 'trial' },
    other: { version: '1.0.0' },
    state: 'idle',
  })
  await receive(next, '1.2.0')
  await t.rejects(next.install({}, 'Ann'), problem('conflict', /on trial/), 'it would replace the system to go back to')
  const before = next.current.id
  await records.conclude({ version: '1.1.0', outcome: 'installed' })
  await eventually(() => next.state.running.state === 'good')
  t.match(next.state.last, { version: '1.1.0', outcome: 'installed' })
  t.not(next.current.id, before)
})

t.test('a trial that ends while the service starts has ended', async t => {
  const { rauc, records, start, updated } = device(t)
  await updated(true)
  rauc.hold('GetSlotStatus')
  const starting = start()
  await eventually(() => rauc.isWaiting)
  await records.conclude({ version: '1.1.0', outcome: 'installed' })
  rauc.release()
  const update = await starting
  await eventually(() => update.state.running.state === 'good')
  t.match(update.state.last, { version: '1.1.0', outcome: 'installed' })
  update.requireResettable()
})

t.test('when it restarts', async t => {
  const cases: readonly (readonly [
    hasWindow: boolean,
    restart: 'now' | 'window' | 'manual' | undefined,
    restarts: string[],
  ])[] = [
    [false, undefined, []],
    [true, undefined, ['window']],
    [true, 'manual', []],
    [true, 'now', ['now']],
    [false, 'now', ['now']],
  ]
  for (const [hasWindow, restart, expected] of cases) {
    const { rauc, restarts, state, start, receive } = device(t)
    Object.assign(state, { hasWindow, hindrance: 'sessions' })
    const update = await start()
    await receive(update, '1.1.0')
    await update.install(restart ? { restart } : {}, 'Ann')
    rauc.succeed('1.1.0')
    await eventually(() => update.state.state === 'installed' && restarts.length === expected.length)
    t.strictSame(restarts, expected, `${hasWindow} ${restart}`)
    t.equal(update.state.waitingFor, expected.length > 0 ? 'sessions' : undefined)
    await t.rejects(update.rollback('Ann'), problem('conflict', /1.1.0 is installed/))
    await t.rejects(update.install({}, 'Ann'), problem('conflict', /1.1.0 is installed/))
    // The service is restarted while the device waits.
    restarts.length = 0
    const next = await start()
    t.match(next.state, { state: 'installed' })
    t.strictSame(restarts, expected, 'it waits on')
  }
  const { start, receive } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  await t.rejects(update.install({ restart: 'window' }, 'Ann'), problem('conflict', /No window/))
})

t.test('installed by the policy without a window: as by hand, until one is set', async t => {
  const { rauc, records, restarts, state, start, receive } = device(t)
  state.hindrance = 'manual'
  const update = await start()
  await receive(update, '1.1.0')
  await update.install({ restart: 'window', isWindowToCome: true }, 'the policy')
  rauc.succeed('1.1.0')
  await eventually(() => restarts.length === 1)
  t.match(await records.trial(), { restart: 'window' })
  await update.stop()

  const next = await start()
  t.strictSame(restarts, ['window', 'window'], 'a restart of the service changes nothing')
  for (const [delay, waitingFor] of [
    ['manual', undefined],
    ['window', 'window'],
    ['sessions', 'sessions'],
    ['manual', undefined],
  ] as const) {
    state.waitsFor(delay)
    t.equal(next.state.state, 'installed')
    t.equal(JSON.parse(next.current.json).waitingFor, waitingFor)
  }
  state.waitsFor(undefined)
  t.equal(next.state.state, 'restarting')
})

t.test('an older version only if it is asked for', async t => {
  const cases: readonly (readonly [version: string, isOlder: boolean])[] = [
    ['0.9.0', true],
    ['1.0.0-rc.1', true],
    ['1.0.0', false],
    ['1.0.0+b', false],
  ]
  for (const [version, isOlder] of cases) {
    const { rauc, start, receive } = device(t)
    const update = await start()
    await receive(update, version)
    if (isOlder) await t.rejects(update.install({}, 'Ann'), problem('bundle-older', /older than 1.0.0/), version)
    await update.install(isOlder ? { allowOlder: true } : {}, 'Ann')
    t.ok(rauc.did.includes('InstallBundle bundle'), version)
  }
})

t.test('a bundle that is refused', async t => {
  const cases: readonly (readonly [kind: string, bundle: string | { version: string; compatible: string }])[] = [
    ['bundle-signature', 'signature verification failed: Verify error: self-signed certificate'],
    ['bundle-damaged', 'Invalid bundle format: Signature size (8245935927064750007) exceeds bundle size'],
    ['bundle-compatible', { version: '1.1.0', compatible: 'receiver-pi' }],
    ['bundle-too-old', good('0.4.9')],
    ['bundle-too-old', good('nonsense')],
    ['system-refused', 'already processing a different method'],
  ]
  for (const [kind, bundle] of cases) {
    const { rauc, start } = device(t, undefined, atOnce)
    const update = await start()
    rauc.bundles.set(PATH, bundle)
    update.receiving('upload', 1_000, 1_000)
    const refused = await update.received(PATH).then(
      () => undefined,
      error => error,
    )
    t.ok(refused instanceof Problem && refused.kind === kind, kind)
    update.dropped(refused)
    t.match(update.state, { state: 'failed', error: { type: `urn:receiverd:problem:${kind}` } })
    t.notOk(update.state.bundle)
    t.notMatch(update.current.json, /\/data|self-signed|Signature size/, 'nothing of the bundle, and no path')
  }
})

t.test('replaced after it was checked', async t => {
  const { rauc, records, start, receive } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  rauc.bundles.set(PATH, 'signature verification failed: Verify error: self-signed certificate')
  await t.rejects(update.install({}, 'Ann'), problem('bundle-signature', /not signed/))
  t.match(update.state, { state: 'failed', last: { outcome: 'failed' } })
  t.notOk(rauc.did.includes('InstallBundle bundle'))
  t.equal(await records.trial(), undefined)
})

t.test('an installation that fails', async t => {
  const cases: readonly (readonly [words: string, kind: string, reason: RegExp])[] = [
    [
      'Installation error: Failed updating slot rootfs.1: Failed to copy data: Error writing to file descriptor: No space left on device',
      'system-refused',
      /RAUC could not/,
    ],
    [
      'Installation error: Failed updating slot rootfs.1: Failed to copy data: Error writing to file descriptor: Input/output error',
      'system-refused',
      /replace the card/,
    ],
    [
      "Installation error: Destination device '/dev/receiver/b' for slot 'rootfs.1' not found",
      'system-refused',
      /8 GB or more/,
    ],
  ]
  for (const [words, kind, reason] of cases) {
    const { rauc, records, log, installing } = device(t)
    const update = await installing()
    rauc.fail(words)
    await eventually(() => update.state.state === 'failed')
    t.match(update.state, { error: { type: `urn:receiverd:problem:${kind}` }, last: { outcome: 'failed', reason } })
    t.match(update.state, { bundle: { version: '1.1.0' }, other: { state: 'bad' } })
    t.equal(await records.trial(), undefined)
    t.ok(
      log.some(line => line.startsWith('error: version 1.1.0 was not installed') && line.includes(words)),
      'in its words',
    )
    await update.install({}, 'Ann')
    t.match(update.state, { state: 'installing' }, 'it can be tried again')
  }
})

t.test(
  'a bundle that RAUC refuses while it installs it is removed, and not taken for a good one after a restart',
  async t => {
    const cases: readonly (readonly [words: string, kind: string])[] = [
      ["Version mismatch: Expected at least '1.0.0' but bundle manifest has '0.9.0'", 'bundle-too-old'],
      [
        'Installation error: Failed updating slot rootfs.1: Error reading from file: Input/output error',
        'bundle-damaged',
      ],
    ]
    for (const [words, kind] of cases) {
      const { rauc, log, state, installing } = device(t)
      const update = await installing()
      rauc.fail(words)
      await eventually(() => state.kept === undefined)
      await eventually(() => update.state.state === 'failed')
      t.match(update.state, { error: { type: `urn:receiverd:problem:${kind}` }, last: { outcome: 'failed' } })
      t.equal(update.state.bundle, undefined)
      t.ok(log.some(line => line.includes(words)))
    }
  },
)

t.test('RAUC dies while it installs', async t => {
  const { rauc, installing } = device(t)
  const update = await installing()
  Object.assign(rauc, { operation: 'idle', percent: 0 })
  await eventually(() => update.state.state === 'failed')
  t.match(update.state.error, { detail: /RAUC ended before/ })
})

t.test('RAUC dies while it installs, and does not start again', async t => {
  let looks = 0
  const { rauc, records, log, installing } = device(t, undefined, (ms, due) => {
    if (ms === 1_000) looks++
    const soon = setImmediate(due)
    return () => clearImmediate(soon)
  })
  const update = await installing()
  rauc.isAbsent = true
  await eventually(() => update.state.state === 'failed')
  t.equal(looks, 30, 'the person is told after half a minute')
  t.match(update.state, { last: { version: '1.1.0', outcome: 'failed' } })
  t.match(log.at(-1), /^error: version 1\.1\.0 was not installed: /)
  t.match(await records.trial(), { version: '1.1.0' }, 'if the version is started all the same, it is judged')
})

t.test('as long as RAUC may start the version, its trial is on record', async t => {
  const { rauc, records, log, start, receive } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  await update.install({ restart: 'manual' }, 'Ann')
  rauc.isAbsent = true
  await eventually(() => log.some(line => line.startsWith('warning: following the installation of version 1.1.0: ')))
  t.match(update.state, { state: 'installing' })
  t.match(await records.trial(), { slot: 'B', version: '1.1.0' })
  rauc.isAbsent = false
  rauc.succeed('1.1.0')
  await eventually(() => update.state.state === 'installed')
  t.match(await records.trial(), { slot: 'B', version: '1.1.0' })
})

t.test('the answer is lost with which RAUC begins, or says that it does not', async t => {
  const { rauc, records, start, receive } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  rauc.unanswered.add('InstallBundle')
  await update.install({}, 'Ann')
  t.match(update.state, { state: 'installing' })
  t.match(await records.trial(), { slot: 'B', version: '1.1.0' })
  rauc.succeed('1.1.0')
  await eventually(() => update.state.state === 'installed')
  const other = device(t)
  const next = await other.start()
  await other.receive(next, '1.1.0')
  other.rauc.refused.add('InstallBundle')
  await t.rejects(next.install({}, 'Ann'), problem('system-refused', /./))
  t.match(next.state, { state: 'failed' })
  t.equal(await other.records.trial(), undefined)
})

t.test('RAUC ends after it has told the boot loader, and before it has noted that', async t => {
  const cases: readonly (readonly [what: string, rest: object])[] = [
    ['it died', { percent: 0 }],
    ['it failed', { lastError: 'Failed to save the status of rootfs.1: No space left on device' }],
  ]
  for (const [what, rest] of cases) {
    const { rauc, records, start, receive } = device(t)
    const update = await start()
    await receive(update, '1.1.0')
    await update.install({ restart: 'manual' }, 'Ann')
    rauc.succeed('1.1.0')
    Object.assign(rauc.slots['rootfs.1'] ?? {}, { 'activated.timestamp': '2026-11-24T00:00:00Z' })
    Object.assign(rauc, rest)
    await eventually(() => update.state.state === 'installed')
    t.match((await start()).state, { state: 'installed' }, what)
    t.match(await records.trial(), { slot: 'B', version: '1.1.0' }, 'it will be judged')
    // It went back. RAUC knows of no activation, but the judge has said why.
    await records.condemn({ slot: 'B', version: '1.1.0', reason: 'nginx does not answer' })
    rauc.primary = 'rootfs.0'
    t.match((await start()).state, {
      other: { version: '1.1.0', state: 'bad' },
      last: { outcome: 'rolled back', reason: 'nginx does not answer' },
    })
    t.equal(rauc.did.at(-1), 'Mark bad rootfs.1')
  }
})

t.test('a start that fails leaves nothing begun, and the next one goes on', async t => {
  const { rauc, records, log, restarts, start, receive } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  await update.install({ restart: 'now' }, 'Ann')
  rauc.succeed('1.1.0')
  await eventually(() => restarts.length === 1)
  rauc.refused.add('GetPrimary')
  const failed = await start()
  t.throws(() => failed.state, { kind: 'conflict', message: 'This device cannot be updated this way.' })
  t.match(log.at(-1), /^warning: the firmware cannot be updated: /)
  t.match(await records.trial(), { version: '1.1.0' })
  rauc.refused.clear()
  t.match((await start()).state, { state: 'restarting' })
  t.strictSame(restarts, ['now', 'now'])
})

t.test('a version that went back, and cannot be taken out of the order', async t => {
  const { rauc, records, start, receive } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  await update.install({ restart: 'manual' }, 'Ann')
  rauc.succeed('1.1.0')
  await eventually(() => update.state.state === 'installed')
  rauc.primary = 'rootfs.0'
  rauc.refused.add('Mark')
  t.match((await start()).state, { state: 'idle', last: { outcome: 'rolled back', reason: 'did not start' } })
  t.match(await records.trial(), { version: '1.1.0' }, 'it is tried again')
  rauc.refused.clear()
  t.match((await start()).state, { other: { state: 'bad' }, last: { outcome: 'rolled back' } })
  t.equal(await records.trial(), undefined)
})

t.test('an installation fails, and RAUC cannot tell which version is started next', async t => {
  let looks = 0
  const { rauc, records, log, start, receive } = device(t, undefined, (ms, due) => {
    // As the state is made anew.
    if (ms === 1_000 && ++looks === 5) rauc.refused.delete('GetPrimary')
    const soon = setImmediate(due)
    return () => clearImmediate(soon)
  })
  const update = await start()
  await receive(update, '1.1.0')
  const fails = async () => {
    await update.install({ restart: 'manual' }, 'Ann')
    rauc.refused.add('GetPrimary')
    rauc.fail('Failed to run fw_setenv: Child process exited with code 243')
    await eventually(() => update.state.state === 'failed')
    t.match(update.state, { other: { state: 'bad' }, last: { version: '1.1.0', outcome: 'failed' } })
    t.match(log.at(-1), /^error: version 1\.1\.0 was not installed: .*fw_setenv/)
  }
  await fails()
  t.equal(looks, 5)
  t.equal(await records.trial(), undefined, 'it is certain')
  await fails()
  t.equal(looks, 35, 'it never tells, and the person is told after half a minute')
  t.match(await records.trial(), { version: '1.1.0' }, 'if it is started all the same, it is judged')
  rauc.refused.clear()
  await update.stop()
  t.match((await start()).state, { state: 'idle', last: { outcome: 'failed', reason: 'interrupted' } })
})

t.test('the service is restarted while RAUC installs', async t => {
  const { rauc, start, installing } = device(t)
  await (await installing()).stop()
  const next = await start()
  t.match(next.state, { state: 'installing', other: { version: '1.1.0', state: 'bad' } })
  rauc.succeed('1.1.0')
  await eventually(() => next.state.state === 'installed')
})

t.test(
  'a full partition: what became of it cannot be recorded, and the device can be updated all the same',
  async t => {
    let isFull = false
    const fs = intercepted(call => {
      if (isFull && call.name === 'file.write') throw systemError('ENOSPC')
      return call.proceed()
    })
    const { rauc, log, records, start, installing } = device(t, fs)
    const update = await installing()
    rauc.succeed('1.1.0')
    await eventually(() => update.state.state === 'installed')
    await update.stop()
    rauc.primary = 'rootfs.0'
    isFull = true
    const last = { version: '1.1.0', outcome: 'rolled back', reason: 'did not start' }
    const next = await start()
    t.match(next.state, { state: 'idle', last })
    t.match(
      log.join('\n'),
      /^warning: the record of version 1.1.0 stays until the next start: no space left on device/m,
    )
    await next.stop()
    isFull = false
    t.match((await start()).state, { state: 'idle', last })
    t.notOk(await records.isTrial(), 'it is recorded when there is room')
  },
)

t.test('nothing is installed while the data partition could not be mounted', async t => {
  const { write, rauc, start, receive } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  write('/run/receiver-without-data', '')
  await t.rejects(update.install({}, 'Ann'), problem('conflict', /could not be mounted/))
  t.match(update.state, { state: 'downloaded' })
  t.notOk(rauc.did.some(call => /install/i.test(call)))
})

t.test('the fate of a version that is not running', async t => {
  const cases: readonly (readonly [what: string, verdict: string | undefined, isWritten: boolean, last: object])[] = [
    ['it did not start', undefined, true, { outcome: 'rolled back', reason: 'did not start' }],
    [
      'the judge had a reason',
      'nginx does not answer',
      true,
      { outcome: 'rolled back', reason: 'nginx does not answer' },
    ],
    ['the power was cut', undefined, false, { outcome: 'failed', reason: 'interrupted' }],
  ]
  for (const [what, verdict, isWritten, last] of cases) {
    const { rauc, records, log, start, installing } = device(t)
    await (await installing()).stop()
    if (isWritten) rauc.succeed('1.1.0')
    Object.assign(rauc, { primary: isWritten ? 'rootfs.0' : '', operation: 'idle', percent: 0 })
    if (verdict) await records.condemn({ slot: 'B', version: '1.1.0', reason: verdict })
    const next = await start()
    t.match(
      next.state,
      { running: { slot: 'A', state: 'good' }, state: 'idle', last: { version: '1.1.0', ...last } },
      what,
    )
    t.equal(await records.trial(), undefined)
    t.equal(await records.verdict(), undefined)
    t.equal(rauc.did.includes('Mark bad rootfs.1'), isWritten, 'it is not started again')
    t.equal(next.state.other.state, 'bad')
    t.match(log.at(-1), /^warning: version 1\.1\.0 was (rolled back|not installed): /)
    t.match((await start()).state.last, last, 'and it stays known')
  }
})

t.test('back to the other system by hand during a trial, which ends it', async t => {
  const { rauc, records, restarts, start, updated } = device(t)
  await updated(true)
  const next = await start()
  t.match(next.state, { running: { state: 'trial' }, other: { version: '1.0.0', state: 'good' } })
  await next.rollback('Ann')
  t.equal(next.state.state, 'restarting')
  t.equal(rauc.did.at(-1), 'Mark active rootfs.0')
  t.strictSame(restarts, ['now'])
  rauc.bootSlot = 'A'
  t.match((await start()).state, {
    running: { slot: 'A', state: 'good' },
    other: { version: '1.1.0', state: 'bad' },
    last: { version: '1.1.0', outcome: 'rolled back', reason: 'asked for' },
  })
  t.equal(rauc.did.at(-1), 'Mark bad rootfs.1')
  t.equal(await records.trial(), undefined)
})

t.test('a version that proved good long ago, and that somebody goes back to', async t => {
  const left = { version: '1.1.0', outcome: 'rolled back', reason: 'asked for', at: '2026-11-25T01:00:00Z' }
  /** The device runs 1.1.0, and somebody is about to go back to 1.0.0. */
  const newer = async (t: Test) => {
    const made = device(t)
    await made.updated(false)
    const bootIs = (id: string) => made.write('/proc/sys/kernel/random/boot_id', `${id}\n`)
    const boots = (slot: 'A' | 'B', version: string, id: string) => {
      made.rauc.bootSlot = slot
      made.write('/etc/os-release', `IMAGE_VERSION=${version}\n`)
      bootIs(id)
      return made.start()
    }
    return { ...made, boots, update: await boots('B', '1.1.0', 'first') }
  }
  /** The same, and 1.0.0 runs. */
  const returned = async (t: Test) => {
    const made = await newer(t)
    await made.update.rollback('Ann')
    return { ...made, back: await made.boots('A', '1.0.0', 'second') }
  }
  await t.test('is on trial, and the version that was left is refused', async t => {
    const { rauc, records, restarts, log, update } = await newer(t)
    rauc.hold('Mark')
    const going = update.rollback('Ann')
    await eventually(() => rauc.isWaiting)
    const before = await records.trial()
    rauc.release()
    await going
    const trial = {
      ...{ slot: 'A', version: '1.0.0', from: '1.1.0', bootId: 'first', restart: 'now', at: '2026-11-25T01:00:00Z' },
      expect: { units: ['receiverd.service'], screen: false, interfaces: [] },
      isReturn: true,
    }
    t.strictSame(before, trial, 'before it can start')
    t.strictSame(await records.trial(), trial)
    t.equal(rauc.did.at(-1), 'Mark active rootfs.0')
    t.strictSame(restarts, ['now'])
    t.strictSame(await records.last(), left)
    t.strictSame(await records.refused(), ['1.1.0'])
    t.equal(log.at(-1), 'notice: Ann went back from version 1.1.0 to 1.0.0')
  })

  await t.test('is good', async t => {
    const { records, back } = await returned(t)
    t.match(back.state, {
      running: { version: '1.0.0', slot: 'A', state: 'trial' },
      other: { version: '1.1.0', state: 'good' },
      state: 'idle',
      last: left,
    })
    t.throws(() => back.requireResettable(), problem('conflict', /on trial/))
    await records.conclude(left as Outcome)
    await eventually(() => back.state.running.state === 'good')
    t.match(back.state, { last: left, other: { version: '1.1.0', state: 'good' } })
    back.requireResettable()
    // And to the newer version again.
    await back.rollback('Ann')
    t.match(await records.trial(), { slot: 'B', version: '1.1.0', from: '1.0.0' })
    t.match(await records.last(), { version: '1.0.0', outcome: 'rolled back', reason: 'asked for' })
  })

  await t.test('is not good: the newer version runs again, and says why', async t => {
    for (const reason of ['nginx does not answer', undefined]) {
      const { rauc, records, boots, back } = await returned(t)
      await back.stop()
      if (reason) await records.condemn({ slot: 'A', version: '1.0.0', reason })
      Object.assign(rauc.slots['rootfs.0'] ?? {}, { 'boot-status': 'bad' })
      rauc.primary = 'rootfs.1'
      const again = await boots('B', '1.1.0', 'third')
      const last = { version: '1.0.0', outcome: 'rolled back', reason: reason ?? 'did not start' }
      t.match(again.state, {
        running: { version: '1.1.0', slot: 'B', state: 'good' },
        other: { version: '1.0.0', state: 'bad' },
        state: 'idle',
        last,
      })
      t.equal(rauc.did.at(-1), 'Mark bad rootfs.0')
      t.equal(await records.trial(), undefined)
      t.strictSame(await records.refused(), ['1.1.0', '1.0.0'], 'the policy installs neither, and any newer version')
      await t.rejects(again.rollback('Ann'), problem('conflict', /is bad/))
    }
  })

  await t.test('cannot even be loaded', async t => {
    const { rauc, boots, update, restarts } = await newer(t)
    await update.rollback('Ann')
    restarts.length = 0
    const again = await boots('B', '1.1.0', 'second')
    t.match(again.state, {
      state: 'idle',
      other: { version: '1.0.0', state: 'bad' },
      last: { version: '1.0.0', outcome: 'rolled back', reason: 'did not start' },
    })
    t.equal(rauc.primary, 'rootfs.1')
    t.strictSame(restarts, [])
  })

  await t.test('is left again during its trial', async t => {
    const { rauc, records, boots, back } = await returned(t)
    await back.rollback('Ben')
    t.match(await records.verdict(), { slot: 'A', version: '1.0.0', reason: 'asked for' })
    t.match(
      await records.trial(),
      { slot: 'A', version: '1.0.0' },
      'it is the one that is judged, if it starts once more',
    )
    t.equal(rauc.did.at(-1), 'Mark active rootfs.1')
    const again = await boots('B', '1.1.0', 'third')
    t.match(again.state, {
      running: { version: '1.1.0', state: 'good' },
      other: { version: '1.0.0', state: 'bad' },
      last: { version: '1.0.0', outcome: 'rolled back', reason: 'asked for' },
    })
    t.equal(await records.trial(), undefined)
  })

  await t.test('the service starts once more before the device does', async t => {
    const { update, restarts, boots } = await newer(t)
    await update.rollback('Ann')
    await update.stop()
    t.match((await boots('B', '1.1.0', 'first')).state, { state: 'restarting', last: left })
    t.strictSame(restarts, ['now', 'now'])
  })

  await t.test('the power is cut before RAUC is told', async t => {
    const { rauc, records, log, boots, update } = await newer(t)
    const before = await records.last()
    rauc.hold('Mark')
    // Its answer never comes.
    void update.rollback('Ann')
    await eventually(() => rauc.isWaiting)
    rauc.hold('nothing')
    const again = await boots('B', '1.1.0', 'second')
    t.match(again.state, { state: 'idle', other: { version: '1.0.0', state: 'good' }, last: before })
    t.equal(log.at(-1), 'warning: going back to version 1.0.0 was interrupted')
    t.equal(await records.trial(), undefined)
    t.notOk(rauc.did.includes('Mark bad rootfs.0'), 'the device can still go back')
  })

  await t.test('RAUC refuses: nothing has changed', async t => {
    const { rauc, records, restarts, update } = await newer(t)
    const before = await records.last()
    rauc.refused.add('Mark')
    await t.rejects(update.rollback('Ann'), problem('system-refused', /./))
    t.match(update.state, { state: 'idle', other: { version: '1.0.0', state: 'good' } })
    t.strictSame([await records.isTrial(), await records.last(), await records.refused()], [false, before, []])
    t.strictSame(restarts, [])
    // It may have told the boot loader, and does not answer.
    rauc.refused.add('GetPrimary')
    await t.rejects(update.rollback('Ann'), problem('system-refused', /./))
    t.match(await records.trial(), { slot: 'A', version: '1.0.0' }, 'if it starts, it is judged')
    rauc.refused.clear()
    await update.rollback('Ann')
    t.strictSame(restarts, ['now'])
  })
})

t.test('a version that waits for the restart is discarded', async t => {
  const last = { version: '1.1.0', outcome: 'discarded', at: '2026-11-25T01:00:00Z' }
  const discarded = { running: { slot: 'A' }, other: { version: '1.1.0', state: 'bad' }, state: 'idle', last }
  const waiting = async (t: Test, restart: Restart = 'window') => {
    const made = device(t)
    Object.assign(made.state, { hasWindow: true, hindrance: 'window' })
    const update = await made.start()
    await made.receive(update, '1.1.0')
    await update.install({ restart }, 'Ann')
    made.rauc.succeed('1.1.0')
    await eventually(() => update.state.state === 'installed' && (restart === 'manual' || update.state.waitingFor))
    return { ...made, update }
  }

  await t.test('by two people at once', async t => {
    const { rauc, records, log, restarts, state, update, start, receive } = await waiting(t)
    const canceled = state.canceled
    await Promise.all([update.discard('Ann'), update.discard('Ben')])
    t.match(update.state, discarded)
    t.notOk('waitingFor' in JSON.parse(update.current.json))
    t.strictSame(
      rauc.did.filter(call => call.startsWith('Mark')),
      ['Mark bad rootfs.1'],
    )
    t.equal(state.canceled, canceled + 1, 'it is not restarted in the window')
    t.equal(await records.trial(), undefined)
    t.strictSame(await records.refused(), ['1.1.0'])
    t.equal(log.at(-1), 'notice: Ann discarded version 1.1.0')
    await t.rejects(update.discard('Ann'), problem('conflict', /^No installed version/))
    await t.rejects(update.rollback('Ann'), problem('conflict', /is bad/))
    t.match((await start()).state, { last }, 'and it stays known')
    t.strictSame(restarts, ['window'])
    // It may be installed after all.
    await receive(update, '1.1.0')
    await update.install({ restart: 'manual' }, 'Ann')
    rauc.succeed('1.1.0')
    await eventually(() => update.state.state === 'installed')
  })

  await t.test('all of it in one event', async t => {
    const { update } = await waiting(t)
    const { log } = update.topic
    await eventually(() => update.current.json.includes('waitingFor') && update.topic.latestId === update.current.id)
    const from = log.head
    await update.discard('Ann')
    await eventually(() => log.head > from)
    const events = JSON.parse(log.array(from).bytes.toString())
    t.match(events, [{ data: discarded }])
    t.equal(events.length, 1)
  })

  await t.test('RAUC has done it, and its answer is lost', async t => {
    const { rauc, update } = await waiting(t)
    rauc.unanswered.add('Mark')
    await update.discard('Ann')
    t.match(update.state, discarded)
  })

  await t.test('RAUC refuses: it waits on, and is judged as if nobody had asked', async t => {
    for (const restart of ['window', 'now', 'manual'] as const) {
      const { rauc, records, restarts, state, update, start } = await waiting(t, restart === 'now' ? 'manual' : restart)
      const trial = { ...(await records.trial()), restart }
      await records.begin(trial as Trial)
      rauc.refused.add('Mark')
      await t.rejects(update.discard('Ann'), problem('system-refused', /./))
      t.match(update.state, { state: 'installed', other: { state: 'good' } })
      t.strictSame(restarts, restart === 'window' ? ['window', 'window'] : [], 'not at once')
      t.same(await records.trial(), { ...trial, isDiscarded: false })
      rauc.refused.clear()
      Object.assign(state, { hindrance: undefined })
      Object.assign(rauc, { primary: 'rootfs.0' })
      Object.assign(rauc.slots['rootfs.1'] ?? {}, { 'boot-status': 'bad' })
      t.match((await start()).state.last, { outcome: 'rolled back', reason: 'did not start' })
    }
  })

  await t.test('the service ends before RAUC is told, or before the record is closed', async t => {
    for (const isTold of [false, true]) {
      const { rauc, records, start } = await waiting(t)
      const trial = await records.trial()
      if (trial) await records.begin({ ...trial, isDiscarded: true })
      if (isTold) await new Rauc(new System('/', { run: rauc.run, running: true }), 5).mark('bad', 'B')
      const next = await start()
      t.match(next.state, discarded, `${isTold}`)
      t.equal(rauc.did.at(-1), 'Mark bad rootfs.1')
      t.equal(await records.trial(), undefined)
    }
  })

  await t.test('the next start cannot tell RAUC, either: it can be discarded again', async t => {
    const { rauc, records, restarts, start } = await waiting(t)
    const trial = await records.trial()
    if (trial) await records.begin({ ...trial, isDiscarded: true })
    rauc.refused.add('Mark')
    restarts.length = 0
    const next = await start()
    t.match(next.state, { state: 'installed', waitingFor: 'window', other: { state: 'good' } })
    t.notOk(next.state.last)
    t.strictSame(restarts, ['window'])
    rauc.refused.clear()
    await next.discard('Ann')
    t.match(next.state, discarded)
    t.equal(await records.trial(), undefined)
  })

  await t.test('without its record, or with one that cannot be read', async t => {
    for (const spoil of [
      (records: TrialRecords) => records.remove(),
      async ({ folder }: TrialRecords) => folder.writeAtomic('/trial.json', 'no json', 0o600),
      async ({ folder }: TrialRecords) => {
        await folder.remove('/trial.json')
        mkdirSync(join(folder.root, 'trial.json'))
      },
    ]) {
      const { rauc, records, update } = await waiting(t)
      await spoil(records)
      await update.discard('Ann')
      t.match(update.state, discarded)
      t.ok(rauc.did.includes('Mark bad rootfs.1'))
    }
  })

  await t.test('while the bundle is being removed: no restart follows', async t => {
    const { rauc, restarts, state, start, receive } = device(t)
    Object.assign(state, { hasWindow: true, hindrance: 'window' })
    let remove = () => {}
    state.removal = new Promise(resolve => {
      remove = resolve
    })
    const update = await start()
    await receive(update, '1.1.0')
    await update.install({}, 'Ann')
    rauc.succeed('1.1.0')
    await eventually(() => update.state.state === 'installed')
    await update.discard('Ann')
    remove()
    await eventually(() => state.kept === undefined)
    t.match(update.state, discarded)
    t.strictSame(restarts, [])
  })
})

t.test('a version that the boot loader cannot load', async t => {
  const { rauc, records, restarts, write, start, receive } = device(t)
  const bootIs = (id: string) => write('/proc/sys/kernel/random/boot_id', `${id}\n`)
  bootIs('first')
  const update = await start()
  await receive(update, '1.1.0')
  await update.install({ restart: 'now' }, 'Ann')
  rauc.succeed('1.1.0')
  await eventually(() => update.state.state === 'restarting')
  // Two attempts are left, which would be two more restarts.
  bootIs('second')
  restarts.length = 0
  const next = await start()
  t.match(next.state, {
    state: 'idle',
    other: { state: 'bad' },
    last: { outcome: 'rolled back', reason: 'did not start' },
  })
  t.strictSame(restarts, [])
  t.equal(rauc.did.at(-1), 'Mark bad rootfs.1')
  t.equal(await records.trial(), undefined)
})

t.test('a good version no longer runs, and nobody asked for that', async t => {
  const cases: readonly (readonly [state: 'good' | 'bad', reason: string])[] = [
    ['good', 'the boot loader started this system instead'],
    ['bad', 'did not start'],
  ]
  for (const [state, reason] of cases) {
    const { rauc, records, log, start, updated } = device(t)
    await updated(false)
    Object.assign(rauc, { bootSlot: 'A', primary: 'rootfs.0' })
    Object.assign(rauc.slots['rootfs.1'] ?? {}, { 'boot-status': state })
    const last = { version: '1.1.0', outcome: 'rolled back', reason, at: '2026-11-25T01:00:00Z' }
    t.match((await start()).state, { running: { slot: 'A' }, other: { version: '1.1.0', state }, last })
    t.equal(log.at(-1), `warning: version 1.1.0 no longer runs: ${reason}`)
    t.same(await records.last(), last)
    const said = log.length
    t.match((await start()).state, { last })
    t.equal(log.length, said, 'it is said once')
  }
})

t.test('back by hand on a full disk', async t => {
  for (const isTrial of [false, true]) {
    const { rauc, records, log, restarts, start, updated } = device(t)
    await updated(isTrial)
    const full = new TrialRecords(
      new Files(
        records.folder.root,
        intercepted(call => {
          if (call.name === 'file.write') throw systemError('ENOSPC')
          return call.proceed()
        }),
      ),
    )
    const next = await start(full)
    // RAUC cannot write, either: the boot loader's state is elsewhere.
    rauc.unanswered.add('Mark')
    await next.rollback('Ann')
    t.equal(next.state.state, 'restarting')
    t.equal(rauc.primary, 'rootfs.0')
    t.equal(await records.isTrial(), isTrial, 'it is not judged, because no trial can be recorded')
    t.strictSame(restarts, ['now'])
    t.ok(log.some(line => /^warning: could not record the update: no space left/.test(line)))
    // The version before comes up, and takes the other out of the order.
    rauc.unanswered.clear()
    rauc.bootSlot = 'A'
    const back = await start(full)
    t.match(back.state, { running: { slot: 'A', state: 'good' }, state: 'idle' })
    t.match(back.state, isTrial ? { other: { state: 'bad' }, last: { outcome: 'rolled back' } } : {})
    // Refused, it stays.
    rauc.bootSlot = 'B'
    rauc.primary = 'rootfs.1'
    rauc.refused.add('Mark')
    const other = await start()
    await t.rejects(other.rollback('Ann'), problem('system-refused', /./))
    t.not(other.state.state, 'restarting')
  }
})

t.test('a factory reset waits until no version is under way', async t => {
  const { rauc, records, start, receive, write } = device(t)
  const update = await start()
  update.requireResettable()
  await receive(update, '1.1.0')
  update.requireResettable()
  await update.install({ restart: 'manual' }, 'Ann')
  t.throws(() => update.requireResettable(), problem('conflict', /being installed/))
  rauc.succeed('1.1.0')
  await eventually(() => update.state.state === 'installed')
  t.throws(() => update.requireResettable(), problem('conflict', /^Version 1\.1\.0 is installed: discard it/))
  rauc.bootSlot = 'B'
  const next = await start()
  t.throws(() => next.requireResettable(), problem('conflict', /on trial/))
  await records.conclude({ version: '1.1.0', outcome: 'installed' })
  await eventually(() => next.state.running.state === 'good')
  next.requireResettable()
  write('/proc/cmdline', 'console=ttyS0\n')
  const impossible = await start()
  impossible.requireResettable()
})

t.test('the end of a trial is noticed also if the kernel does not tell', async t => {
  const looks: (() => void)[] = []
  const wait: Wait = (_, due) => {
    looks.push(due)
    return () => void looks.splice(looks.indexOf(due), 1)
  }
  const { records, start, updated } = device(t, undefined, wait)
  await updated(true)
  records.watch = () => () => undefined
  const update = await start()
  await eventually(() => looks.length === 1)
  looks.shift()?.()
  await eventually(() => looks.length === 1)
  t.match(update.state, { running: { state: 'trial' } })
  await records.conclude({ version: '1.1.0', outcome: 'installed' })
  looks.shift()?.()
  await eventually(() => update.state.running.state === 'good')
  t.match(update.state.last, { outcome: 'installed' })
  t.same(looks, [], 'the last look')
})

t.test('a verdict that a power cut left says nothing about the next attempt at the same version', async t => {
  const { rauc, records, start, installing } = device(t)
  await records.condemn({ slot: 'B', version: '1.1.0', reason: 'weston does not answer' })
  await (await installing()).stop()
  Object.assign(rauc, { operation: 'idle', percent: 0 })
  t.match((await start()).state, { last: { version: '1.1.0', outcome: 'failed', reason: 'interrupted' } })
})

t.test('a bundle that was kept', async t => {
  const { rauc, state, start } = device(t)
  state.kept = BUNDLE
  rauc.bundles.set(PATH, good('1.1.0'))
  const update = await start()
  await update.resume()
  t.match(update.state, { state: 'downloaded', bundle: { version: '1.1.0', bytes: 1_000, receivedBytes: 1_000 } })
  rauc.bundles.set(PATH, 'signature verification failed: Verify error: self-signed certificate')
  const next = await start()
  await next.resume()
  t.match(next.state, { state: 'idle' }, 'this system does not trust it')
  t.equal(state.kept, undefined)
})

t.test('a bundle is not given up because RAUC does not answer', async t => {
  let pauses = 0
  let answersAfter = 2
  const wait: Wait = (ms, due) => {
    if (++pauses === answersAfter) rauc.unanswered.clear()
    return atOnce(ms, due)
  }
  const { rauc, state, start } = device(t, undefined, wait)
  rauc.bundles.set(PATH, good('1.1.0'))
  const update = await start()
  update.receiving('upload', 1_000, 0)
  rauc.unanswered.add('InspectBundle')
  t.match(await update.received(PATH), { version: '1.1.0' })
  t.equal(pauses, 2)

  state.kept = BUNDLE
  const next = await start()
  rauc.unanswered.add('InspectBundle')
  ;[pauses, answersAfter] = [0, Number.POSITIVE_INFINITY]
  await next.resume()
  t.equal(pauses, 3, 'not for ever')
  t.same(state.kept, BUNDLE, 'the next start of the service checks it again')
  await t.rejects(next.received(PATH), problem('system-refused', /timed out|failed/))
})

t.test('a bundle that was installed is not offered again', async t => {
  const { rauc, state, records, write, start, updated, receive } = device(t)
  await updated(true)
  write('/etc/os-release', 'IMAGE_VERSION=1.1.0\n')
  // The power was cut after RAUC had ended.
  state.kept = BUNDLE
  const trial = await start()
  await trial.resume()
  t.match(trial.state, { running: { state: 'trial' }, state: 'idle' })
  t.equal(trial.state.bundle, undefined)
  t.equal(state.kept, undefined)
  await trial.stop()

  state.kept = BUNDLE
  await records.conclude({ version: '1.1.0', outcome: 'installed' })
  const good = await start()
  await good.resume()
  t.equal(good.state.state, 'idle')
  t.equal(state.kept, undefined)

  await receive(good, '1.2.0')
  await good.install({}, 'Ann')
  await good.stop()
  rauc.succeed('1.2.0')
  const waits = await start()
  await waits.resume()
  t.match(waits.state, { state: 'installed', other: { version: '1.2.0' } })
  t.equal(state.kept, undefined, 'the installation ended while no service ran')
})

t.test('a bundle whose installation goes on is there if that fails', async t => {
  const { rauc, start, installing } = device(t)
  await (await installing()).stop()
  const next = await start()
  await next.resume()
  const bundle = { version: '1.1.0', bytes: 1_000, receivedBytes: 1_000, source: 'upload' }
  t.match(next.state, { state: 'installing', bundle })
  rauc.fail('write error')
  await eventually(() => next.state.state === 'failed')
  t.match(next.state, { bundle })
  await next.install({}, 'Ann')
  t.equal(next.state.state, 'installing')
})

t.test('one event a second at most, and the last one says how it is', async t => {
  const { start } = device(t)
  const update = await start()
  const before = update.topic.head
  update.receiving('upload', 1_000, 0)
  for (let bytes = 1; bytes <= 1_000; bytes++) update.progress(bytes)
  t.equal(update.topic.head - before, 1)
  await eventually(() => update.topic.head - before === 2)
  t.match(JSON.parse(update.current.json), { bundle: { receivedBytes: 1_000 } })
  t.equal(update.topic.head - before, 2)
})

t.test('a channel that was read clears why it could not be read before, and nothing else', async t => {
  const { start, receive, rauc } = device(t)
  const update = await start()
  const available = { version: '1.1.0', checkedAt: '2026-11-25T01:00:00Z' }
  const refused = new Problem('download-failed', 'The download failed: the server refuses it.')
  update.notFound(refused)
  t.match(update.state, { state: 'failed', error: { detail: refused.message } })
  update.found(available)
  t.match(update.state, { state: 'idle', available })
  t.notOk(update.state.error)
  update.notFound(refused)
  update.forgetChannel()
  t.strictSame([update.state.state, update.state.error, update.state.available], ['idle', undefined, undefined])

  await receive(update, '1.1.0')
  update.notFound(refused)
  t.match(update.state, { state: 'downloaded', error: {} }, 'the bundle stays')
  update.found(available)
  t.equal(update.state.error, undefined)

  await update.install({}, 'Ann')
  rauc.fail('Failed to write')
  await eventually(() => update.state.state === 'failed')
  const { error } = update.state
  update.found(available)
  t.match(update.state, { state: 'failed', error }, 'an installation that failed is another matter')
})

t.test('while a server is asked for a bundle, nothing else begins, and the one that is there stays', async t => {
  const { start, receive } = device(t)
  const update = await start()
  await receive(update, '1.1.0')
  update.asking()
  t.match(update.state, { state: 'downloading', bundle: { source: 'url', receivedBytes: 0 } })
  for (const begin of [() => update.asking(), () => update.receiving('upload', 1, 0)])
    t.throws(begin, problem('conflict', /being received/))
  await t.rejects(update.install({}, 'Ann'), problem('conflict', /being received/))
  update.notDownloaded(new Problem('download-failed', 'The download failed.'))
  t.match(update.state, {
    state: 'downloaded',
    bundle: { version: '1.1.0' },
    error: { detail: 'The download failed.' },
  })
  update.asking()
  update.receiving('url', 10, 0)
  update.dropped(new Problem('download-failed', 'It broke off.'))
  update.notDownloaded(new Problem('download-failed', 'Said once.'))
  t.match(update.state, { state: 'failed', error: { detail: 'It broke off.' } })
  t.notOk(update.state.bundle)
  // Its part is removed after an hour.
  update.dropped()
  t.match(update.state, { state: 'idle', error: { detail: 'It broke off.' } })
  update.asking()
  t.notOk(update.state.error)
  update.dropped()
  t.equal(update.state.state, 'downloading')
  t.throws(() => update.receiving('upload', 1, 0), problem('conflict', /being received/))
})
