import { lstatSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { locale } from '../../../hal/settings/locale.ts'
import { archiveOf } from '../support/locale-archive.ts'
import { Device } from '../support/setting-device.ts'

const COMPILED = '/usr/lib/locale'

/** A device of which nobody knows what locales it has: without glibc, for example. */
function unknownDevice(t: Test) {
  const device = new Device(t, locale)
  rmSync(join(device.root, COMPILED), { recursive: true })
  return device
}

test('the locale is LANG in locale.conf', async t => {
  const device = new Device(t, locale)
  for (const [text, value, what] of [
    ['LANG=nl_BE.UTF-8\n', 'nl_BE.UTF-8', 'bare'],
    ['LANG="nl_BE.UTF-8"\nLC_TIME=C\n', 'nl_BE.UTF-8', 'in quotes, among others'],
    ['LANGUAGE=nl\n', 'C.UTF-8', 'a longer name'],
    ['LANG=\n', 'C.UTF-8', 'an empty value'],
    ['LANG=$(id)\n', 'C.UTF-8', 'an invalid value'],
    ['', 'C.UTF-8', 'an empty file'],
    [undefined, 'C.UTF-8', 'no file'],
    [Buffer.from('LANG=\xff', 'latin1'), 'C.UTF-8', 'not UTF-8'],
    [`LANG=nl_BE\n${'#'.repeat(1_100_000)}`, 'C.UTF-8', 'a file that is too long'],
    ['LANG=fr_FR.UTF-8\n', 'fr_FR.UTF-8', 'a locale that the device does not have'],
  ] as const) {
    device.put('/etc/locale.conf', text)
    t.equal(await device.value(), value, what)
  }
})

test('names as in locale(7) are accepted', async t => {
  const device = unknownDevice(t)
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

test('a locale that the device does not have is refused, with those that it has', async t => {
  const device = new Device(t, locale)
  const refusal = async (name: string) => (await device.setting.check?.(name, name))?.[0]
  for (const name of ['C', 'POSIX', 'C.UTF-8', 'de_DE.UTF-8', 'de_DE.utf8', 'de_DE.utf-8', 'nl_BE.UTF-8'])
    t.equal(await refusal(name), undefined, name)
  const has = 'available: C, C.UTF-8, POSIX, de_DE.UTF-8, en_GB.UTF-8, nl_BE.UTF-8'
  for (const name of ['fr_FR.UTF-8', 'fr_FR', 'x_X'])
    t.strictSame(await refusal(name), { pointer: '', detail: `not installed on this device; ${has}` }, name)
  for (const name of ['de_DE', 'de_DE.ISO-8859-1', 'de_DE.UTF-8@euro', 'de_AT.UTF-8'])
    t.match(
      (await refusal(name))?.detail,
      'not installed on this device; available: de_DE.UTF-8, C,',
      `${name}: the same language first`,
    )

  device.put('/usr/share/i18n/SUPPORTED', 'fr_FR.UTF-8 UTF-8\nfr_FR ISO-8859-1\n')
  t.match((await refusal('fr_FR.UTF-8'))?.detail, /^not generated on this device; /)
  t.match((await refusal('it_IT.UTF-8'))?.detail, /^not installed on this device; /)
})

test('locales come from folders and from the archive', async t => {
  const device = unknownDevice(t)
  const accepts = (name: string) => device.accepts(name)
  device.put(`${COMPILED}/locale-archive`, archiveOf(['en_GB.utf8', '', 'de_DE', 'de_DE.iso88591', 'french', 'a_b']))
  for (const name of ['en_GB.UTF-8', 'de_DE', 'de_DE.ISO-8859-1', 'de_DE.8859-1']) t.ok(await accepts(name), name)
  for (const name of ['en_GB', 'de_DE.UTF-8', 'nl_BE']) t.notOk(await accepts(name), name)
  const [refusal] = (await device.setting.check?.('nl_BE', 'nl_BE')) ?? []
  t.match(
    refusal?.detail,
    /available: C, C.UTF-8, POSIX, de_DE, de_DE.iso88591, en_GB.UTF-8$/,
    'names that are accepted',
  )

  device.put(`${COMPILED}/nl_BE.utf8/LC_CTYPE`, '')
  mkdirSync(join(device.root, COMPILED, 'fr_FR.utf8'))
  for (const name of ['nl_BE.UTF-8', 'en_GB.UTF-8', 'C.UTF-8']) t.ok(await accepts(name), name)
  t.notOk(await accepts('fr_FR.UTF-8'), 'an empty folder')
})

test('of hundreds of locales, some are named', async t => {
  const device = unknownDevice(t)
  const letters = 'abcdefghijklmnopqrstuvwxyz'
  const names = Array.from(letters, one => Array.from(letters, other => `${one}${other}_XX.utf8`)).flat()
  device.put(`${COMPILED}/locale-archive`, archiveOf(names))
  const [refusal] = (await device.setting.check?.('nl_BE', 'nl_BE')) ?? []
  t.match(refusal?.detail, /^not installed on this device; available: nl_XX\.UTF-8, C, .* and 671 more$/)
  t.ok((refusal?.detail.length ?? 0) < 200)
})

test('where the locales cannot be known, any name is accepted', async t => {
  const device = unknownDevice(t)
  t.ok(await device.accepts('fr_FR.UTF-8'), 'nothing')
  device.put(`${COMPILED}/C.utf8/LC_CTYPE`, '')
  t.notOk(await device.accepts('fr_FR.UTF-8'), 'known')
  device.put(`${COMPILED}/locale-archive`, 'not an archive')
  t.ok(await device.accepts('fr_FR.UTF-8'), 'an archive of another kind')
})

test('a new locale goes where the old one was, and the other lines are kept', async t => {
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
    if (systemd && debian) t.equal(device.text('/etc/default/locale'), debian, 'the other file is kept')
  }
  const device = new Device(t, locale)
  device.put('/etc/locale.conf', undefined)
  await device.setting.write?.('nl_BE')
  t.equal(device.text('/etc/locale.conf'), 'LANG=nl_BE\n', 'neither')
})

test('if locale.conf is a link to default/locale, as on Debian, the link is kept', async t => {
  const device = new Device(t, locale)
  device.put('/etc/locale.conf', undefined)
  device.put('/etc/default/locale', 'LANG=C\n')
  symlinkSync('default/locale', join(device.root, 'etc/locale.conf'))
  await device.setting.write?.('nl_BE')
  t.equal(device.text('/etc/default/locale'), 'LANG=nl_BE\n')
  t.ok(lstatSync(join(device.root, 'etc/locale.conf')).isSymbolicLink())
})
