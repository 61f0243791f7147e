import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { modesOf } from '../../../../hal/settings/display/connectors.ts'
import { edidOf, text } from '../../support/edid.ts'
import { device, NOTHING, plug, TV } from './support.ts'

t.test('every connector is read, with its monitor and what weston shows on it', async t => {
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

t.test('a missing part is named', async t => {
  const { root, setting } = device(t)
  t.equal(await setting.unavailable?.(), undefined)
  rmSync(join(root, 'etc/xdg'), { recursive: true })
  t.equal(await setting.unavailable?.(), 'weston is not installed')
  mkdirSync(join(root, 'usr/bin'), { recursive: true })
  writeFileSync(join(root, 'usr/bin/weston'), '')
  t.equal(await setting.unavailable?.(), undefined, 'its configuration is not needed')
  plug(root, 'card0-HDMI-A-1', {})
  plug(root, 'card0-HDMI-A-2', {})
  plug(root, 'card0-Writeback-1', { status: 'unknown' })
  t.equal(await setting.unavailable?.(), 'no display connector')
  rmSync(join(root, 'sys'), { recursive: true })
  t.equal(await setting.unavailable?.(), 'no display connector')
})

t.test('of two cards with the same connector, the first counts', async t => {
  const { root, setting } = device(t)
  const panel = (name: string) => ({ status: 'connected', edid: edidOf({ descriptors: [text(0xfc, name)] }) })
  plug(root, 'card10-DP-1', panel('tenth'))
  plug(root, 'card2-DP-1', panel('second'))
  t.equal((await setting.read())['DP-1']?.monitor, 'second')
})

t.test('the modes are what the kernel can drive, highest first, at the rates of the monitor', async t => {
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

t.test('without a valid EDID, the modes are the resolutions of the kernel', async t => {
  const { root, setting } = device(t)
  const modes = '1024x768\n1920x1080\n1920x1080i\n1920x1080\n\n'
  for (const edid of [Buffer.alloc(0), Buffer.alloc(256, 0xff)]) {
    plug(root, 'card0-Virtual-1', { status: 'connected', modes, edid })
    t.match((await setting.read())['Virtual-1'], { present: true, monitor: '', modes: ['1920x1080', '1024x768'] })
  }
  plug(root, 'card0-Virtual-1', { status: 'unknown', modes })
  t.match((await setting.read())['Virtual-1'], NOTHING)
})

t.test('a connector that was removed is still shown, with what weston.ini says about it', async t => {
  const { root, setting } = device(t)
  await setting.read()
  plug(root, 'card0-HDMI-A-1', { status: 'disconnected' })
  const unplugged = { ...NOTHING, mode: '1920x1080@60', rotation: 90 }
  t.strictSame((await setting.read())['HDMI-A-1'], unplugged)
  rmSync(join(root, 'sys'), { recursive: true })
  t.strictSame(await setting.read(), { 'HDMI-A-1': unplugged, 'HDMI-A-2': NOTHING })
  t.strictSame(await setting.fallback(), { 'HDMI-A-1': NOTHING, 'HDMI-A-2': NOTHING })
})
