/** The boards that QEMU emulates, each with what `make image` makes for it. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REPOSITORY } from '../../build/bundle-file.ts'

const IMAGE = join(REPOSITORY, 'build/out/image')
export const CARD = join(IMAGE, 'raspberry-pi.img')
/** Bytes into the card: its partitions for the firmware, and for the root file system. */
const BOOT_OFFSET = 4 * 1024 ** 2
const ROOT_OFFSET = 260 * 1024 ** 2
/**
 * Of the kernel. Its page table isolation makes the emulator forget all translations at each system call: a boot takes three
 * times as long.
 */
const FASTER = 'mitigations=off'
/** Of systemd: on a busy host, udev takes more than its usual 90 s to find the partition with receiver.txt. */
const PATIENT = 'systemd.default_device_timeout_sec=600'
/** Of systemd: the emulated Pi resets as soon as its watchdog is served. */
const WITHOUT_WATCHDOG = 'systemd.watchdog_sec=0'

/** Where a board has its ends outside the emulator. */
export interface Wiring {
  readonly disk: string
  /** Ports of the host that lead to the device, as an option of QEMU's user network. */
  readonly forward: string
  readonly shell: string
  readonly sound: string
}

export interface Board {
  readonly name: string
  /** The disk as it leaves the factory. */
  readonly image: string
  /** Bytes into the disk. */
  readonly rootOffset: number
  /** Bytes of the disk in the device, if that is not the image's own size. */
  readonly diskBytes?: number
  /**
   * Whether the device tells its disk when to make writes durable. Where it does not, as with an SD card, a copy on write would
   * lose some that the device believes written when the power is cut: QEMU keeps in memory where it put them.
   */
  readonly flushes: boolean
  /** What the emulated device needs in addition, by path. */
  readonly files?: Readonly<Record<string, string>>
  /** How the test's shell is reached: by a serial port of its own, or by the network. */
  readonly shell: 'port' | 'network'
  /** QEMU's options. Its standard output is the console. */
  readonly options: (wiring: Wiring) => readonly string[]
}

function virtOptions({ disk, forward, shell, sound }: Wiring): readonly string[] {
  return [
    ...['-M', 'virt', '-cpu', 'cortex-a72', '-smp', '2', '-m', '1024', '-serial', 'stdio'],
    ...['-drive', `if=none,id=disk,file=${disk},cache=writeback`, '-device', 'virtio-blk-pci,drive=disk'],
    ...['-netdev', `user,id=net,${forward}`, '-device', 'virtio-net-pci,netdev=net,romfile='],
    ...['-audiodev', `wav,id=sound,path=${sound}`, '-device', 'intel-hda', '-device', 'hda-output,audiodev=sound'],
    ...['-device', 'virtio-gpu-pci', '-device', 'virtio-serial-pci'],
    ...['-chardev', `socket,id=shell,path=${shell},server=on,wait=off`],
    ...['-device', 'virtserialport,chardev=shell,name=shell'],
  ]
}

export const virt: Board = {
  name: 'virt',
  image: join(IMAGE, 'receiver.ext4'),
  rootOffset: 0,
  flushes: true,
  shell: 'port',
  options: wiring => [
    ...virtOptions(wiring),
    ...['-kernel', join(IMAGE, 'vmlinuz'), '-initrd', join(IMAGE, 'initrd.img')],
    ...['-append', `root=LABEL=receiver rw console=ttyAMA0 ${FASTER}`],
  ],
}

/** Copies files from the card's boot partition, without mounting it. */
export function copyFromCard(card: string, names: readonly string[], folder: string): void {
  const paths = names.map(name => `::/${name}`)
  // It would check the geometry, which a partition in an image does not have.
  const env = { ...process.env, MTOOLS_SKIP_CHECK: '1' }
  execFileSync('mcopy', ['-n', '-i', `${card}@@${BOOT_OFFSET}`, ...paths, folder], { env, stdio: 'pipe' })
}

/** Copies a file to the card's boot partition. */
export function copyToCard(card: string, path: string): void {
  const env = { ...process.env, MTOOLS_SKIP_CHECK: '1' }
  execFileSync('mcopy', ['-o', '-i', `${card}@@${BOOT_OFFSET}`, path, '::/'], { env, stdio: 'pipe' })
}

/** What the Pi's firmware would load, as options of QEMU. */
function firmwareOptions(dtb?: string): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  copyFromCard(CARD, ['config.txt', 'cmdline.txt', ...(dtb ? [dtb] : [])], folder)
  const read = (name: string) => execFileSync('cat', [join(folder, name)], { encoding: 'utf8' })
  const config = read('config.txt')
  const kernel = /^kernel=(.+)$/m.exec(config)?.[1] ?? ''
  const initrd = /^initramfs (.+)$/m.exec(config)?.[1] ?? ''
  copyFromCard(CARD, [kernel, initrd], folder)
  return [
    ...['-kernel', join(folder, kernel), '-initrd', join(folder, initrd)],
    ...(dtb ? ['-dtb', join(folder, dtb)] : []),
    ...['-append', `${read('cmdline.txt').trim()} ${FASTER} ${PATIENT} ${WITHOUT_WATCHDOG}`],
  ]
}

const card = {
  image: CARD,
  rootOffset: ROOT_OFFSET,
  // A card is larger than its image. For the emulator, its size is a power of two.
  diskBytes: 4 * 1024 ** 3,
}

/** The card in a Raspberry Pi 3 with its own device tree, card reader and USB network. There is neither picture nor sound. */
export const raspberryPi: Board = {
  ...card,
  name: 'raspi3b',
  flushes: false,
  // The emulated adapter is not the board's own, which is eth0.
  files: { '/etc/systemd/network/10-emulator.link': '[Match]\nOriginalName=usb0\n[Link]\nName=eth0\n' },
  shell: 'network',
  options: ({ disk, forward }) => [
    // The console is the second serial port.
    ...[
      '-M',
      'raspi3b',
      '-serial',
      'null',
      '-serial',
      'stdio',
      '-drive',
      `if=sd,file=${disk},format=raw,cache=writeback`,
    ],
    ...['-netdev', `user,id=net,${forward}`, '-device', 'usb-net,netdev=net'],
    ...firmwareOptions('bcm2837-rpi-3-b.dtb'),
  ],
}

/** The same card on the virtual board, where it has a screen. */
export const cardOnVirt: Board = {
  ...card,
  name: 'card on virt',
  flushes: true,
  shell: 'port',
  options: wiring => [...virtOptions(wiring), ...firmwareOptions()],
}
