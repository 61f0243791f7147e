import { lstatSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { locale } from '../../../hal/settings/locale.ts'
import { Device } from '../support/setting-device.ts'

test('the language is LANG of locale.conf', async t => {
  const device = new Device(t, locale)
  for (const [text, value, what] of [
    ['LANG=nl_BE.UTF-8\n', 'nl_BE.UTF-8', 'bare'],
    ['LANG="nl_BE.UTF-8"\nLC_TIME=C\n', 'nl_BE.UTF-8', 'in quotes, among others'],
    ['LANGUAGE=nl\n', 'C.UTF-8', 'a longer name'],
    ['LANG=\n', 'C.UTF-8', 'an empty one'],
    ['LANG=$(id)\n', 'C.UTF-8', 'what does not fit'],
    ['', 'C.UTF-8', 'an empty file'],
    [undefined, 'C.UTF-8', 'no file'],
    [Buffer.from('LANG=\xff', 'latin1'), 'C.UTF-8', 'no UTF-8'],
    [`LANG=nl_BE\n${'#'.repeat(70_000)}`, 'C.UTF-8', 'a file that is too long'],
  ] as const) {
    device.put('/etc/locale.conf', text)
    t.equal(await device.value(), value, what)
  }
})

test('names of locale(7) are accepted', async t => {
  const device = new Device(t, locale)
  for (const name of [
    'C',
    'POSIX',
    'C.UTF-8',
    'en',
    'en_GB',
    'en_GB.UTF-8',
    'en_GB.utf8',
    'de_DE@euro',
    'sr_RS.UTF-8@latin',
    'ast_ES.ISO-8859-15',
  ])
    t.ok(await device.accepts(name), name)
  for (const name of [
    '',
    'EN_gb',
    'en-GB',
    'en_GB.',
    'en_GB@',
    'english',
    'en_GB.UTF-8\n',
    'en_GB UTF-8',
    '../en',
    'en_GB.UTF-8;id',
    'C.UTF-8\0',
    `en_GB.${'a'.repeat(60)}`,
    'é',
    7,
    null,
  ])
    t.notOk(await device.accepts(name), JSON.stringify(name))
})

test('a new language goes where one was kept, and leaves the other lines', async t => {
  for (const [systemd, debian, written, what] of [
    ['# c\nLANG=C\nLC_TIME=C\n', undefined, '/etc/locale.conf', 'locale.conf'],
    [undefined, '# c\nLANG=C\nLC_TIME=C\n', '/etc/default/locale', 'default/locale'],
    ['# c\nLANG=C\nLC_TIME=C\n', 'LANG=en_GB\n', '/etc/locale.conf', 'both'],
  ] as const) {
    const device = new Device(t, locale)
    device.put('/etc/locale.conf', systemd)
    device.put('/etc/default/locale', debian)
    await device.setting.write?.('nl_BE.UTF-8')
    t.equal(device.text(written), '# c\nLANG=nl_BE.UTF-8\nLC_TIME=C\n', what)
    t.equal(await device.value(), 'nl_BE.UTF-8')
    if (systemd && debian) t.equal(device.text('/etc/default/locale'), debian, 'the other one stays')
  }
  const device = new Device(t, locale)
  device.put('/etc/locale.conf', undefined)
  await device.setting.write?.('nl_BE')
  t.equal(device.text('/etc/locale.conf'), 'LANG=nl_BE\n', 'none')
})

test('locale.conf as a link to default/locale, as Debian has it, is written through', async t => {
  const device = new Device(t, locale)
  device.put('/etc/locale.conf', undefined)
  device.put('/etc/default/locale', 'LANG=C\n')
  symlinkSync('default/locale', join(device.root, 'etc/locale.conf'))
  await device.setting.write?.('nl_BE')
  t.equal(device.text('/etc/default/locale'), 'LANG=nl_BE\n')
  t.ok(lstatSync(join(device.root, 'etc/locale.conf')).isSymbolicLink())
})
