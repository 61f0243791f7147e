import { dirname } from 'node:path'
import { HalError } from '../errors.ts'
import { syncFolder } from './folder.ts'
import { type FileSystem, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } from './kernel.ts'

const MODE = 0o600

/** A file that grows piece by piece, and keeps what was synced when the power is cut. See `Files.grow`. */
export class GrowingFile {
  readonly #fs: FileSystem
  readonly #file: number

  private constructor(fs: FileSystem, file: number) {
    this.#fs = fs
    this.#file = file
  }

  /** Opens the file, and makes its name durable. */
  static async open(fs: FileSystem, at: string, length: number): Promise<GrowingFile> {
    const file = fs.open(at, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, MODE)
    try {
      const stat = fs.fstat(file)
      if (!stat.isFile()) throw new HalError('UNREADABLE', 'the file is not a regular file')
      if (stat.size < length) throw new HalError('UNREADABLE', 'the file is shorter than it was')
      if (stat.size > length) fs.ftruncate(file, length)
      await syncFolder(fs, dirname(at))
      return new GrowingFile(fs, file)
    } catch (error) {
      fs.close(file)
      throw error
    }
  }

  /** Appends bytes. They are not durable before `sync`. */
  async append(bytes: Uint8Array): Promise<void> {
    for (let rest = bytes; rest.length > 0; ) rest = rest.subarray(await this.#fs.writeMuch(this.#file, rest))
  }

  /** Makes all appended bytes durable. After a failure, the state of those since the last `sync` is unknown. */
  sync(): Promise<void> {
    return this.#fs.fdatasync(this.#file)
  }

  close(): void {
    this.#fs.close(this.#file)
  }
}
