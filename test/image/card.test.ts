/** The card that `make image BOARD=raspberry-pi` has made, read without mounting it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { CARD, copyFromCard } from '../device/boards.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const MIB = 1024 ** 2
const SECTORS = MIB / 512
const ROOT = `${CARD}?offset=${260 * MIB}`

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin`, MTOOLS_SKIP_CHECK: '1' }
const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, { encoding: 'utf8', env, stdio: 'pipe' })
const skip = !existsSync(CARD) ? 'run make card as root' : needs('sfdisk', 'mcopy', 'debugfs')

/** A file of the root file system. */
const rootFile = (path: string) => run('debugfs', '-R', `cat ${path}`, ROOT)

t.test('two partitions: FAT that the firmware reads, and Linux to the end', { skip }, async t => {
  const { partitiontable } = JSON.parse(run('sfdisk', '--json', CARD))
  t.match(partitiontable, {
    label: 'dos',
    partitions: [
      { start: 4 * SECTORS, size: 256 * SECTORS, type: 'c', bootable: true },
      { start: 260 * SECTORS, size: 2048 * SECTORS, type: '83' },
    ],
  })
})

t.test('the boot partition has all that its configuration names', { skip }, async t => {
  const folder = temporaryFolder(t)
  copyFromCard(CARD, ['config.txt', 'cmdline.txt', 'receiver.txt'], folder)
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const config = read('config.txt')
  t.match(config, /^arm_64bit=1$/m)
  const named = ['kernel=', 'initramfs '].map(key => new RegExp(`^${key}(\\S+)$`, 'm').exec(config)?.[1] ?? '')
  const dtbs = ['bcm2837-rpi-3-b', 'bcm2837-rpi-3-b-plus', 'bcm2711-rpi-4-b'].map(name => `${name}.dtb`)
  const firmware = ['bootcode.bin', 'start.elf', 'fixup.dat', 'start4.elf', 'fixup4.dat']
  copyFromCard(CARD, [...named, ...dtbs, ...firmware], folder)
  t.match(read('cmdline.txt'), /(^| )root=LABEL=receiver .*rootwait/)
  t.equal(read('receiver.txt'), readFileSync(join(REPOSITORY, 'build/image/receiver.txt'), 'utf8'))
})

t.test('the root file system is whole, has room, and nothing that belongs to one device', { skip }, async t => {
  t.equal(spawnSync('e2fsck', ['-fn', ROOT], { env }).status, 0)
  const [, blocks, free] = /^Block count: +(\d+)$.*^Free blocks: +(\d+)$/ms.exec(run('dumpe2fs', '-h', ROOT)) ?? []
  t.ok(Number(free) * 4096 > 500 * MIB, `${free} of ${blocks} blocks are free`)
  t.match(run('dumpe2fs', '-h', ROOT), /^Filesystem volume name: +receiver$/m)
  t.match(rootFile('/etc/fstab'), /^LABEL=receiver \/ ext4 \S*x-systemd\.growfs/m)
  t.equal(rootFile('/etc/machine-id'), 'uninitialized\n')
  t.match(rootFile('/usr/share/doc/receiverd/THIRD-PARTY'), /^typebox /m)
  for (const path of ['/etc/hostname', '/etc/receiverd/tls', '/var/lib/receiverd', '/etc/credstore/receiverd.api-key'])
    t.equal(run('debugfs', '-R', `stat ${path}`, ROOT), '', `no ${path}`)
  t.equal(run('debugfs', '-R', 'ls -p /boot/firmware', ROOT).trim().split('\n').length, 2, 'it is on its own partition')
})

t.test('a partition that grows keeps its start, and one that fills the card stays as it is', { skip }, async t => {
  const disk = join(temporaryFolder(t), 'disk')
  execFileSync('dd', [`if=${CARD}`, `of=${disk}`, 'bs=1M', 'count=4'], { stdio: 'pipe' })
  execFileSync('truncate', ['--size=4G', disk])
  const grow = () =>
    spawnSync('sfdisk', ['--quiet', '--no-reread', '--no-tell-kernel', '-N', '2', disk], { env, input: ', +\n' }).status
  for (const time of ['grows', 'stays']) {
    t.equal(grow(), 0)
    const [, root] = JSON.parse(run('sfdisk', '--json', disk)).partitiontable.partitions
    t.match(root, { start: 260 * SECTORS, size: (4096 - 260) * SECTORS, type: '83' }, time)
  }
})
