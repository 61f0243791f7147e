/** Real RAUC, D-Bus and signatures. */
import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { Rauc, RefusedBundle } from '../../hal/os/rauc.ts'
import { System } from '../../hal/os/system.ts'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'
import { makeBundle, makeExpiring, makeLoopDevices, RAUC_FILES, runIn, setUpRauc, untilExpired } from './rauc.ts'
import { type Rig, startRig } from './rig.ts'

/** RAUC of a machine, seen from here. */
function raucOf(rig: Rig): Rauc {
  return new Rauc(new System(`/proc/${rig.pid}/root`, { run: runIn(rig), running: true }), 50)
}

/** Why a bundle is refused. */
async function refusalOf(refused: Promise<unknown>): Promise<string> {
  const error = await refused.catch(error => error)
  return error instanceof RefusedBundle ? error.refusal : `not refused: ${error}`
}

/** The attempts of each slot, and their order. */
async function countersOf(rig: Rig): Promise<string> {
  return (await rig.shell('fw_printenv | sort')).trim().replaceAll('\n', ' ')
}

/** A FIFO in place of the slot: an installation stands still until somebody reads. */
async function stopAtSlot(t: Test, rig: Rig): Promise<() => Promise<unknown>> {
  await rig.shell('mv /data/b.img /data/kept && mkfifo /data/b.img')
  const reader = rig.spawn(['sh', '-c', 'exec sleep 600 </data/b.img'])
  t.teardown(() => reader.kill())
  return () => rig.shell('rm /data/b.img && mv /data/kept /data/b.img')
}

t.test('updates', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { files: RAUC_FILES })
  await setUpRauc(rig)
  const state = async () => (await rig.fetch('/update')).json()

  await t.test('the version that runs, before anything was installed', async t => {
    t.strictSame(await state(), {
      running: { version: '1.0.0', slot: 'A', state: 'good' },
      other: { state: 'empty' },
      state: 'idle',
    })
    const rauc = raucOf(rig)
    t.strictSame(await rauc.status(), { bootSlot: 'A', isInstalling: false, percent: 0, lastError: '' })
    t.equal(await rauc.primary(), 'A')
    t.match(await rauc.slots(), [
      { name: 'rootfs.1', bootName: 'B', state: 'empty' },
      { name: 'rootfs.0', bootName: 'A', version: '1.0.0', state: 'good' },
    ] as const)
  })

  await t.test('a bundle is good, or it is refused for its reason', async t => {
    const rauc = raucOf(rig)
    await makeBundle(rig, '/data/good', { format: 'verity' })
    t.strictSame(await rauc.inspect('/data/good'), { version: '1.1.0', compatible: 'receiver-rig' })
    await makeBundle(rig, '/data/theirs', { key: 'theirs', format: 'verity' })
    await makeBundle(rig, '/data/board', { compatible: 'receiver-pi', format: 'verity' })
    await makeBundle(rig, '/data/old', { version: '0.4.9', format: 'verity' })
    await makeBundle(rig, '/data/nonsense', { version: 'nonsense', format: 'verity' })
    await rig.shell(`cd /data && head -c 3M good >cut && head -c 3M /dev/urandom >noise && : >empty && cp good flipped
printf xyz | dd of=flipped bs=1 seek=$(($(stat -c %s good) - 900)) conv=notrunc`)
    for (const [name, refusal] of [
      ['theirs', 'bundle-signature'],
      ['flipped', 'bundle-signature'],
      ['board', 'bundle-compatible'],
      ['old', 'bundle-too-old'],
      ['nonsense', 'bundle-too-old'],
      ['cut', 'bundle-damaged'],
      ['noise', 'bundle-damaged'],
      ['empty', 'bundle-damaged'],
      ['missing', 'bundle-damaged'],
    ] as const)
      t.equal(await refusalOf(rauc.inspect(`/data/${name}`)), refusal, name)
  })

  await t.test('the certificate of its signer may have expired since', async t => {
    await makeExpiring(rig, '/root/keys/expiring')
    await makeBundle(rig, '/data/expired', { key: 'expiring', format: 'verity' })
    await rig.shell('cat /root/keys/expiring.pem >>/usr/lib/rauc/keyring.pem')
    await untilExpired(rig, '/root/keys/expiring')
    t.strictSame(await raucOf(rig).inspect('/data/expired'), { version: '1.1.0', compatible: 'receiver-rig' })
    await rig.shell('cp /root/keys/ours.pem /usr/lib/rauc/keyring.pem')
  })

  await t.test('RAUC itself refuses it, too', async t => {
    const rauc = raucOf(rig)
    const { signal } = new AbortController()
    for (const [refusal, options] of [
      ['bundle-compatible', { compatible: 'receiver-pi' }],
      ['bundle-too-old', { version: '0.4.9' }],
      ['bundle-signature', { key: 'theirs' }],
    ] as const) {
      await makeBundle(rig, '/data/bundle', options)
      await rauc.install('/data/bundle')
      t.equal(await refusalOf(rauc.follow(() => undefined, signal)), refusal)
    }
    t.equal(await countersOf(rig), 'BOOT_A_LEFT=13 BOOT_B_LEFT=0 BOOT_ORDER=A B', 'and touches nothing')
  })

  await t.test('while it installs it says how far it is, and nothing else', async t => {
    const rauc = raucOf(rig)
    const restore = await stopAtSlot(t, rig)
    await makeBundle(rig, '/data/bundle')
    await rauc.install('/data/bundle')
    const following = new AbortController()
    const percents: number[] = []
    const followed = t.rejects(
      rauc.follow(percent => percents.push(percent), following.signal),
      { name: 'AbortError' },
    )
    await eventually(() => (percents.at(-1) ?? 0) > 40)
    following.abort()
    await followed
    for (const ask of [
      () => rauc.slots(),
      () => rauc.primary(),
      () => rauc.inspect('/data/good'),
      () => rauc.install('/data/bundle'),
    ])
      await t.rejects(async () => void (await ask()), {
        code: 'COMMAND_FAILED',
        cause: { message: /already processing/i },
      })
    t.match(await rauc.status(), { isInstalling: true, bootSlot: 'A' })
    t.equal(
      await countersOf(rig),
      'BOOT_A_LEFT=13 BOOT_B_LEFT=0 BOOT_ORDER=A',
      'a power cut would start the same system',
    )
    await rig.shell('systemctl kill --signal=KILL rauc')
    await t.rejects(
      rauc.follow(() => undefined, new AbortController().signal),
      { message: /ended before/ },
    )
    t.match(await rauc.slots(), [{ bootName: 'B', state: 'bad', version: undefined, isActivated: false }, {}])
    await restore()
  })

  await t.test('an installation, and which system starts next', async t => {
    const rauc = raucOf(rig)
    await rauc.install('/data/bundle')
    await rauc.follow(() => undefined, new AbortController().signal)
    t.match(await rauc.slots(), [{ bootName: 'B', version: '1.1.0', state: 'good', isActivated: true }, {}])
    t.equal(await rauc.primary(), 'B')
    t.equal(await countersOf(rig), 'BOOT_A_LEFT=13 BOOT_B_LEFT=3 BOOT_ORDER=B A')
    await rauc.mark('good', 'A')
    t.equal(await countersOf(rig), 'BOOT_A_LEFT=14 BOOT_B_LEFT=3 BOOT_ORDER=B A', 'in hexadecimal')
    await rauc.mark('active', 'A')
    t.equal(await rauc.primary(), 'A')
    await t.rejects(rauc.mark('good', 'C'), { code: 'ABSENT' })
  })

  await t.test('nobody but root talks to it', async t => {
    const nobody = 'setpriv --reuid=65534 --regid=65534 --clear-groups'
    const busctl = 'busctl --json=short'
    const service = 'de.pengutronix.rauc / de.pengutronix.rauc.Installer'
    for (const what of [
      `get-property ${service} BootSlot`,
      `call ${service} Mark ss bad other`,
      `call ${service} GetSlotStatus`,
    ]) {
      await t.rejects(rig.shell(`${nobody} ${busctl} ${what}`), { message: /Access denied|Permission denied/ }, what)
      await rig.shell(`${busctl} ${what.replace('bad other', 'good booted')}`)
    }
    await t.rejects(rig.shell(`${nobody} rauc status`), 'nor by its own command')
  })

  const put = async (type = 'application/vnd.rauc.bundle') =>
    rig.fetch('/update/bundle', {
      method: 'PUT',
      body: await readFile(`/proc/${rig.pid}/root/data/bundle`),
      headers: { 'Content-Type': type },
    })
  const post = (path: string, body?: object) =>
    rig.fetch(`/update/${path}`, {
      method: 'POST',
      ...(body && { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
    })
  /** Its next boot is over, and loop devices are there. */
  const backFrom = async (pid: number) => {
    await rig.untilBackFrom(pid)
    await makeLoopDevices(rig)
  }

  await t.test('RAUC that is late is asked again', async t => {
    await rig.shell('systemctl mask --now --runtime rauc.service')
    await rig.restart()
    t.equal((await rig.fetch('/update')).status, 409)
    await rig.shell('systemctl unmask --runtime rauc.service')
    await eventually(async () => (await rig.fetch('/update')).status === 200, 120_000)
    t.match(await state(), { running: { slot: 'A', state: 'good' }, state: 'idle' })
  })

  await t.test('a refused bundle is removed', async t => {
    await rig.restart()
    for (const [type, options] of [
      ['bundle-signature', { key: 'theirs' }],
      ['bundle-compatible', { compatible: 'receiver-pi' }],
      ['bundle-too-old', { version: '0.4.9' }],
    ] as const) {
      await makeBundle(rig, '/data/bundle', options)
      const answer = await put()
      t.match([answer.status, await answer.json()], [422, { type: `urn:receiverd:problem:${type}` }])
      t.match(await state(), { state: 'failed', error: { type: `urn:receiverd:problem:${type}` } })
    }
    t.equal(await rig.shell('ls -A /data/update'), '')
    t.equal((await post('install')).status, 409)
  })

  await t.test('sent, installed, and on trial after the restart', async t => {
    const stream = await rig.stream('/update/events')
    await makeBundle(rig, '/data/bundle', { version: '0.9.0' })
    t.equal((await put()).status, 201)
    t.match(await (await post('install')).json(), { status: 409, type: 'urn:receiverd:problem:bundle-older' })
    await makeBundle(rig, '/data/bundle', { version: '1.2.0' })
    const sent = await put()
    t.match([sent.status, await sent.json()], [201, { version: '1.2.0', source: 'upload' }])
    await rig.restart()
    t.match(await state(), { state: 'downloaded', bundle: { version: '1.2.0' } }, 'a restart of the service keeps it')
    await rig.shell('echo 1.2.0 >/data/B.version')
    const before = rig.pid
    const answer = await post('install', { restart: 'now' })
    t.match([answer.status, await answer.json()], [202, { state: 'installing', percent: 0 }])
    await backFrom(before)
    await stream.ended
    t.match(await state(), {
      running: { version: '1.2.0', slot: 'B', state: 'trial' },
      other: { version: '1.0.0', state: 'good' },
      state: 'idle',
    })
    t.equal(await countersOf(rig), 'BOOT_A_LEFT=14 BOOT_B_LEFT=2 BOOT_ORDER=B A')
    t.match(JSON.parse(await rig.readFile('/data/update/trial.json')), {
      slot: 'B',
      version: '1.2.0',
      from: '1.0.0',
      expect: { units: ['receiverd.service', 'uxplay.service'] },
    })
    t.equal(
      await rig.shell('stat -c "%a %U %n" /data/update/*'),
      '600 root /data/update/trial.json\n',
      'the bundle is gone',
    )
  })

  await t.test('back to the other system by hand', async t => {
    const before = rig.pid
    const answer = await post('rollback')
    t.match([answer.status, await answer.json()], [202, { state: 'restarting' }])
    await backFrom(before)
    t.match(await state(), {
      running: { version: '1.0.0', slot: 'A', state: 'good' },
      other: { version: '1.2.0', state: 'bad' },
      last: { version: '1.2.0', outcome: 'rolled back', reason: 'asked for' },
    })
    t.match(await countersOf(rig), /BOOT_B_LEFT=0 BOOT_ORDER=A$/, 'nothing starts it again')
  })

  await t.test('an installed version is discarded', async t => {
    t.equal((await put()).status, 201)
    t.equal((await post('install', { restart: 'manual' })).status, 202)
    await eventually(async () => ((await state()) as { state: string }).state === 'installed')
    t.match(await countersOf(rig), /BOOT_B_LEFT=3 BOOT_ORDER=B A$/)
    const discard = async () => (await rig.fetch('/update/install', { method: 'DELETE' })).status
    t.same([await discard(), await discard()], [204, 409])
    t.match(await state(), {
      running: { version: '1.0.0', slot: 'A', state: 'good' },
      other: { version: '1.2.0', state: 'bad' },
      state: 'idle',
      last: { version: '1.2.0', outcome: 'discarded' },
    })
    t.match(await countersOf(rig), /BOOT_B_LEFT=0 BOOT_ORDER=A$/, 'nothing starts it')
    t.equal(await rig.shell('ls -A /data/update'), 'last.json\nrefused.json\n')
  })

  await t.test('a version that does not start', async t => {
    t.equal((await put()).status, 201)
    const answer = await post('install', { restart: 'manual' })
    t.equal(answer.status, 202)
    await eventually(async () => ((await state()) as { state: string }).state === 'installed')
    t.equal((await put()).status, 409)
    // All its attempts are used up.
    await rig.shell('fw_setenv BOOT_B_LEFT 0')
    const before = rig.pid
    await rig.fetch('/operations/reboot', { method: 'POST' })
    await backFrom(before)
    t.match(await state(), {
      running: { version: '1.0.0', slot: 'A', state: 'good' },
      other: { version: '1.2.0', state: 'bad' },
      last: { version: '1.2.0', outcome: 'rolled back', reason: 'did not start' },
    })
    t.match(await countersOf(rig), /BOOT_B_LEFT=0 BOOT_ORDER=A$/)
    t.equal((await post('rollback')).status, 409)
  })

  await t.test('the power is cut while it installs', async t => {
    await stopAtSlot(t, rig)
    t.equal((await put()).status, 201)
    t.equal((await post('install')).status, 202)
    await eventually(async () => ((await state()) as { percent?: number }).percent === 46)
    await rig.cutPower()
    await rig.boot()
    t.match(await state(), {
      running: { slot: 'A', state: 'good' },
      other: { state: 'bad' },
      state: 'downloaded',
      last: { version: '1.2.0', outcome: 'failed', reason: 'interrupted' },
    })
    t.equal((await rig.fetch('/update/bundle', { method: 'DELETE' })).status, 204)
    t.match(await state(), { state: 'idle' })
  })
})
