/** The bytes of the disk of a device that is switched off: read, damaged and repaired from outside. */
import { createHash } from 'node:crypto'
import { closeSync, createReadStream, openSync, readSync, writeSync } from 'node:fs'

const SECTOR_BYTES = 512
/** Offsets in an ext4 file system and in a superblock, in bytes (Documentation/filesystems/ext4/super.rst). */
const SUPERBLOCK_OFFSET = 1024
const SUPERBLOCK_BYTES = 1024
const EXT4_MAGIC = 0xef53

/** Where the boot script keeps its state. */
export const STATE_OFFSET = 1024 ** 2
/** Where the script keeps a copy of it. */
export const STATE_COPY_OFFSET = 2 * 1024 ** 2
export const STATE_BYTES = SECTOR_BYTES

export interface Partition {
  /** The offset in the disk, in bytes. */
  readonly offset: number
  readonly bytes: number
}

export interface Piece {
  readonly offset: number
  readonly bytes: Buffer
}

/** A partition in the MBR. */
export function partition(disk: string, number: 1 | 2 | 3 | 4): Partition {
  const entry = read(disk, 0x1be + 16 * (number - 1), 16)
  return { offset: entry.readUInt32LE(8) * SECTOR_BYTES, bytes: entry.readUInt32LE(12) * SECTOR_BYTES }
}

export function read(disk: string, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  const file = openSync(disk, 'r')
  readSync(file, bytes, 0, length, offset)
  closeSync(file)
  return bytes
}

export function write(disk: string, pieces: readonly Piece[]): void {
  const file = openSync(disk, 'r+')
  for (const { offset, bytes } of pieces) writeSync(file, bytes, 0, bytes.length, offset)
  closeSync(file)
}

/** SHA-256 of a partition, in hexadecimal. */
export async function digest(disk: string, { offset, bytes }: Partition): Promise<string> {
  const hash = createHash('sha256')
  const stream = createReadStream(disk, { start: offset, end: offset + bytes - 1, highWaterMark: 1024 ** 2 })
  for await (const chunk of stream) hash.update(chunk)
  return hash.digest('hex')
}

/** The superblock of an ext4 file system, and all its backups, as they are. */
export function superblocks(disk: string, { offset }: Partition): Piece[] {
  const first = read(disk, offset + SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES)
  if (first.readUInt16LE(0x38) !== EXT4_MAGIC) throw new Error('there is no ext4 file system')
  const blockBytes = 1024 << first.readUInt32LE(0x18)
  const [blocks, firstBlock, blocksPerGroup] = [0x4, 0x14, 0x20].map(at => first.readUInt32LE(at)) as [
    number,
    number,
    number,
  ]
  const found: Piece[] = [{ offset: offset + SUPERBLOCK_OFFSET, bytes: first }]
  for (let block = firstBlock + blocksPerGroup; block < blocks; block += blocksPerGroup) {
    const at = offset + block * blockBytes
    const bytes = read(disk, at, SUPERBLOCK_BYTES)
    if (bytes.readUInt16LE(0x38) === EXT4_MAGIC) found.push({ offset: at, bytes })
  }
  return found
}
