import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { archivedLocales } from '../../../hal/format/locale-archive.ts'
import { needs } from '../../support/needs.ts'
import { Random, SEED } from '../../support/random.ts'
import { archiveOf } from '../support/locale-archive.ts'

/** Of Debian's package `locales`; localedef(1) itself is part of libc-bin. */
const skip = needs('/usr/share/i18n/locales/en_GB')

test('the names in an archive are read, without unused entries', t => {
  t.strictSame(archivedLocales(archiveOf([])), [])
  t.strictSame(archivedLocales(archiveOf(['en_GB.utf8', '', 'bokmål', 'de_DE@euro'])), [
    'en_GB.utf8',
    'bokmål',
    'de_DE@euro',
  ])
  t.end()
})

test('anything but a whole table of names is not an archive', t => {
  const bytes = archiveOf(['en_GB.utf8', 'de_DE'])
  for (let length = 0; length < bytes.length; length++)
    t.equal(archivedLocales(bytes.subarray(0, length)), undefined, `${length} bytes`)
  const swapped = Buffer.from(bytes)
  swapped.subarray(0, 56).swap32()
  t.equal(archivedLocales(swapped), undefined, 'of another byte order')
  for (const [offset, value] of [
    [8, 0xffff_fff0],
    [16, 0xffff_ffff],
    [60, 0xffff_ffff],
  ] as const) {
    const broken = Buffer.from(bytes)
    broken.writeUInt32LE(value, offset)
    t.equal(archivedLocales(broken), undefined, `${value} at ${offset}`)
  }
  t.equal(archivedLocales(archiveOf(['x'.repeat(64)])), undefined, 'a name without an end')
  t.end()
})

test('no bytes make it throw', t => {
  const random = new Random(SEED)
  for (let round = 0; round < 2_000; round++) {
    const bytes = archiveOf(['en_GB.utf8', 'de_DE', ''])
    for (let n = random.below(6); n >= 0; n--) bytes[4 + random.below(bytes.length - 4)] = random.below(256)
    archivedLocales(bytes)
  }
  t.pass(`seed ${SEED}`)
  t.end()
})

test('names are those that localedef lists', { skip }, t => {
  const root = t.testdir({ usr: { lib: { locale: {} } } })
  const localedef = (...argv: string[]) =>
    spawnSync('localedef', [`--prefix=${root}`, ...argv], { encoding: 'utf8', timeout: 60_000 })
  mkdirSync(join(root, 'usr/lib/locale'), { recursive: true })
  localedef('-i', 'en_GB', '-f', 'ISO-8859-1', 'en_GB')
  localedef('-i', 'de_DE@euro', '-f', 'ISO-8859-15', 'de_DE@euro')
  localedef('--delete-from-archive', 'de_DE@euro')
  const listed = localedef('--list-archive').stdout.trim().split('\n')
  t.ok(listed.includes('en_GB.iso88591'))
  const bytes = readFileSync(join(root, 'usr/lib/locale/locale-archive'))
  t.strictSame(archivedLocales(bytes.subarray(0, 512 * 1024))?.toSorted(), listed.sort())
  t.end()
})
