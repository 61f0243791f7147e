/**
 * Reads what is at a place: an absolute path of the host that has no link left to follow. Anything may be there: a FIFO
 * does not block, a device is not read, and no file is read beyond a limit.
 */
import { errorCode, HalError } from '../errors.ts'
import { type FileSystem, isAbsence, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } from './kernel.ts'

/** Default limit on a file in bytes: ample for a configuration file that is parsed. */
const MAX_FILE_BYTES = 64 * 1024
/** Small files are read into this buffer: a new buffer for each file would be garbage at once. */
const scratch = Buffer.allocUnsafeSlow(4096)

/** The bytes of a regular file; undefined if nothing is there. @throws {HalError} for anything else, or over the limit. */
export function readFile(fs: FileSystem, at: string, limit = MAX_FILE_BYTES): Buffer | undefined {
  const file = openToRead(fs, at)
  if (file === undefined) return undefined
  try {
    const size = regularSize(fs, file)
    const chunks: Buffer[] = []
    for (let total = 0; Math.max(total, size) <= limit; ) {
      // One byte more than the size: a shorter read is the end of the file. Under /proc and /sys the size is meaningless.
      const chunk = size < scratch.length ? scratch : Buffer.allocUnsafe(size + 1)
      const count = fs.read(file, chunk)
      chunks.push(Buffer.from(chunk.subarray(0, count)))
      total += count
      if (count === 0 || total === size) return Buffer.concat(chunks)
    }
    throw new HalError('UNREADABLE', `the file is larger than ${limit / 1024} KiB`)
  } finally {
    fs.close(file)
  }
}

/** The first bytes of a regular file, at most `length` of them; otherwise as `readFile`. */
export function readStart(fs: FileSystem, at: string, length: number): Buffer | undefined {
  const file = openToRead(fs, at)
  if (file === undefined) return undefined
  try {
    const bytes = Buffer.allocUnsafe(Math.min(regularSize(fs, file), length))
    return bytes.subarray(0, fs.read(file, bytes))
  } finally {
    fs.close(file)
  }
}

/** A file that is too large to be read at once. */
export interface LargeFile {
  readonly bytes: number
  /** The bytes from an offset on, piece by piece. */
  chunks(from: number): AsyncGenerator<Buffer>
}

const PIECE_BYTES = 256 * 1024

/** A regular file; undefined if nothing is there. @throws {HalError} for anything else. */
export function largeFile(fs: FileSystem, at: string): LargeFile | undefined {
  const file = openToRead(fs, at)
  if (file === undefined) return undefined
  try {
    return { bytes: regularSize(fs, file), chunks: from => pieces(fs, at, from) }
  } finally {
    fs.close(file)
  }
}

async function* pieces(fs: FileSystem, at: string, from: number): AsyncGenerator<Buffer> {
  const file = openToRead(fs, at)
  if (file === undefined) return
  try {
    for (let position = from; ; ) {
      // A new buffer each time: the consumer may keep it.
      const buffer = Buffer.allocUnsafeSlow(PIECE_BYTES)
      const count = fs.read(file, buffer, { position })
      if (count === 0) return
      yield buffer.subarray(0, count)
      position += count
    }
  } finally {
    fs.close(file)
  }
}

/** The target of a symbolic link; undefined for anything else. */
export function linkTarget(fs: FileSystem, at: string): string | undefined {
  // Most names are not links, and readlink(2) would throw an exception for each of these.
  return fs.lstat(at)?.isSymbolicLink() ? fs.readlink(at) : undefined
}

/** The names in a folder in byte order; none if there is no folder. */
export function list(fs: FileSystem, at: string): readonly string[] {
  try {
    return fs.readdir(at).sort()
  } catch (error) {
    if (isAbsence(error)) return []
    throw error
  }
}

function openToRead(fs: FileSystem, at: string): number | undefined {
  try {
    return fs.open(at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if (isAbsence(error)) return undefined
    // A socket, or a device without a driver (open(2)).
    if (errorCode(error) === 'ENXIO') throw notRegular()
    throw error
  }
}

function regularSize(fs: FileSystem, file: number): number {
  const stat = fs.fstat(file)
  if (!stat.isFile()) throw notRegular()
  return stat.size
}

function notRegular(): HalError {
  return new HalError('UNREADABLE', 'the file is not a regular file')
}
