import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { System } from '../../../hal/os/system.ts'
import { channelOf, type UpdateSettings, update } from '../../../hal/settings/update.ts'
import { deviceRoot } from '../../support/device.ts'

const FILE = 'etc/receiverd/update.conf'
const SECRET = 'https://updates.example.net/stable.raucb?token=s3cret&sig=a/b'
const SHOWN = 'https://updates.example.net/stable.raucb?…'
const NONE = { days: [], from: '', to: '' }
const OFF: UpdateSettings = { channel: '', policy: 'off', window: NONE }

test('without a file a device does nothing by itself; what is written is read, in a file that root alone can read', async t => {
  const root = deviceRoot(t)
  const setting = update(new System(root))
  t.strictSame(await setting.read(), OFF)
  const value: UpdateSettings = {
    channel: 'https://updates.example.net/stable.raucb',
    policy: 'install',
    window: { days: ['sun', 'wed'], from: '23:30', to: '04:00' },
  }
  await setting.write?.(value)
  t.strictSame(await setting.read(), value)
  t.equal(statSync(join(root, FILE)).mode & 0o777, 0o600)
  t.equal(
    readFileSync(join(root, FILE), 'utf8'),
    'CHANNEL=https://updates.example.net/stable.raucb\nPOLICY=install\nWINDOW_DAYS="sun wed"\nWINDOW_FROM=23:30\nWINDOW_TO=04:00\n',
  )
})

test('the query of a channel is not shown, and kept where its mask is written', async t => {
  const root = deviceRoot(t)
  const system = new System(root)
  const setting = update(system)
  await setting.write?.({ ...OFF, channel: SECRET })
  t.strictSame(await setting.read(), { ...OFF, channel: SHOWN })
  await setting.write?.({ channel: SHOWN, policy: 'check', window: NONE })
  t.equal(await channelOf(system), SECRET)
  t.strictSame(await setting.check?.({ ...OFF, channel: SHOWN }, { ...OFF, channel: SHOWN }), [])
  const mistakes = await setting.check?.({ ...OFF, channel: SHOWN }, { ...OFF, channel: 'https://other.example/' })
  t.match(mistakes, [{ pointer: '/channel', detail: /no query of this address that it could keep/ }])
})

test('values that are refused, and where', async t => {
  const setting = update(new System(deviceRoot(t)))
  const channel = 'https://updates.example.net/'
  const cases: readonly (readonly [Partial<UpdateSettings>, pointer: string, detail: RegExp])[] = [
    [{ channel: 'ftp://a.example/b' }, '/channel', /https:/],
    [{ channel: 'file:///etc/shadow' }, '/channel', /https:/],
    [{ channel: 'https:a.example' }, '/channel', /https:/],
    [{ channel: 'https:///a.example' }, '/channel', /https:/],
    [{ channel: 'a.example/b' }, '/channel', /https:/],
    [{ channel: 'https://u:p@a.example/' }, '/channel', /user name/],
    [{ channel: 'https://@a.example/' }, '/channel', /user name/],
    [{ channel: 'https://a.example/#b' }, '/channel', /fragment/],
    [{ channel: 'https://a.example/ b' }, '/channel', /ASCII/],
    [{ channel: 'https://a.example/\n-o' }, '/channel', /ASCII/],
    [{ channel: 'https://a.example\\@b.example/' }, '/channel', /ASCII/],
    [{ channel: 'https://ä.example/' }, '/channel', /ASCII/],
    [{ channel: 'https://a.example/{1..9}' }, '/channel', /ASCII/],
    [{ channel: `https://a.example/${'a'.repeat(2_048)}` }, '/channel', /longer/],
    [{ policy: 'check', channel: '' }, '/policy', /channel/],
    [{ window: { days: ['mon', 'tue', 'mon'], from: '', to: '' } }, '/window/days/2', /duplicate/],
    [{ window: { days: [], from: '02:00', to: '' } }, '/window/to', /from is set/],
    [{ window: { days: [], from: '', to: '02:00' } }, '/window/from', /to is set/],
    [{ window: { days: [], from: '02:00', to: '02:00' } }, '/window/to', /differ/],
  ]
  for (const [part, pointer, detail] of cases)
    t.match(await setting.check?.({ ...OFF, channel, ...part }, OFF), [{ pointer, detail }], JSON.stringify(part))
  for (const good of [
    'http://192.0.2.1:8080/b',
    'https://[2001:db8::1]/b?c=d',
    'HTTPS://a.example',
    'https://a.example/@',
  ])
    t.strictSame(await setting.check?.({ ...OFF, channel: good }, OFF), [], good)
})

test('a file that makes no sense is no value', async t => {
  const root = deviceRoot(t)
  const setting = update(new System(root))
  await setting.write?.(OFF)
  for (const text of [
    'POLICY=always',
    'WINDOW_DAYS="mon noday"',
    'CHANNEL=file:///etc/shadow',
    'CHANNEL=https://a/?…',
  ]) {
    writeFileSync(join(root, FILE), text)
    await t.rejects(setting.read(), { code: 'UNREADABLE' }, text)
    t.equal(await channelOf(new System(root)), '')
  }
  t.strictSame(await setting.fallback(), OFF)
})

test('a device without RAUC, or that was started otherwise, does not have it', async t => {
  const root = deviceRoot(t)
  const setting = update(new System(root))
  t.equal(await setting.unavailable?.(), undefined)
  writeFileSync(join(root, 'proc/cmdline'), 'root=/dev/mmcblk0p2 not.rauc.slot=A\n')
  t.match(await setting.unavailable?.(), /slot/)
  t.match(await update(new System(root), false).unavailable?.(), /folder/)
  rmSync(join(root, 'etc/rauc/system.conf'))
  t.match(await setting.unavailable?.(), /RAUC/)
})
