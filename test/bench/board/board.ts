import { existsSync, readFileSync, statfsSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'

/** The board that was measured. */
export interface Board {
  readonly model: string
  readonly architecture: string
  readonly cores: number
  readonly memoryMiB: number
  readonly kernel: string
  readonly node: string
  /** The file system that changes are synced to. */
  readonly storage: string
  /** A sign of an emulator or a virtual machine; undefined if there is none. */
  readonly virtual: string | undefined
}

/** By magic number, statfs(2). */
const FILE_SYSTEMS: Readonly<Record<number, string>> = {
  16914836: 'tmpfs',
  2035054128: 'overlayfs',
  2435016766: 'btrfs',
  61267: 'ext4',
  4076150800: 'f2fs',
}

export function readBoard(folder: string): Board {
  const cpu = read('/proc/cpuinfo')
  const processor = /^(?:model name|Hardware)\s*:\s*(.+)$/im.exec(cpu)?.[1]
  const model = read('/proc/device-tree/model') || processor || 'unknown'
  const { type } = statfsSync(folder)
  return {
    model,
    architecture: process.arch,
    cores: cpus().length,
    memoryMiB: Math.round(totalmem() / 1024 / 1024),
    kernel: release(),
    node: process.version,
    storage: FILE_SYSTEMS[type] ?? `type 0x${type.toString(16)}`,
    virtual: virtualBy(model, cpu),
  }
}

function virtualBy(model: string, cpu: string): string | undefined {
  // QEMU's user mode: a program for ARM on the kernel of a PC.
  if (process.arch.startsWith('arm') && /^vendor_id\s*:/m.test(cpu)) return `${process.arch} on the processor of a PC`
  if (/dummy-virt|qemu/i.test(model)) return model
  if (existsSync('/sys/firmware/qemu_fw_cfg')) return '/sys/firmware/qemu_fw_cfg'
  if (/qemu/i.test(read('/sys/class/dmi/id/sys_vendor'))) return 'QEMU in DMI'
  if (/^flags\s*:.*\bhypervisor\b/m.test(cpu)) return 'a hypervisor in /proc/cpuinfo'
  return undefined
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').replace(/\0/g, '').trim()
  } catch {
    return ''
  }
}
