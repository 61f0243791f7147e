/** The boards that QEMU emulates, each with the image that is made for it. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REPOSITORY } from '../../build/bundle-file.ts'

/** The emulator of all boards, which `make qemu` provides. */
export const QEMU = join(REPOSITORY, 'build/out/qemu/qemu-system-aarch64')
const IMAGE = join(REPOSITORY, 'build/out/image')
export const CARD = join(IMAGE, 'raspberry-pi.img')
/** The machine ID of the card's last start on the virtual board, where `make card-test` leaves it for `make pi-test`. */
export const CARDS_ID = join(IMAGE, 'card.machine-id')
/** U-Boot for the virtual board; its image includes it. */
export const U_BOOT = join(IMAGE, 'u-boot.bin')
/** Bytes into a disk, as `build/image/disk.sh` lays it out: the boot partition, and system A. */
const BOOT_OFFSET = 4 * 1024 ** 2
export const A_OFFSET = 260 * 1024 ** 2
/** A disk is larger than its image. For the emulated card reader, its size is a power of two. */
export const DISK_BYTES = 8 * 1024 ** 3
/**
 * An option of the kernel. Its page table isolation makes the emulator forget all translations at each system call: a boot
 * takes three times as long.
 */
const FASTER = 'mitigations=off'
/**
 * Options of systemd: on a busy host, udev takes more than the usual 90 s to find the partition with receiver.txt, and so do
 * units to start.
 */
const PATIENT = 'systemd.default_device_timeout_sec=600 systemd.default_timeout_start_sec=600'
/**
 * An option of systemd: on a busy host, it is late by more than the 15 s of the image, and the watchdog would reset the device.
 */
const SLOW_TO_BITE = 'systemd.watchdog_sec=60'
/** An option of systemd: the emulated Pi resets as soon as its watchdog is served. */
const WITHOUT_WATCHDOG = 'systemd.watchdog_sec=0'

/** What a board is connected to outside the emulator. */
export interface Wiring {
  readonly disk: string
  /** Ports of the host that lead to the device, as an option of QEMU's user network. */
  readonly forward: string
  readonly shell: string
  readonly sound: string
  /** Where to record every write to the disk; undefined to record none (test/support/write-log.ts). */
  readonly writeLog?: string | undefined
  /** Whether the disk is a file with the bytes at their places. */
  readonly isPlain?: boolean
}

export interface Board {
  /** The name in `make image BOARD=`. */
  readonly name: string
  /** The disk as it leaves the factory. */
  readonly image: string
  /** The image of its system alone. */
  readonly system: string
  /** Added to the command line of the kernel. */
  readonly commandLine: string
  /**
   * Whether the device tells its disk when to make writes durable. If it does not, as with an SD card, a copy-on-write image
   * would lose writes that the device believes durable when the power is cut: QEMU keeps in memory where it put them.
   */
  readonly flushes: boolean
  /** Extra files for the emulated device, by path. */
  readonly files?: Readonly<Record<string, string>>
  /** How the test's shell is reached: by a serial port of its own, or over the network. */
  readonly shell: 'port' | 'network'
  /** QEMU's options. Its standard output is the console. */
  readonly options: (wiring: Wiring) => readonly string[]
}

function virtOptions({ disk, forward, shell, sound, ...more }: Wiring): readonly string[] {
  return [
    ...['-M', 'virt,acpi=off', '-bios', U_BOOT, '-cpu', 'cortex-a72', '-smp', '2', '-m', '1024', '-serial', 'stdio'],
    ...diskOptions(disk, more),
    ...['-device', 'virtio-blk-pci,drive=disk,werror=report,rerror=report'],
    ...['-netdev', `user,id=net,${forward}`, '-device', 'virtio-net-pci,netdev=net,romfile='],
    ...['-audiodev', `wav,id=sound,path=${sound}`, '-device', 'intel-hda', '-device', 'hda-output,audiodev=sound'],
    ...['-device', 'virtio-gpu-pci', '-device', 'virtio-serial-pci'],
    ...['-chardev', `socket,id=shell,path=${shell}`],
    ...['-device', 'virtserialport,chardev=shell,name=shell'],
    // A watchdog that resets the board, as on a Pi.
    ...['-device', 'i6300esb'],
  ]
}

function diskOptions(
  disk: string,
  { writeLog, isPlain = false }: Pick<Wiring, 'writeLog' | 'isPlain'>,
): readonly string[] {
  // With threads, whose calls a library can replace (test/device/bad-card.c).
  if (isPlain) return ['-blockdev', `driver=file,node-name=disk,filename=${disk},aio=threads`]
  // A flush ends in the host's page cache, which outlives the emulator: a device does not wait for the host's disk.
  if (writeLog === undefined) return ['-drive', `if=none,id=disk,file=${disk},cache=unsafe`]
  return [
    ...['-blockdev', `driver=qcow2,node-name=plain,file.driver=file,file.filename=${disk}`],
    ...['-blockdev', `driver=file,node-name=log,filename=${writeLog}`],
    ...['-blockdev', 'driver=blklogwrites,node-name=disk,file=plain,log=log,log-sector-size=512'],
  ]
}

export const virt: Board = {
  name: 'virt',
  image: join(IMAGE, 'virt.img'),
  system: join(IMAGE, 'virt.ext4'),
  commandLine: `${FASTER} ${PATIENT} ${SLOW_TO_BITE}`,
  flushes: true,
  shell: 'port',
  options: virtOptions,
}

/** The virtual board with the image of `make update-test FROM=COMMIT`. */
export const earlier: Board = { ...virt, image: join(IMAGE, 'earlier.img') }

/** Copies files from the card's boot partition, without mounting it. */
export function copyFromCard(card: string, names: readonly string[], folder: string): void {
  const paths = names.map(name => `::/${name}`)
  // mtools would check the geometry, which a partition in an image does not have.
  const env = { ...process.env, MTOOLS_SKIP_CHECK: '1' }
  execFileSync('mcopy', ['-n', '-i', `${card}@@${BOOT_OFFSET}`, ...paths, folder], { env, stdio: 'pipe' })
}

/** Copies a file to the card's boot partition. */
function copyToCard(card: string, path: string): void {
  const env = { ...process.env, MTOOLS_SKIP_CHECK: '1' }
  execFileSync('mcopy', ['-o', '-i', `${card}@@${BOOT_OFFSET}`, path, '::/'], { env, stdio: 'pipe' })
}

/** Prepares the card as its owner would on a PC: with files of these names. */
export function prepare(card: string, files: Readonly<Record<string, string>>): void {
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), text)
    copyToCard(card, join(folder, name))
  }
  rmSync(folder, { recursive: true })
}

/** Adds to the command line of the kernel, which the boot script reads from a file of the boot partition. */
export function addToCommandLine(disk: string, more: string, folder: string): void {
  copyFromCard(disk, ['cmdline.env'], folder)
  const path = join(folder, 'cmdline.env')
  writeFileSync(path, `${readFileSync(path, 'utf8').trimEnd()} ${more}\n`)
  copyToCard(disk, path)
}

/** QEMU's options to load what the Pi's firmware would load. */
function firmwareOptions(dtb: string): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  copyFromCard(CARD, ['config.txt', dtb], folder)
  const kernel = /^kernel=(.+)$/m.exec(readFileSync(join(folder, 'config.txt'), 'utf8'))?.[1] ?? ''
  copyFromCard(CARD, [kernel], folder)
  return ['-kernel', join(folder, kernel), '-dtb', join(folder, dtb)]
}

/** The card in a Raspberry Pi 3 with its own device tree, card reader and USB network. It has neither picture nor sound. */
export const raspberryPi: Board = {
  name: 'raspberry-pi',
  image: CARD,
  system: join(IMAGE, 'raspberry-pi.ext4'),
  commandLine: `${FASTER} ${PATIENT} ${WITHOUT_WATCHDOG}`,
  flushes: false,
  // The emulated adapter is not the board's own, which is eth0.
  files: { '/etc/systemd/network/10-emulator.link': '[Match]\nOriginalName=usb0\n[Link]\nName=eth0\n' },
  shell: 'network',
  options: ({ disk, forward }) => [
    // The console is the second serial port.
    ...['-M', 'raspi3b', '-serial', 'null', '-serial', 'stdio', '-drive', `if=sd,file=${disk},format=raw,cache=unsafe`],
    ...['-netdev', `user,id=net,${forward}`, '-device', 'usb-net,netdev=net'],
    ...firmwareOptions('bcm2837-rpi-3-b.dtb'),
  ],
}

/** The same card on the virtual board, where it has a screen. */
export const cardOnVirt: Board = {
  name: 'raspberry-pi',
  image: CARD,
  system: join(IMAGE, 'raspberry-pi.ext4'),
  commandLine: `console=ttyAMA0 ${FASTER} ${PATIENT} ${SLOW_TO_BITE}`,
  flushes: true,
  shell: 'port',
  options: virtOptions,
}
