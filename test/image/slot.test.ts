/** The image of a slot: the same commit gives the same bytes, wherever and whenever it is made. */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const skip = needs('debugfs')
const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin`, SOURCE_DATE_EPOCH: '1700000000' }
const slot = (root: string, image: string, settings: Readonly<Record<string, string>> = {}) =>
  spawnSync(join(REPOSITORY, 'build/image/slot.sh'), [root, image], {
    cwd: REPOSITORY,
    env: { ...env, ...settings },
    encoding: 'utf8',
  })

/** A small system, whose files are made in this order. */
function makeRoot(root: string, names: readonly string[]) {
  const write = (path: string, contents: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), contents)
  }
  for (const name of names) write(`usr/lib/${name}`, name.repeat(3000))
  write('etc/shadow', 'root:*:19000::::::\n')
  chmodSync(join(root, 'etc/shadow'), 0o600)
  linkSync(join(root, 'etc/shadow'), join(root, 'etc/same'))
  symlinkSync('usr/lib', join(root, 'lib'))
}

t.test(
  'the same files give the same image, in whatever order and at whatever time they were made',
  { skip },
  async t => {
    const folder = temporaryFolder(t)
    const names = Array.from({ length: 300 }, (_, index) => `lib${index}.so`)
    const images = ['one', 'two'].map((name, index) => {
      const root = join(folder, name, 'root')
      makeRoot(root, index === 0 ? names : names.toReversed())
      // Another day, and what a day leaves behind.
      utimesSync(join(root, 'etc/shadow'), 1_600_000_000 + index, 1_600_000_000 + index)
      for (const path of [
        'var/log/dpkg.log',
        'etc/shadow-',
        'var/cache/ldconfig/aux-cache',
        'var/cache/debconf/config.dat-old',
      ]) {
        mkdirSync(dirname(join(root, path)), { recursive: true })
        writeFileSync(join(root, path), `of ${name}\n`)
      }
      const image = join(folder, name, 'virt.ext4')
      t.match(slot(root, image), { status: 0, stderr: '' })
      return image
    })
    const [one = '', two = ''] = images
    t.ok(readFileSync(one).equals(readFileSync(two)), 'byte by byte')

    execFileSync('e2fsck', ['-fn', one], { env, stdio: 'pipe' })
    const ask = (...args: string[]) => execFileSync('debugfs', [...args, one], { env, encoding: 'utf8', stdio: 'pipe' })
    t.equal(ask('-R', 'cat /usr/lib/lib7.so'), 'lib7.so'.repeat(3000))
    t.match(ask('-R', 'stat /etc/shadow'), /Mode: +0600.*Links: 2.*mtime: 0x6553f100/s)
    t.match(ask('-R', 'stat /lib'), /Fast link dest: "usr\/lib"/)
    const header = execFileSync('dumpe2fs', ['-h', one], { env, encoding: 'utf8', stdio: 'pipe' })
    t.notMatch(header, /has_journal/, 'it is never written to')

    const later = join(folder, 'later.ext4')
    t.equal(slot(join(folder, 'one/root'), later, { SOURCE_DATE_EPOCH: '1700000001' }).status, 0)
    t.notOk(readFileSync(one).equals(readFileSync(later)), 'another commit, another image')
  },
)

t.test('a system that leaves no room for later ones is refused', { skip }, async t => {
  const folder = temporaryFolder(t)
  const root = join(folder, 'root')
  mkdirSync(root)
  writeFileSync(join(root, 'sparse'), '')
  truncateSync(join(root, 'sparse'), 1024 ** 3 * 2)
  t.match(slot(root, join(folder, 'virt.ext4')), {
    status: 1,
    stderr: /root needs 20\d\d MiB, and a system may have 1700: see build\/image\/left-out\n$/,
  })
  t.notOk(existsSync(join(folder, 'virt.ext4')))
})
