/** The card that `make image BOARD=raspberry-pi` has made, read without mounting it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { A_OFFSET, CARD, copyFromCard } from '../device/boards.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const MIB = 1024 ** 2
const SECTORS = MIB / 512
const SYSTEM = `${CARD}?offset=${A_OFFSET}`
/** The data partition, after the system. */
const DATA_MIB = 260 + 2048
/** Without the state, which is in no partition. */
const BOOT_SCRIPT = ['boot.scr', 'cmdline.env', 'uboot.env']

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin`, MTOOLS_SKIP_CHECK: '1' }
const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, { encoding: 'utf8', env, stdio: 'pipe' })
const skip = !existsSync(CARD) ? 'run make card as root' : needs('sfdisk', 'mcopy', 'debugfs')

/** A file of the system. */
const systemFile = (path: string) => run('debugfs', '-R', `cat ${path}`, SYSTEM)

t.test(
  'FAT that the firmware reads, a system, and data that grow; the second system has no place yet',
  { skip },
  async t => {
    const { partitiontable } = JSON.parse(run('sfdisk', '--json', CARD))
    t.match(partitiontable, { label: 'dos', id: '0x52435652' })
    t.match(partitiontable.partitions, [
      { node: `${CARD}1`, start: 4 * SECTORS, size: 256 * SECTORS, type: 'c', bootable: true },
      { node: `${CARD}2`, start: 260 * SECTORS, size: 2048 * SECTORS, type: '83' },
      { node: `${CARD}4`, start: DATA_MIB * SECTORS, size: 64 * SECTORS, type: '83' },
    ])
  },
)

t.test('the state of the boot script has its checksum, and A as the only system', { skip }, async t => {
  const state = execFileSync('dd', [`if=${CARD}`, 'bs=512', 'skip=2048', 'count=1'], { stdio: 'pipe' })
  t.equal(state.readUInt32LE(), crc32(state.subarray(4)))
  t.equal(state.toString('latin1', 4).replace(/[\0\xff]+$/, ''), 'BOOT_ORDER=A\0BOOT_A_LEFT=14\0BOOT_B_LEFT=0')
})

t.test('the boot partition has all that its configuration names', { skip }, async t => {
  const folder = temporaryFolder(t)
  copyFromCard(CARD, ['config.txt', 'receiver.txt', ...BOOT_SCRIPT], folder)
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const config = read('config.txt')
  t.match(config, /^arm_64bit=1$/m)
  t.match(config, /^kernel=u-boot\.bin$/m)
  t.notMatch(config, /initramfs/)
  const dtbs = ['bcm2837-rpi-3-b', 'bcm2837-rpi-3-b-plus', 'bcm2711-rpi-4-b'].map(name => `${name}.dtb`)
  const firmware = ['bootcode.bin', 'start.elf', 'fixup.dat', 'start4.elf', 'fixup4.dat']
  copyFromCard(CARD, ['u-boot.bin', ...dtbs, ...firmware], folder)
  t.match(read('cmdline.env'), /^more=.* net\.ifnames=0$/m)
  t.match(read('uboot.env'), /bootdelay=-2\0loadaddr=/)
  t.equal(read('receiver.txt'), readFileSync(join(REPOSITORY, 'build/image/receiver.txt'), 'utf8'))
})

t.test(
  'the system is whole, leaves room for later ones, and has nothing that belongs to one device',
  { skip },
  async t => {
    t.equal(spawnSync('e2fsck', ['-fn', SYSTEM], { env }).status, 0)
    const [, blocks] = /^Block count: +(\d+)$/m.exec(run('dumpe2fs', '-h', SYSTEM)) ?? []
    t.ok(Number(blocks) * 4096 < 1748 * MIB, `a system of ${blocks} blocks leaves room for later ones`)
    t.equal(systemFile('/etc/machine-id'), '')
    t.match(systemFile('/usr/share/doc/receiverd/THIRD-PARTY'), /^typebox /m)
    for (const path of [
      '/etc/hostname',
      '/etc/receiverd/tls',
      '/var/lib/receiverd',
      '/etc/credstore/receiverd.api-key',
    ])
      t.equal(run('debugfs', '-R', `stat ${path}`, SYSTEM), '', `no ${path}`)
    t.equal(
      run('debugfs', '-R', 'ls -p /boot/firmware', SYSTEM).trim().split('\n').length,
      2,
      'it is on its own partition',
    )
  },
)
