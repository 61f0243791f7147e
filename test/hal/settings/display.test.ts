import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HalError } from '../../../hal/errors.ts'
import { System } from '../../../hal/os/system.ts'
import { display, modeIn, modesOf, rotationIn } from '../../../hal/settings/display.ts'
import { deviceRoot } from '../../support/device.ts'
import { FakeSystemd } from '../../support/fakes/systemd.ts'
import { startTestService } from '../../support/service.ts'
import { detailed, edidOf, text } from '../support/edid.ts'
import { runningAt } from '../support/setting-device.ts'

const FILE = 'etc/xdg/weston/weston.ini'
const DRM = 'sys/class/drm'
const TV_MODES = ['1920x1080@60', '1920x1080@50', '1920x1080@30', '1920x1080@24', '1280x720@60', '1280x720@50']
TV_MODES.push('720x576@50', '720x480@60', '640x480@60')
const TV = { present: true, monitor: 'Lobby TV', modes: TV_MODES, mode: '1920x1080@60', rotation: 90 } as const
const NOTHING = { present: false, monitor: '', modes: [], mode: 'preferred', rotation: 0 } as const

interface Connector {
  readonly status?: string
  readonly edid?: Buffer
  readonly modes?: string
}

/** A connector as the kernel shows it; with no `status` it is gone. */
function plug(root: string, name: string, { status, edid, modes }: Connector): void {
  const folder = join(root, DRM, name)
  rmSync(folder, { recursive: true, force: true })
  if (status === undefined) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'status'), `${status}\n`)
  writeFileSync(join(folder, 'edid'), edid ?? '')
  writeFileSync(join(folder, 'modes'), modes ?? '')
}

function device(t: Test, fixture = 'receiver') {
  const root = deviceRoot(t, fixture)
  const setting = display(new System(root))
  const write = async (patch: Record<string, object>) => {
    const before = await setting.read()
    const next = Object.fromEntries(Object.entries(before).map(([name, one]) => [name, { ...one, ...patch[name] }]))
    const refused = (await setting.check?.(next, before)) ?? []
    if (refused.length === 0) await setting.write?.(next)
    return refused
  }
  const config = (text?: string) => {
    if (text !== undefined) writeFileSync(join(root, FILE), text)
    return readFileSync(join(root, FILE), 'latin1')
  }
  return { root, setting, write, config }
}

t.test('every connector is read with its monitor and what weston makes of it', async t => {
  t.strictSame(await device(t).setting.read(), { 'HDMI-A-1': TV, 'HDMI-A-2': NOTHING })
  t.match(await device(t, 'raspberry-pi-4').setting.read(), {
    'HDMI-A-1': { present: true, monitor: 'UHD TV 55', modes: ['3840x2160@30'], mode: 'preferred', rotation: 0 },
    'HDMI-A-2': NOTHING,
  })
  t.match(await device(t, 'x86-box').setting.read(), {
    'DP-1': { present: true, monitor: 'Desk 27', modes: ['2560x1440@75', '2560x1440@60', '1920x1080@60'] },
    'HDMI-A-1': NOTHING,
  })
})

t.test('where a part is lacking it says which', async t => {
  const { root, setting } = device(t)
  t.equal(await setting.unavailable?.(), undefined)
  rmSync(join(root, 'etc/xdg'), { recursive: true })
  t.equal(await setting.unavailable?.(), 'weston is not installed')
  mkdirSync(join(root, 'usr/bin'), { recursive: true })
  writeFileSync(join(root, 'usr/bin/weston'), '')
  t.equal(await setting.unavailable?.(), undefined, 'its own configuration is not needed')
  plug(root, 'card0-HDMI-A-1', {})
  plug(root, 'card0-HDMI-A-2', {})
  plug(root, 'card0-Writeback-1', { status: 'unknown' })
  t.equal(await setting.unavailable?.(), 'no display connector')
  rmSync(join(root, 'sys'), { recursive: true })
  t.equal(await setting.unavailable?.(), 'no display connector')
})

t.test('a connector of two cards is that of the first', async t => {
  const { root, setting } = device(t)
  const panel = (name: string) => ({ status: 'connected', edid: edidOf({ descriptors: [text(0xfc, name)] }) })
  plug(root, 'card10-DP-1', panel('tenth'))
  plug(root, 'card2-DP-1', panel('second'))
  t.equal((await setting.read())['DP-1']?.monitor, 'second')
})

t.test('the modes are what the kernel can drive, the highest first, with the rates of the monitor', async t => {
  const timings = ['1280x720@50', '1920x1080@50', '1920x1080@60', '2560x1440@60', '1080x1920@60']
  const resolutions = ['1024x768', '1920x1080', '1920x1080', '1080x1920', '1280x720']
  t.strictSame(modesOf(resolutions, timings), [
    '1920x1080@60',
    '1920x1080@50',
    '1080x1920@60',
    '1280x720@50',
    '1024x768',
  ])
  t.strictSame(modesOf([], timings), [])
})

t.test('without an EDID, or with one that is broken, there are the resolutions of the kernel', async t => {
  const { root, setting } = device(t)
  const modes = '1024x768\n1920x1080\n1920x1080i\n1920x1080\n\n'
  for (const edid of [Buffer.alloc(0), Buffer.alloc(256, 0xff)]) {
    plug(root, 'card0-Virtual-1', { status: 'connected', modes, edid })
    t.match((await setting.read())['Virtual-1'], { present: true, monitor: '', modes: ['1920x1080', '1024x768'] })
  }
  plug(root, 'card0-Virtual-1', { status: 'unknown', modes })
  t.match((await setting.read())['Virtual-1'], NOTHING)
})

t.test('a connector that is gone stays, as not present, with what weston.ini says of it', async t => {
  const { root, setting } = device(t)
  await setting.read()
  plug(root, 'card0-HDMI-A-1', { status: 'disconnected' })
  const unplugged = { ...NOTHING, mode: '1920x1080@60', rotation: 90 }
  t.strictSame((await setting.read())['HDMI-A-1'], unplugged)
  rmSync(join(root, 'sys'), { recursive: true })
  t.strictSame(await setting.read(), { 'HDMI-A-1': unplugged, 'HDMI-A-2': NOTHING })
  t.strictSame(await setting.fallback(), { 'HDMI-A-1': NOTHING, 'HDMI-A-2': NOTHING })
})

t.test('a mode reads as weston takes it', async t => {
  for (const [value, mode] of Object.entries({
    preferred: 'preferred',
    current: 'current',
    off: 'off',
    '1920x1080': '1920x1080',
    '1920x1080@60': '1920x1080@60',
    '1920x1080@0': '1920x1080',
    '1920x1080@60 16:9': '1920x1080@60',
    '173.00 1920 2048 2248 2576 1080 1083 1088 1120 -hsync +vsync': '1920x1080@60',
    '173.00 1920 2048 2248 0 1080 1083 1088 1120': 'preferred',
    '1e300 1920 2048 2248 2576 1080 1083 1088 1120': 'preferred',
    '': 'preferred',
    best: 'preferred',
    '-1x-1': 'preferred',
  }))
    t.equal(modeIn(`[output]\nname=A\nmode=${value}\n`, 'A'), mode, value)
  t.equal(modeIn('', 'A'), 'preferred')
})

t.test('a rotation reads in every spelling', async t => {
  for (const [value, rotation] of Object.entries({
    normal: 0,
    'rotate-90': 90,
    'rotate-180': 180,
    'rotate-270': 270,
    '90': 90,
    flipped: 0,
    'flipped-rotate-270': 270,
    'flipped-180': 180,
    'rotate-45': 0,
    '': 0,
  }))
    t.equal(rotationIn(`[output]\nname=A\ntransform=${value}\n`, 'A'), rotation, value)
})

t.test('a write touches the lines of mode and rotation, and nothing else', async t => {
  const { setting, write, config } = device(t)
  const before = config()
  t.strictSame(await write({ 'HDMI-A-1': { mode: '1280x720@50' } }), [])
  t.equal(config(), before.replace('1920x1080@60', '1280x720@50'))
  t.strictSame(await write({ 'HDMI-A-1': { mode: 'preferred', rotation: 0 } }), [])
  t.equal(config(), before.replace('1920x1080@60', 'preferred').replace('rotate-90', 'normal'))
  t.strictSame(await write({ 'HDMI-A-2': { rotation: 180 } }), [])
  t.equal(
    config(),
    `${before.replace('1920x1080@60', 'preferred').replace('rotate-90', 'normal')}\n[output]\nname=HDMI-A-2\ntransform=rotate-180\n`,
  )
  t.match(await setting.read(), { 'HDMI-A-1': { mode: 'preferred', rotation: 0 }, 'HDMI-A-2': { rotation: 180 } })
})

t.test('a write changes nothing that says the same in another way, and keeps a mirror image', async t => {
  const { write, config } = device(t)
  const text = '[output]\nname=HDMI-A-1\nmode=1920x1080@60 16:9\ntransform=90\n'
  config(text)
  await write({})
  t.equal(config(), text)
  await write({ 'HDMI-A-1': { rotation: 180 } })
  t.equal(config(), text.replace('=90', '=rotate-180'))
  config('[output]\nname=HDMI-A-1\ntransform=flipped-rotate-90\n')
  await write({ 'HDMI-A-1': { rotation: 270 } })
  t.equal(config(), '[output]\nname=HDMI-A-1\ntransform=flipped-rotate-270\n')
  await write({ 'HDMI-A-1': { rotation: 0 } })
  t.equal(config(), '[output]\nname=HDMI-A-1\ntransform=flipped\n')
})

t.test('bytes that are no UTF-8 stay, and a file that is missing is made', async t => {
  const { root, setting, write, config } = device(t)
  writeFileSync(join(root, FILE), Buffer.from('# caf\xe9\n[output]\nname=HDMI-A-1\n', 'latin1'))
  await write({ 'HDMI-A-1': { rotation: 90 } })
  t.equal(config(), '# caf\xe9\n[output]\nname=HDMI-A-1\ntransform=rotate-90\n')
  rmSync(join(root, 'etc/xdg'), { recursive: true })
  t.match(await setting.read(), { 'HDMI-A-1': { mode: 'preferred', rotation: 0 } })
  await write({ 'HDMI-A-1': { mode: '1280x720@60' } })
  t.equal(config(), '[output]\nname=HDMI-A-1\nmode=1280x720@60\n')
})

t.test('what the monitor does not offer, and what cannot be set, is refused', async t => {
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
  t.strictSame(await write({ 'HDMI-A-1': { mode: '1280x720@60' } }), [], 'a mode of the monitor that was there')
  t.match(await write({ 'HDMI-A-1': { mode: '800x600@60' } }), [{ pointer: '/HDMI-A-1/mode' }])
  t.strictSame(await write({ 'HDMI-A-1': { mode: 'preferred' } }), [])
})

t.test('connectors neither come nor go by a change', async t => {
  const { setting } = device(t)
  const before = await setting.read()
  const { 'HDMI-A-1': first, ...rest } = before
  t.strictSame(await setting.check?.({ ...before, 'DP-9': { ...NOTHING, modes: [] } }, before), [
    { pointer: '/DP-9', detail: 'no such connector' },
  ])
  t.ok(first)
  t.strictSame(await setting.check?.(rest, before), [{ pointer: '/HDMI-A-1', detail: 'cannot be removed' }])
})

t.test('off and current can be left, and kept, but not chosen', async t => {
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

t.test('a clone shows what the other one does, and cannot be set by itself', async t => {
  const { setting, write, config } = device(t)
  const text = '[output]\nname=HDMI-A-1\ntransform=rotate-90\n[output]\nname=HDMI-A-2\nmode=off\nsame-as=HDMI-A-1\n'
  config(text)
  t.match(await setting.read(), { 'HDMI-A-2': { mode: 'preferred', rotation: 90 } })
  t.strictSame(await write({ 'HDMI-A-2': { rotation: 0 } }), [
    { pointer: '/HDMI-A-2', detail: 'shows what HDMI-A-1 shows (same-as in weston.ini)' },
  ])
  t.strictSame(await write({ 'HDMI-A-1': { rotation: 0 } }), [])
  t.equal(config(), text.replace('rotate-90', 'normal'))
})

t.test('weston is told to read its file again where it is a service, and something else is to be shown', async t => {
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
  systemd.broken = 'try-restart'
  await t.rejects(change({ rotation: 0 }), new HalError('COMMAND_FAILED', 'systemctl failed with status 1'))
  symlinkSync('/dev/null', join(root, 'etc/systemd/system', UNIT))
  t.equal(await change({ rotation: 0 }), 'weston.service runs, started 3 times\n', 'masked')
  rmSync(join(root, 'etc/systemd/system', UNIT))
  rmSync(join(root, 'usr/lib/systemd/system', UNIT))
  t.equal(await change({ rotation: 0 }), 'weston.service runs, started 3 times\n', 'not installed')
})

t.test('over HTTP: set, refused, unplugged', async t => {
  const service = await startTestService(t)
  const answer = await service.patch({ display: { 'HDMI-A-1': { mode: '1280x720@60', rotation: 270 } } })
  t.equal(answer.status, 200)
  t.match(await answer.json(), { display: { 'HDMI-A-1': { ...TV, mode: '1280x720@60', rotation: 270 } } })
  const { value } = await service.system()
  t.equal((await service.patch(value)).status, 200, 'what GET returned can be sent back')
  const refusals: readonly (readonly [patch: object | null, pointer: string, detail: string])[] = [
    [
      { 'HDMI-A-1': { mode: '1x1@1' } },
      '/display/HDMI-A-1/mode',
      'the monitor does not offer it; preferred is always accepted',
    ],
    [{ 'HDMI-A-1': { rotation: 45 } }, '/display/HDMI-A-1/rotation', 'must be one of 0, 90, 180, 270'],
    [{ 'HDMI-A-1': { modes: [] } }, '/display/HDMI-A-1/modes', 'read-only'],
    [{ 'HDMI-A-9': { rotation: 0 } }, '/display/HDMI-A-9', 'no such connector'],
    [{ constructor: { rotation: 0 } }, '/display/constructor', 'no such connector'],
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
