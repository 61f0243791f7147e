import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { modeIn, rotationIn } from '../../../../hal/settings/display/weston.ts'
import { device, FILE } from './support.ts'

t.test('a mode is read as weston reads it', async t => {
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

t.test('a rotation is read in every spelling', async t => {
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

t.test('a write changes the lines of mode and rotation, and nothing else', async t => {
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

t.test('a write keeps other spellings of the same value, and a mirror image', async t => {
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

t.test('bytes that are not UTF-8 are kept, and a missing file is created', async t => {
  const { root, setting, write, config } = device(t)
  writeFileSync(join(root, FILE), Buffer.from('# caf\xe9\n[output]\nname=HDMI-A-1\n', 'latin1'))
  await write({ 'HDMI-A-1': { rotation: 90 } })
  t.equal(config(), '# caf\xe9\n[output]\nname=HDMI-A-1\ntransform=rotate-90\n')
  rmSync(join(root, 'etc/xdg'), { recursive: true })
  t.match(await setting.read(), { 'HDMI-A-1': { mode: 'preferred', rotation: 0 } })
  await write({ 'HDMI-A-1': { mode: '1280x720@60' } })
  t.equal(config(), '[output]\nname=HDMI-A-1\nmode=1280x720@60\n')
})
