/** Read back by another program, zbarimg(1). */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { qrCode } from '../../src/qr/qr-code.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const ZBARIMG = '/usr/bin/zbarimg'
const QUIET = 4
const SCALE = 3

/** A plain PBM image (pbm(5)), with the quiet zone. */
function image(text: string): string {
  const rows = qrCode(text)
  const size = (rows.length + 2 * QUIET) * SCALE
  const dark = (at: number, row: readonly boolean[] | undefined) => row?.[Math.floor(at / SCALE) - QUIET] === true
  const line = (y: number) => {
    const row = rows[Math.floor(y / SCALE) - QUIET]
    return Array.from({ length: size }, (_, x) => (dark(x, row) ? 1 : 0)).join(' ')
  }
  return `P1\n${size} ${size}\n${Array.from({ length: size }, (_, y) => line(y)).join('\n')}\n`
}

t.test('zbarimg reads what was encoded', { skip: needs('zbarimg') }, async t => {
  const folder = temporaryFolder(t)
  // Both widths of the length, with and without the version's bits, one block and many, short blocks and long ones.
  for (const length of [1, 17, 18, 100, 134, 230, 231, 300, 367, 400, 700, 1_100, 1_900, 2_953]) {
    const text = `${'http://192.0.2.7:8080/#key=Az09-_.'.repeat(100)}`.slice(0, length)
    const file = join(folder, `${length}.pbm`)
    writeFileSync(file, image(text))
    const read = execFileSync(ZBARIMG, ['--quiet', '--raw', file], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    t.equal(read, `${text}\n`, `${length} bytes`)
  }
  const name = 'Salle d’été – 会議室'
  writeFileSync(join(folder, 'utf-8.pbm'), image(name))
  t.equal(
    execFileSync(ZBARIMG, ['--quiet', '--raw', join(folder, 'utf-8.pbm')], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
    `${name}\n`,
  )
})

t.test('a code has the size of its version, and its three finders', async t => {
  for (const [length, version] of [
    [17, 1],
    [18, 2],
    [230, 9],
    [231, 10],
    [2_953, 40],
  ] as const) {
    const rows = qrCode('a'.repeat(length))
    t.equal(rows.length, version * 4 + 17, `${length} bytes`)
    t.ok(rows.every(row => row.length === rows.length))
    const finder = (x: number, y: number) => rows[y]?.slice(x, x + 7).every(Boolean)
    t.ok(finder(0, 0) && finder(rows.length - 7, 0) && finder(0, rows.length - 7))
  }
})

t.test('more does not fit', async t => {
  t.throws(() => qrCode('a'.repeat(2_954)), RangeError)
})
