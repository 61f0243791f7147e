import { readlinkSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { timezone } from '../../../hal/settings/timezone.ts'
import { Device } from '../support/setting-device.ts'

test('the time zone is the one that the link names', async t => {
  const device = new Device(t, timezone)
  for (const [target, value, what] of [
    ['../usr/share/zoneinfo/Europe/Brussels', 'Europe/Brussels', 'relative'],
    ['/usr/share/zoneinfo/Asia/Tokyo', 'Asia/Tokyo', 'absolute'],
    ['/usr/share/../share/zoneinfo//Etc/GMT+5', 'Etc/GMT+5', 'not normalised'],
    ['/usr/share/zoneinfo/America/Argentina/Buenos_Aires', 'America/Argentina/Buenos_Aires', 'three parts'],
    ['/usr/share/zoneinfo', 'UTC', 'the folder itself'],
    ['/usr/share/zoneinfo/../passwd', 'UTC', 'outside the folder'],
    ['/usr/share/zoneinfo-2/Asia/Tokyo', 'UTC', 'another folder'],
    ['/usr/share/zoneinfo/a b', 'UTC', 'an invalid name'],
    [`/usr/share/zoneinfo/${'a'.repeat(65)}`, 'UTC', 'a name that is too long'],
  ] as const) {
    device.put('/etc/localtime', undefined)
    symlinkSync(target, join(device.root, 'etc/localtime'))
    t.equal(await device.value(), value, what)
  }
  for (const content of ['TZif2', undefined]) {
    device.put('/etc/localtime', content)
    t.equal(await device.value(), 'UTC', content ? 'a copy of a zone' : 'no link')
  }
})

test('time zones of the device are accepted', async t => {
  const device = new Device(t, timezone)
  device.put('/usr/share/zoneinfo/tzdata.zi', '# version 2026a')
  device.put('/usr/share/zoneinfo/empty', '')
  for (const zone of ['Europe/London', 'UTC', 'Etc/UTC']) t.ok(await device.accepts(zone), zone)
  for (const zone of [
    'Europe/Paris',
    'europe/london',
    'Europe',
    'Europe/',
    '/Europe/London',
    'Europe//London',
    '../zoneinfo/UTC',
    'Europe/../UTC',
    './UTC',
    'UTC\n',
    'tzdata.zi',
    'empty',
    '',
    '/',
    '+01',
    'UTC\0',
    'x'.repeat(65),
    7,
    null,
  ])
    t.notOk(await device.accepts(zone), JSON.stringify(zone))
})

test('without zone files on the device, those of the tz database are accepted', async t => {
  const device = new Device(t, timezone)
  device.put('/usr/share/zoneinfo', undefined)
  for (const zone of ['Europe/Brussels', 'UTC', 'Etc/UTC', 'Asia/Kolkata', 'Asia/Calcutta', 'Europe/Kyiv', 'Etc/GMT+5'])
    t.ok(await device.accepts(zone), zone)
  for (const zone of ['Europe/Nowhere', '+01', '-0100', '0100', 'x', '']) t.notOk(await device.accepts(zone), zone)
})

test('a refusal names the closest time zone of the device', async t => {
  const device = new Device(t, timezone)
  device.put('/usr/share/zoneinfo/tzdata.zi', '# version 2026a')
  device.put('/usr/share/zoneinfo/posix/Europe/Paris', 'TZif2')
  device.put('/usr/share/zoneinfo/Europe/Paris', 'TZif2')
  device.put('/usr/share/zoneinfo/America/Argentina/Buenos_Aires', 'TZif2')
  const why = async (zone: string) => (await device.setting.check?.(zone, zone))?.map(({ detail }) => detail)
  const refusal = 'this device has no time zone of that name'
  for (const [zone, meant] of [
    ['Europe/Lodnon', 'Europe/London'],
    ['europe/london', 'Europe/London'],
    ['America/Argentina/Buenos_Airs', 'America/Argentina/Buenos_Aires'],
    ['UCT', 'UTC'],
    ['paris', 'Europe/Paris'],
  ] as const)
    t.strictSame(await why(zone), [`${refusal}; did you mean ${meant}?`])
  for (const zone of ['Mars/Olympus', 'Europa', 'tzdata.zj', 'posix/Europe/Pari'])
    t.strictSame(await why(zone), [refusal], zone)
  device.put('/usr/share/zoneinfo', undefined)
  t.strictSame(await why('Europe/Berln'), [`${refusal}; did you mean Europe/Berlin?`], 'of those built into Node')
})

test('the search for a suggestion is bounded, whatever is in the folder of the zones', async t => {
  const device = new Device(t, timezone)
  symlinkSync('.', join(device.root, 'usr/share/zoneinfo/Loop'))
  const began = process.cpuUsage()
  t.equal((await device.setting.check?.('Nowhere', 'UTC'))?.length, 1)
  const { user, system } = process.cpuUsage(began)
  t.ok(user + system < 2_000_000, `${user + system} µs`)
})

test('a new time zone is a relative link, and a line in /etc/timezone if there is one', async t => {
  const device = new Device(t, timezone)
  await device.setting.write?.('Asia/Tokyo')
  t.equal(readlinkSync(join(device.root, 'etc/localtime')), '../usr/share/zoneinfo/Asia/Tokyo')
  t.equal(device.text('/etc/timezone'), 'Asia/Tokyo\n')
  t.match(device.text('/etc/localtime'), /^TZif/, 'the link leads to the zone')
  device.put('/etc/timezone', undefined)
  await device.setting.write?.('UTC')
  t.equal(await device.system.exists('/etc/timezone'), false)
  device.put('/etc/localtime', 'a copy')
  await device.setting.write?.('UTC')
  t.equal(readlinkSync(join(device.root, 'etc/localtime')), '../usr/share/zoneinfo/UTC', 'in place of a file')
})
