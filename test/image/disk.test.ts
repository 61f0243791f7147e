/** The disk that an image is: the geometry of its data partition, which keeps it however large the card is. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3
const DATA = { offset: (260 + 2048) * MIB, bytes: 64 * MIB }
const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` }
const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd: REPOSITORY, encoding: 'utf8', env, stdio: 'pipe' })

t.test(
  'the data partition grows to a card of any size, and little of it is metadata',
  {
    skip: needs('sfdisk', 'debugfs', 'mkenvimage'),
  },
  async t => {
    const folder = temporaryFolder(t)
    const at = (name: string) => join(folder, name)
    mkdirSync(at('data'))
    mkdirSync(at('data/rauc'))
    writeFileSync(at('data/rauc/central.raucs'), '[slot.rootfs.0]\n')
    for (const name of ['slot.ext4', 'boot.vfat']) writeFileSync(at(name), name)
    run('build/image/disk.sh', at('slot.ext4'), at('boot.vfat'), at('data'), at('disk'))
    run('dd', `if=${at('disk')}`, `of=${at('card')}`, 'bs=1M', `skip=${DATA.offset / MIB}`, 'conv=sparse')

    const header = () => run('dumpe2fs', '-h', at('card'))
    const number = (name: string) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(header())?.[1])
    const free = () => number('Free blocks') * number('Block size')
    t.equal(number('Block size'), 4096)
    t.match(header(), /^Total journal size: +16M$/m)
    t.ok(free() > 0.7 * DATA.bytes, `${free()} bytes are free for the first boot`)
    t.ok(number('Free inodes') > 4000, `${number('Free inodes')} files`)

    for (const gibibytes of [4, 60, 240]) {
      truncateSync(at('card'), gibibytes * GIB)
      run('e2fsck', '-fp', at('card'))
      run('resize2fs', at('card'))
      run('e2fsck', '-fn', at('card'))
      const used = 1 - free() / (gibibytes * GIB)
      t.ok(used < 0.02, `${gibibytes} GiB, of which ${(100 * used).toFixed(1)} % are metadata`)
      t.match(run('debugfs', '-R', 'cat /rauc/central.raucs', at('card')), '[slot.rootfs.0]')
    }
  },
)
