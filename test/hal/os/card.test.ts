/** The disk of the boot partition. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { type FileSystem, KERNEL } from '../../../hal/files/kernel.ts'
import { Card } from '../../../hal/os/card.ts'
import { System } from '../../../hal/os/system.ts'
import { systemError } from '../support/file-system.ts'
import { newRoot } from '../support/tree.ts'

const CARD = '../../devices/platform/soc/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0'
const STICK = '../../devices/pci0000:00/usb1/1-1/block/sda'

/** A system that started from `root`; `boot` is mounted, unless it is undefined. */
function isOwn(root: string, boot?: string, folder = '/boot/firmware', fs: FileSystem = KERNEL): Promise<boolean> {
  const devices = { '179:1': `${CARD}/mmcblk0p1`, '179:2': `${CARD}/mmcblk0p2`, '8:0': STICK, '8:1': `${STICK}/sda1` }
  const at = newRoot(t)
  const path = (name: string) => {
    mkdirSync(dirname(join(at, name)), { recursive: true })
    return join(at, name)
  }
  for (const [device, target] of Object.entries(devices)) {
    symlinkSync(target, path(`sys/dev/block/${device}`))
    const [disk, partition] = [target, /p?\d$/.test(target)]
    mkdirSync(path(`sys/dev/block/${disk}/x`), { recursive: true })
    if (partition) writeFileSync(path(`sys/dev/block/${disk}/partition`), '1\n')
  }
  const lines = [`24 1 ${root} / / rw,relatime shared:1 - ext4 /dev/root rw`]
  if (boot) lines.push(`30 24 ${boot} / /boot/firmware ro,relatime shared:2 - vfat /dev/x ro`)
  writeFileSync(path('proc/self/mountinfo'), lines.map(line => `${line}\n`).join(''))
  return new Card(new System(at, { fs }), folder).isOwn()
}

t.test('a partition of the disk that the system started from is its own, one of another disk is not', async t => {
  t.equal(await isOwn('179:2', '179:1'), true)
  t.equal(await isOwn('179:2', '8:1'), false)
  t.equal(await isOwn('8:0', '8:0'), true, 'no partitions')
  t.equal(await isOwn('8:0', '8:1'), true)
  t.equal(await isOwn('179:2', '8:0'), false)
  t.equal(await isOwn('0:40', '179:1'), false, 'a root that is on no disk')
  t.equal(await isOwn('179:2'), true, 'a folder of the root file system')
  t.equal(await isOwn('0:40'), true, 'a folder of a root that is on no disk')
  t.equal(await isOwn('179:2', '8:1', '/boot/firmware/receiver'), false, 'a folder of a partition of another disk')
  t.equal(await isOwn('179:2', '179:1', '/boot/firmware/receiver'), true)
})

t.test('disks that cannot be told apart are one error, which a caller can catch', async t => {
  const lstat: FileSystem['lstat'] = path => {
    if (path.includes('/sys/dev/block/')) throw systemError('EIO')
    return KERNEL.lstat(path)
  }
  await t.rejects(isOwn('179:2', '179:1', '/boot/firmware', { ...KERNEL, lstat }), { code: 'EIO' })
})
