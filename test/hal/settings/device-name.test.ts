import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'tap'
import type { System } from '../../../hal/os/system.ts'
import { deviceName } from '../../../hal/settings/device-name.ts'
import { hostname } from '../../../hal/settings/hostname.ts'
import { Device } from '../support/setting-device.ts'

const ofSystem = (system: System) => deviceName(system, hostname(system))

test('the name is PRETTY_HOSTNAME, or the host name', async t => {
  const device = new Device(t, ofSystem)
  for (const [text, value, what] of [
    ['PRETTY_HOSTNAME="Meeting Room 4"\n', 'Meeting Room 4', 'in quotes'],
    ['PRETTY_HOSTNAME=\'Raum "Süd"\'\n', 'Raum "Süd"', 'in single quotes'],
    ['PRETTY_HOSTNAME=Lobby', 'Lobby', 'bare'],
    ['PRETTY_HOSTNAME=\n', 'receiver', 'an empty one'],
    ['ICON_NAME=x\n', 'receiver', 'none'],
    ['', 'receiver', 'an empty file'],
    [undefined, 'receiver', 'no file'],
    [Buffer.from('PRETTY_HOSTNAME=\xff', 'latin1'), 'receiver', 'not UTF-8'],
    [`PRETTY_HOSTNAME=x\n${'#'.repeat(1_100_000)}`, 'receiver', 'a file that is too long'],
    [`PRETTY_HOSTNAME=${'x'.repeat(65)}\n`, 'receiver', 'a name that is too long'],
    ['PRETTY_HOSTNAME="a\nb"\n', 'receiver', 'a name with a line break'],
  ] as const) {
    device.put('/etc/machine-info', text)
    t.equal(await device.value(), value, what)
  }
  device.put('/etc/hostname', undefined)
  t.equal(await device.value(), 'localhost', 'without a host name, localhost')
})

test('1 to 64 code points are accepted, and no control characters', async t => {
  const device = new Device(t, ofSystem)
  for (const name of [
    'a',
    ' ',
    'x'.repeat(64),
    '🎬'.repeat(64),
    '會議室 4',
    'e\u0301',
    '\u2028',
    'a\'b"c`d$e\\f',
    '\u{10FFFF}',
  ])
    t.ok(await device.accepts(name), name)
  for (const name of ['', 'x'.repeat(65), '🎬'.repeat(65), 7, null, {}]) t.notOk(await device.accepts(name), `${name}`)
  for (let code = 0; code <= 0xa0; code++) {
    const isControl = code < 0x20 || (code >= 0x7f && code < 0xa0)
    if ((await device.accepts(`a${String.fromCharCode(code)}`)) === isControl) t.fail(`U+${code.toString(16)}`)
  }
})

test('a new name keeps the other lines, and is what a shell reads', async t => {
  const device = new Device(t, ofSystem)
  for (const name of ['Lobby', 'Großer Saal', '"; rm -rf $HOME `id` \\ \'', '🎬'.repeat(64), '#', ' ']) {
    await device.setting.write?.(name)
    t.equal(await device.value(), name)
    const [first, second, third, ...rest] = device.text('/etc/machine-info').split('\n')
    t.same([first, third, rest], ['# Shown on the lobby plan.', 'ICON_NAME=video-display', ['']])
    t.match(second, /^PRETTY_HOSTNAME=/)
    const script = '. "$1"; printf %s "$PRETTY_HOSTNAME"'
    t.equal(
      execFileSync('/bin/sh', ['-c', script, 'sh', join(device.root, 'etc/machine-info')], { encoding: 'utf8' }),
      name,
    )
  }
})
