/**
 * The log of a disk from QEMU's filter `blklogwrites`: every write and flush, in the order in which the device made them (the
 * kernel's Documentation/admin-guide/device-mapper/log-writes.rst).
 */
import { closeSync, openSync, readSync } from 'node:fs'

const MAGIC = 0x6a736677736872n
export const SECTOR_BYTES = 512
/** Flags of an entry. */
const FLUSH = 1n
const FUA = 2n
const DISCARD = 4n

export interface Entry {
  /** The offset in the disk, in bytes. */
  readonly offset: number
  readonly length: number
  /** The offset of the data in the log, in bytes. Undefined for a discard: the disk then reads as zeros, or as before. */
  readonly data: number | undefined
  /** The offset in the log at which the entry ends, in bytes. */
  readonly end: number
  /** Whether everything that ended before it is durable. */
  readonly isFlush: boolean
  /** Whether the entry itself is durable. */
  readonly isDurable: boolean
}

/** The entries of a log, without their data. */
export function readWriteLog(path: string): Entry[] {
  const log = openSync(path, 'r')
  const header = Buffer.alloc(32)
  readSync(log, header, 0, header.length, 0)
  if (header.readBigUInt64LE() !== MAGIC) throw new Error(`${path} is no log of writes`)
  const count = Number(header.readBigUInt64LE(16))
  const entries: Entry[] = []
  let at = SECTOR_BYTES
  for (let index = 0; index < count; index++) {
    readSync(log, header, 0, header.length, at)
    const [sector, sectors, flags] = [0, 8, 16].map(from => header.readBigUInt64LE(from)) as [bigint, bigint, bigint]
    at += SECTOR_BYTES
    const length = Number(sectors) * SECTOR_BYTES
    const isDiscard = (flags & DISCARD) !== 0n
    const [isFlush, isDurable] = [(flags & FLUSH) !== 0n, (flags & FUA) !== 0n]
    const data = isDiscard ? undefined : at
    if (!isDiscard) at += length
    entries.push({ offset: Number(sector) * SECTOR_BYTES, length, data, end: at, isFlush, isDurable })
  }
  closeSync(log)
  return entries
}
