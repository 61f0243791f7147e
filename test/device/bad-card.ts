/** A card that misbehaves, in place of the disk of a device: see bad-card.c. */
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { DISK_BYTES } from './boards.ts'
import type { Partition } from './disk.ts'

/** How many numbers the file has, and the index of the count of writes. */
const NUMBERS = 8
const WRITES_AT = 6

export interface Faults {
  readonly writeMs?: number
  readonly flushMs?: number
  /** The parts of the disk where every write, or every read, fails. */
  readonly unwritable?: Partition
  readonly unreadable?: Partition
}

export class BadCard {
  readonly #file: string
  /** Environment variables for QEMU. */
  readonly env: Readonly<Record<string, string>>

  /** @param folder Where to compile the library. */
  constructor(folder: string) {
    const library = join(folder, 'bad-card.so')
    const source = join(REPOSITORY, 'test/device/bad-card.c')
    execFileSync('gcc', ['-O2', '-shared', '-fPIC', '-o', library, source, '-ldl', '-lpthread'])
    this.#file = join(folder, 'bad-card')
    writeFileSync(this.#file, Buffer.alloc(8 * NUMBERS))
    this.env = { LD_PRELOAD: library, BAD_CARD: this.#file, DISK_BYTES: `${DISK_BYTES}` }
  }

  /** Sets the faults from this moment on; everything else works. */
  set({ writeMs = 0, flushMs = 0, unwritable, unreadable }: Faults): void {
    const numbers = [1000 * writeMs, 1000 * flushMs, ...ends(unwritable), ...ends(unreadable)]
    const bytes = Buffer.alloc(8 * numbers.length)
    for (const [at, number] of numbers.entries()) bytes.writeBigUInt64LE(BigInt(number), 8 * at)
    const file = openSync(this.#file, 'r+')
    writeSync(file, bytes, 0, bytes.length, 0)
    closeSync(file)
  }

  /** How often the device has written and flushed since it was first switched on. */
  get counts(): { readonly writes: number; readonly flushes: number } {
    const bytes = readFileSync(this.#file)
    const [writes, flushes] = [WRITES_AT, WRITES_AT + 1].map(at => Number(bytes.readBigUInt64LE(8 * at))) as [
      number,
      number,
    ]
    return { writes, flushes }
  }
}

function ends(area: Partition | undefined): readonly [from: number, to: number] {
  return area ? [area.offset, area.offset + area.bytes] : [0, 0]
}
