/**
 * A disk with an ext4 file system, mounted as a device's data partition is, of which every write and flush is recorded:
 * a loop device on a file that QEMU's storage daemon exports by FUSE, with its filter `blklogwrites` below.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  copyFileSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import type { Random } from '../support/random.ts'
import { type Entry, readWriteLog, SECTOR_BYTES } from '../support/write-log.ts'
import { inShell } from './shell.ts'

/** Each state is a file with holes, as only a few hundred KiB of it are not zeros. */
const DISK = '16M'
/** Of the file system, which relies on a disk to write a block wholly or not at all: its superblock is part of one. */
const BLOCK_BYTES = 4096

/** Mounts it at a folder. */
export async function mountDisk(disk: string, at: string): Promise<void> {
  mkdirSync(at, { recursive: true })
  await inShell(['mount', '-t', 'ext4', '-o', 'loop,noatime', disk, at])
}

export async function unmount(at: string): Promise<void> {
  try {
    await inShell(['umount', at])
  } catch {
    // A test that has failed leaves a service with open files.
    await inShell(['umount', '--lazy', at])
  }
}

export interface Recording {
  /** The disk as it was before the first entry. */
  readonly before: string
  readonly log: string
  readonly entries: readonly Entry[]
}

export class RecordedDisk {
  readonly #before: string
  readonly #log: string
  readonly #mountPoint: string
  readonly #stop: () => Promise<void>

  private constructor(folder: string, mountPoint: string, stop: () => Promise<void>) {
    this.#before = join(folder, 'before')
    this.#log = join(folder, 'log')
    this.#mountPoint = mountPoint
    this.#stop = stop
  }

  /**
   * @param folder Where its files are.
   * @param from A disk that it begins as; by default an empty one.
   */
  static async mounted(t: Test, folder: string, mountPoint: string, from?: string): Promise<RecordedDisk> {
    const [before, disk, log, exported] = ['before', 'disk', 'log', 'export'].map(name => join(folder, name)) as [
      string,
      string,
      string,
      string,
    ]
    if (from === undefined)
      execFileSync('mke2fs', ['-q', '-t', 'ext4', '-b', `${BLOCK_BYTES}`, before, DISK], { stdio: 'pipe' })
    else copyFileSync(from, before)
    copyFileSync(before, disk)
    for (const path of [log, exported]) writeFileSync(path, '')
    const daemon = spawn(
      'qemu-storage-daemon',
      [
        ...['--blockdev', `driver=file,node-name=plain,filename=${disk}`],
        ...['--blockdev', `driver=file,node-name=log,filename=${log}`],
        ...['--blockdev', 'driver=blklogwrites,node-name=disk,file=plain,log=log,log-sector-size=512'],
        ...['--export', `type=fuse,id=disk,node-name=disk,mountpoint=${exported},writable=on`],
      ],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    )
    const ended = once(daemon, 'exit')
    t.teardown(() => daemon.kill())
    const { size } = statSync(disk)
    await eventually(() => statSync(exported).size === size)
    await mountDisk(exported, mountPoint)
    // Ended while the kernel still has the file open, the daemon would wait for the kernel, and we for it.
    const isOpen = () => execFileSync('losetup', ['--associated', exported], { encoding: 'utf8' }) !== ''
    return new RecordedDisk(folder, mountPoint, async () => {
      await eventually(() => !isOpen())
      daemon.kill()
      await ended
    })
  }

  /** How far the recording is: all that has ended by then has its entry before it (`end` of an entry). */
  get position(): number {
    return statSync(this.#log).size
  }

  /** Unmounts it, and ends the recording. */
  async close(): Promise<void> {
    await unmount(this.#mountPoint)
    await this.#stop()
  }

  /** After its end. */
  get recording(): Recording {
    return { before: this.#before, log: this.#log, entries: readWriteLog(this.#log) }
  }
}

/** A state left by a power cut. */
export interface CrashState {
  /** In words, for a failure. */
  readonly name: string
  /** How far the recording was at the earliest, and at the latest. */
  readonly from: number
  readonly to: number
  /** Makes a disk of it. */
  readonly save: (disk: string) => void
}

/** From so many writes on between two flushes, not every subset of them is a state of its own, but some. */
const ALL_SUBSETS_OF = 5
const SOME = 8

/** The blocks of a disk by their offset. Those that are absent are zeros. */
type Blocks = Map<number, Buffer>

function blocksOf(disk: string): Blocks {
  const blocks: Blocks = new Map()
  const zeros = Buffer.alloc(BLOCK_BYTES)
  const file = openSync(disk, 'r')
  for (let offset = 0; ; offset += BLOCK_BYTES) {
    const block = Buffer.alloc(BLOCK_BYTES)
    if (readSync(file, block, 0, BLOCK_BYTES, offset) === 0) break
    if (!block.equals(zeros)) blocks.set(offset, block)
  }
  closeSync(file)
  return blocks
}

/**
 * Each state that a cut between two flushes can leave: of the writes since the last flush, a disk may have made durable any,
 * and the first blocks of one.
 */
export function* crashStates({ before, log, entries }: Recording, random: Random): Generator<CrashState> {
  const { size } = statSync(before)
  const durable = blocksOf(before)
  const reader = openSync(log, 'r')
  const write = (blocks: Blocks, { data, offset, length }: Entry, count = length / BLOCK_BYTES) => {
    // A discarded range reads as before, or as zeros: ext4 relies on neither.
    if (data === undefined) return
    for (let at = 0; at < count * BLOCK_BYTES; at += BLOCK_BYTES) {
      const block = Buffer.alloc(BLOCK_BYTES)
      readSync(reader, block, 0, BLOCK_BYTES, data + at)
      blocks.set(offset + at, block)
    }
  }
  let pending: Entry[] = []
  let flushed = 0
  try {
    for (const [index, entry] of entries.entries()) {
      if (entry.isDurable) throw new Error('a loop device makes no write durable by itself')
      if (!entry.isFlush) {
        if (entry.offset % BLOCK_BYTES !== 0) throw new Error('the file system writes whole blocks')
        if (entry.data !== undefined) pending.push(entry)
        continue
      }
      for (const subset of subsets(pending, random)) {
        const torn = random.chance(0.5) ? subset.at(-1) : undefined
        const part = torn && 1 + random.below(torn.length / BLOCK_BYTES - 1)
        const isTorn = torn !== undefined && part !== undefined && part * BLOCK_BYTES < torn.length
        yield {
          name: `before flush ${index}, with ${subset.length} of ${pending.length} writes${isTorn ? ', the last one torn' : ''}`,
          from: flushed,
          to: entry.end - SECTOR_BYTES,
          save: path => {
            // A new file: the one before may still be mounted somewhere for a moment.
            rmSync(path, { force: true })
            const blocks = new Map(durable)
            for (const each of subset) write(blocks, each, each === torn ? part : undefined)
            const file = openSync(path, 'wx')
            ftruncateSync(file, size)
            for (const [offset, block] of blocks) writeSync(file, block, 0, block.length, offset)
            closeSync(file)
          },
        }
      }
      for (const each of pending) write(durable, each)
      pending = []
      flushed = entry.end
    }
  } finally {
    closeSync(reader)
  }
}

function subsets(writes: readonly Entry[], random: Random): readonly (readonly Entry[])[] {
  const by = (isIn: (index: number) => boolean) => writes.filter((_, index) => isIn(index))
  if (writes.length <= ALL_SUBSETS_OF)
    return Array.from({ length: 2 ** writes.length }, (_, bits) => by(index => ((bits >> index) & 1) === 1))
  return [
    [],
    writes,
    ...writes.flatMap((_, one) => [by(index => index === one), by(index => index !== one), by(index => index < one)]),
    ...Array.from({ length: SOME }, () => by(() => random.chance(0.5))),
  ]
}
