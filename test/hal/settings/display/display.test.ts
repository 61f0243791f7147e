import { readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { HalError } from '../../../../hal/errors.ts'
import { display } from '../../../../hal/settings/display/display.ts'
import { nameErrors } from '../../../../src/validate.ts'
import { deviceRoot } from '../../../support/device.ts'
import { FakeSystemd } from '../../../support/fakes/systemd.ts'
import { startTestService } from '../../../support/service.ts'
import { apply } from '../../support/apply.ts'
import { detailed, edidOf, text } from '../../support/edid.ts'
import { runningAt } from '../../support/setting-device.ts'
import { device, FILE, NOTHING, plug, TV } from './support.ts'

const NO_SUCH = 'no such connector; this device has HDMI-A-1, HDMI-A-2'

t.test('values that the monitor does not offer, and read-only ones, are refused', async t => {
  const { root, write, config } = device(t)
  const before = config()
  const cases: readonly (readonly [change: object, pointer: string, detail: string])[] = [
    [{ mode: '800x600@60' }, '/HDMI-A-1/mode', 'the monitor does not offer it; preferred is always accepted'],
    [{ mode: '1920x1080' }, '/HDMI-A-1/mode', 'the monitor does not offer it; preferred is always accepted'],
    [{ mode: 'off' }, '/HDMI-A-1/mode', 'the monitor does not offer it; preferred is always accepted'],
    [{ present: false }, '/HDMI-A-1/present', 'read-only'],
    [{ monitor: 'Mine' }, '/HDMI-A-1/monitor', 'read-only'],
    [{ modes: ['1x1'], mode: '1x1' }, '/HDMI-A-1/modes', 'read-only'],
  ]
  for (const [change, pointer, detail] of cases) {
    const [first] = await write({ 'HDMI-A-1': change })
    t.strictSame(first, { pointer, detail })
  }
  t.match(await write({ 'HDMI-A-2': { mode: '1920x1080@60' } }), [{ pointer: '/HDMI-A-2/mode' }])
  t.equal(config(), before)
  plug(root, 'card0-HDMI-A-1', { status: 'disconnected' })
  t.strictSame(await write({ 'HDMI-A-1': { mode: '1280x720@60' } }), [], 'a mode of the last monitor')
  t.match(await write({ 'HDMI-A-1': { mode: '800x600@60' } }), [{ pointer: '/HDMI-A-1/mode' }])
  t.strictSame(await write({ 'HDMI-A-1': { mode: 'preferred' } }), [])
})

t.test('connectors that the device does not have are left to the check of names (nameErrors)', async t => {
  const { setting } = device(t)
  const before = await setting.read()
  const { 'HDMI-A-1': first, ...rest } = before
  t.ok(first)
  t.strictSame(nameErrors(setting.schema, { ...before, 'DP-9': { ...NOTHING, modes: [] } }, before, ''), [
    { pointer: '/DP-9', detail: NO_SUCH },
  ])
  t.strictSame(nameErrors(setting.schema, rest, before, ''), [{ pointer: '/HDMI-A-1', detail: 'cannot be removed' }])
  const inherited = { ...before, ...(first && { constructor: { ...first, rotation: 180 as const } }) }
  t.strictSame(nameErrors(setting.schema, inherited, before, ''), [{ pointer: '/constructor', detail: NO_SUCH }])
  for (const next of [{ ...before, 'DP-9': { ...NOTHING, modes: [] } }, rest, inherited])
    t.strictSame(await setting.check?.(next, before), [])
  await setting.activate?.(inherited, before, false)
})

t.test('off and current can be kept or changed, but not chosen', async t => {
  for (const mode of ['off', 'current']) {
    const { setting, write, config } = device(t)
    config(`[output]\nname=HDMI-A-1\nmode=${mode}\n`)
    t.equal((await setting.read())['HDMI-A-1']?.mode, mode)
    t.strictSame(await write({ 'HDMI-A-1': { rotation: 90 } }), [])
    t.equal((await setting.read())['HDMI-A-1']?.mode, mode)
    t.strictSame(await write({ 'HDMI-A-1': { mode: 'preferred' } }), [])
    t.equal(
      config(),
      '[output]\nname=HDMI-A-1\nmode=preferred\ntransform=rotate-90\n'.replace(/(mode.*\n)(trans.*\n)/, '$2$1'),
    )
  }
})

t.test('a clone shows the same as another output, and cannot be set by itself', async t => {
  const { setting, write, config } = device(t)
  const text = '[output]\nname=HDMI-A-1\ntransform=rotate-90\n[output]\nname=HDMI-A-2\nmode=off\nsame-as=HDMI-A-1\n'
  config(text)
  t.match(await setting.read(), { 'HDMI-A-2': { mode: 'preferred', rotation: 90 } })
  t.strictSame(await write({ 'HDMI-A-2': { rotation: 0 } }), [
    { pointer: '/HDMI-A-2', detail: 'mirrors HDMI-A-1 (same-as in weston.ini): change that output instead' },
  ])
  t.strictSame(await write({ 'HDMI-A-1': { rotation: 0 } }), [])
  t.equal(config(), text.replace('rotate-90', 'normal'))
})

t.test('weston is restarted if it is a running service and something changes on the screen', async t => {
  const UNIT = 'weston.service'
  const root = deviceRoot(t)
  const systemd = new FakeSystemd(root, [UNIT])
  const setting = display(runningAt(root, { run: systemd.systemctl }))
  const change = async (changed: object) => {
    await setting.activate?.({ 'HDMI-A-1': { ...TV, ...changed } } as never, { 'HDMI-A-1': TV } as never, true)
    return systemd.text
  }
  t.equal(await change({ rotation: 0 }), 'weston.service runs, started 2 times\n')
  t.equal(await change({ mode: 'preferred' }), 'weston.service runs, started 3 times\n')
  t.equal(await change({}), 'weston.service runs, started 3 times\n')
  systemd.broken = 'restart'
  await t.rejects(change({ rotation: 0 }), new HalError('COMMAND_FAILED', 'systemctl failed with status 1'))
  symlinkSync('/dev/null', join(root, 'etc/systemd/system', UNIT))
  t.equal(await change({ rotation: 0 }), 'weston.service runs, started 3 times\n', 'masked')
  rmSync(join(root, 'etc/systemd/system', UNIT))
  rmSync(join(root, 'usr/lib/systemd/system', UNIT))
  t.equal(await change({ rotation: 0 }), 'weston.service runs, started 3 times\n', 'not installed')
})

t.test('a mode that weston fails to start with is undone, and weston runs again', async t => {
  const root = deviceRoot(t)
  const systemd = new FakeSystemd(root, ['weston.service'])
  systemd.onStart = () => {
    if (readFileSync(join(root, FILE), 'utf8').includes('1280x720')) throw new Error('no picture')
  }
  const system = runningAt(root, { run: systemd.systemctl })
  const setting = display(system)
  const before = await setting.read()
  const next = { ...before, 'HDMI-A-1': { ...TV, modes: [...TV.modes], mode: '1280x720@60' } }
  await t.rejects(apply(system, setting, before, next), { cause: { message: 'systemctl failed with status 1' } })
  t.strictSame(await setting.read(), before)
  t.ok(systemd.isActive('weston.service'))
})

t.test('over HTTP: set, refused, unplugged', async t => {
  const service = await startTestService(t)
  const answer = await service.patch({ display: { 'HDMI-A-1': { mode: '1280x720@60', rotation: 270 } } })
  t.equal(answer.status, 200)
  t.match(await answer.json(), { display: { 'HDMI-A-1': { ...TV, mode: '1280x720@60', rotation: 270 } } })
  const { value } = await service.system()
  t.equal((await service.patch(value)).status, 200, 'the answer to GET can be sent back')
  const refusals: readonly (readonly [patch: object | null, pointer: string, detail: string])[] = [
    [
      { 'HDMI-A-1': { mode: '1x1@1' } },
      '/display/HDMI-A-1/mode',
      'the monitor does not offer it; preferred is always accepted',
    ],
    [{ 'HDMI-A-1': { rotation: 45 } }, '/display/HDMI-A-1/rotation', 'must be one of 0, 90, 180, 270'],
    [{ 'HDMI-A-1': { modes: [] } }, '/display/HDMI-A-1/modes', 'read-only'],
    [{ 'HDMI-A-9': { rotation: 0 } }, '/display/HDMI-A-9', NO_SUCH],
    [{ constructor: { rotation: 0 } }, '/display/constructor', NO_SUCH],
    [{ 'HDMI-A-2': null }, '/display/HDMI-A-2', 'cannot be removed'],
    [null, '/display', 'cannot be removed'],
  ]
  for (const [patch, pointer, detail] of refusals) {
    const refused = await service.patch({ display: patch })
    t.equal(refused.status, 422)
    t.strictSame(((await refused.json()) as { errors: unknown }).errors, [{ pointer, detail }])
  }
  const stream = await service.stream()
  await stream.block()
  plug(service.root, 'card0-HDMI-A-1', { status: 'disconnected' })
  t.match((await stream.event())?.data, { display: { 'HDMI-A-1': { present: false }, 'HDMI-A-2': NOTHING } })
  const edid = edidOf({ descriptors: [detailed(1366, 768, 60), text(0xfc, 'Another')] })
  plug(service.root, 'card0-HDMI-A-1', { status: 'connected', edid, modes: '1366x768\n' })
  t.match((await stream.event())?.data, { display: { 'HDMI-A-1': { monitor: 'Another', modes: ['1366x768@60'] } } })
})
