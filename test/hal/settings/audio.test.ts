import { rmSync, writeFileSync } from 'node:fs'
import { type Test, test } from 'tap'
import type { Run } from '../../../hal/os/command.ts'
import { System, type SystemOptions } from '../../../hal/os/system.ts'
import { audio } from '../../../hal/settings/audio.ts'
import { deviceRoot } from '../../support/device.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAlsa, type FakeControl } from '../../support/fakes/alsa.ts'
import { commands } from '../../support/fakes/commands.ts'
import { startTestService } from '../../support/service.ts'

const master = (change: Partial<FakeControl> = {}): FakeControl => ({
  name: 'Master',
  steps: 31,
  levels: [31],
  on: true,
  ...change,
})

/** A running system with these sound cards. */
const running = (alsa: FakeAlsa): SystemOptions => ({
  running: true,
  run: commands({ amixer: alsa.amixer, alsactl: alsa.alsactl }),
  monitor: alsa.monitors.monitor,
})

async function startWith(t: Test, alsa: FakeAlsa) {
  const service = await startTestService(t, running(alsa))
  return { service, audio: async () => (await service.system()).value.audio }
}

test('the answer and the event have the volume that the driver chose', async t => {
  const alsa = new FakeAlsa([[master()]])
  const { service } = await startWith(t, alsa)
  const stream = await service.stream()
  await stream.block()
  const answer = await service.patch({ audio: { volume: 50 } })
  t.equal(answer.status, 200)
  t.match(await answer.json(), { audio: { volume: 52, muted: false } })
  t.strictSame((await stream.event())?.data, { audio: { volume: 52, muted: false } })
  t.equal(alsa.text, '0 Master 16/31 on\nstored\n')

  const again = await service.patch({ audio: { volume: 50 } })
  t.equal(again.status, 200)
  t.equal(again.headers.get('etag'), answer.headers.get('etag'), 'no event for the same step')
})

test('a volume that amixer does not say it has set is refused', async t => {
  const alsa = new FakeAlsa([[master()]])
  const amixer: Run = async argv => (argv[4] === 'sset' ? '' : alsa.amixer(argv))
  const service = await startTestService(t, { ...running(alsa), run: commands({ amixer, alsactl: alsa.alsactl }) })
  const answer = await service.patch({ audio: { volume: 50 } })
  t.equal(answer.status, 500)
  t.match(await answer.json(), { detail: /audio.*amixer did not set anything/ })
  t.match((await service.system()).value.audio, { volume: 100 })
})

test('an amixer that says nothing does not change the volume that is shown', async t => {
  const alsa = new FakeAlsa([[master()]])
  let isSilent = false
  let asked = 0
  const amixer: Run = async argv => {
    if (!isSilent) return alsa.amixer(argv)
    asked++
    return ''
  }
  const service = await startTestService(t, { ...running(alsa), run: commands({ amixer, alsactl: alsa.alsactl }) })
  isSilent = true
  alsa.turn('Master', { step: 16 })
  await eventually(() => asked > 0)
  t.match((await service.system()).value.audio, { volume: 100 })
  isSilent = false
  await eventually(async () => ((await service.system()).value.audio as { volume: number }).volume === 52)
})

test('muting keeps the volume and the balance of the channels', async t => {
  const alsa = new FakeAlsa([[master({ levels: [31, 16] })]])
  const { service, audio } = await startWith(t, alsa)
  t.strictSame(await audio(), { volume: 100, muted: false })
  t.match(await (await service.patch({ audio: { muted: true } })).json(), { audio: { volume: 100, muted: true } })
  t.equal(alsa.text, '0 Master 31,16/31 off\nstored\n')
  t.match(await (await service.patch({ audio: { volume: 0, muted: false } })).json(), {
    audio: { volume: 0, muted: false },
  })
  t.equal(alsa.text, '0 Master 0,0/31 on\nstored\n')
})

test('a change by others is an event', async t => {
  const alsa = new FakeAlsa([[master()]])
  const { service } = await startWith(t, alsa)
  const stream = await service.stream()
  await stream.block()
  alsa.turn('Master', { step: 8 })
  t.strictSame((await stream.event())?.data, { audio: { volume: 26, muted: false } })
  alsa.turn('Master', { on: false })
  t.strictSame((await stream.event())?.data, { audio: { volume: 26, muted: true } })
  t.strictSame(alsa.monitors.running.toSorted(), [
    'alsactl monitor',
    'ip -oneline monitor link',
    'ip -oneline monitor link address',
    'udevadm monitor --kernel --udev --subsystem-match=net --subsystem-match=drm --subsystem-match=sound',
  ])
  await service.close()
  t.strictSame(alsa.monitors.running, [], 'nobody listens after that')
})

test('a control without a switch is never muted', async t => {
  const alsa = new FakeAlsa([[master({ on: undefined })]])
  const { service, audio } = await startWith(t, alsa)
  t.strictSame(await audio(), { volume: 100, muted: false })
  const refused = await service.patch({ audio: { volume: 10, muted: true } })
  t.equal(refused.status, 422)
  t.match(await refused.json(), { errors: [{ pointer: '/audio/muted' }] })
  t.match(await (await service.patch({ audio: { volume: 0, muted: false } })).json(), { audio: { volume: 0 } })
})

test('the card is the first that has a control', async t => {
  const alsa = new FakeAlsa([[], [{ name: 'Capture', steps: 1, levels: [1], on: true }, master({ name: 'PCM' })]])
  const root = deviceRoot(t, 'raspberry-pi-4')
  const setting = audio(new System(root, running(alsa)))
  t.equal(await setting.unavailable?.(), undefined)
  await setting.activate?.({ volume: 10, muted: true }, { volume: 100, muted: false }, false)
  t.strictSame(await setting.read(), { volume: 10, muted: true })
  t.equal(alsa.text, '1 Capture 1/1 on\n1 PCM 3/31 off\nstored\n')
})

test('a failed change leaves the sound as it was, and says if that could not be stored', async t => {
  for (const [broken, state] of [
    ['amixer sset', 'Nothing has changed.'],
    ['alsactl store', 'Could not be undone: audio.'],
  ] as const) {
    const alsa = new FakeAlsa([[master()]])
    const { service, audio } = await startWith(t, alsa)
    await service.patch({ audio: { volume: 90 } })
    const before = alsa.text
    alsa.broken = broken
    const answer = await service.patch({ deviceName: 'Other', audio: { volume: 10, muted: true } })
    t.equal(answer.status, 500, broken)
    const { detail } = (await answer.json()) as { detail: string }
    const command = broken.split(' ')[0]
    t.equal(detail, `The system refused to write audio: ${command} failed with status 1. ${state}`)
    t.equal(alsa.text, before)
    t.strictSame(await audio(), { volume: 90, muted: false })
    alsa.broken = undefined
    t.equal((await service.patch({ audio: { volume: 10 } })).status, 200)
    t.equal(alsa.text, '0 Master 3/31 on\nstored\n')
  }
})

test('a card that disappears is logged, and read again when it is back', async t => {
  const alsa = new FakeAlsa([[master()]])
  const { service, audio } = await startWith(t, alsa)
  const before = await audio()
  alsa.broken = 'amixer scontents'
  alsa.turn('Master', { step: 8 })
  const said = 'warning: audio: showing its last value, because it cannot be read: amixer failed with status 1'
  await eventually(() => service.log.includes(said))
  t.strictSame(await audio(), before)
  t.equal((await service.patch({ audio: { volume: 0 } })).status, 500)
  alsa.broken = undefined
  alsa.turn('Master', { step: 8 })
  await eventually(async () => ((await audio()) as { volume: number }).volume === 26)
})

test('without sound, the reason is given', async t => {
  const alsa = new FakeAlsa([[master()]])
  const because = (root: string, options: SystemOptions) => audio(new System(root, options)).unavailable?.()
  const root = deviceRoot(t)
  t.equal(
    await because(root, { ...running(alsa), running: false }),
    'the volume can be read only on the running system, not with --root',
  )
  t.equal(await because(root, { running: true, run: commands({}) }), 'amixer is not installed')
  t.equal(await because(root, running(new FakeAlsa([[]]))), 'no sound card has a volume control')
  writeFileSync(`${root}/proc/asound/cards`, '--- no soundcards ---\n')
  t.equal(await because(root, running(alsa)), 'there is no sound card')
  rmSync(`${root}/proc/asound`, { recursive: true })
  t.equal(await because(root, running(alsa)), 'there is no sound card')

  const service = await startTestService(t, { root, ...running(alsa) })
  t.notOk('audio' in (await service.system()).value)
  t.match(await (await service.patch({ audio: { volume: 1 } })).json(), {
    errors: [{ pointer: '/audio', detail: 'not available on this device: there is no sound card' }],
  })
})

test('values out of range are refused', async t => {
  const { service } = await startWith(t, new FakeAlsa([[master()]]))
  for (const [value, pointer] of [
    [{ volume: 101 }, '/audio/volume'],
    [{ volume: -1 }, '/audio/volume'],
    [{ volume: 1.5 }, '/audio/volume'],
    [{ muted: 'yes' }, '/audio/muted'],
    [{ volume: null }, '/audio'],
  ] as const) {
    const answer = await service.patch({ audio: value })
    t.equal(answer.status, 422, JSON.stringify(value))
    t.match(await answer.json(), { errors: [{ pointer }] })
  }
})

test('a change that nobody told of: a patch goes by what the volume is now', async t => {
  const alsa = new FakeAlsa([[master()]])
  const { service } = await startWith(t, alsa)
  const { audio } = (await service.system()).value as { audio: { volume: number } }
  for (const control of alsa.cards[0] ?? []) control.levels = control.levels.map(() => 3)
  const answer = await service.patch({ audio: { volume: audio.volume } })
  t.match(await answer.json(), { audio })
  t.not(alsa.cards[0]?.[0]?.levels[0], 3)
})
