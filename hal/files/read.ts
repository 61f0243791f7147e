/**
 * Reads what is at a place: an absolute path of the host that has no link left to follow. Anything may be there: a FIFO
 * does not block, a device is not read, and no file is read beyond a limit.
 */
import { errorCode, HalError } from '../errors.ts'
import { type FileSystem, isAbsence, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, type Stat } from './kernel.ts'

/** Default limit on a file in bytes: ample for a configuration file that is parsed. */
const MAX_FILE_BYTES = 64 * 1024
/** Small files are read into this buffer: a new buffer for each file would be garbage at once. */
const scratch = Buffer.allocUnsafeSlow(4096)

/** The bytes of a regular file; undefined if nothing is there. @throws {HalError} for anything else, or over the limit. */
export function readFile(fs: FileSystem, at: string, limit = MAX_FILE_BYTES): Buffer | undefined {
  const file = openToRead(fs, at)
  if (file === undefined) return undefined
  try {
    const { size } = regularStat(fs, file)
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
    const bytes = Buffer.allocUnsafe(Math.min(regularStat(fs, file).size, length))
    return bytes.subarray(0, fs.read(file, bytes))
  } finally {
    fs.close(file)
  }
}

/** A file that is too large to be read at once. It stays open until `close`, so a file that takes its name changes nothing. */
export interface LargeFile {
  readonly bytes: number
  /** The bytes from an offset on, piece by piece. @throws {HalError} if they are no longer those that were there at first. */
  chunks(from: number): AsyncGenerator<Buffer>
  close(): void
}

const PIECE_BYTES = 256 * 1024

/** A regular file; undefined if nothing is there. @throws {HalError} for anything else. */
export function largeFile(fs: FileSystem, at: string): LargeFile | undefined {
  const file = openToRead(fs, at)
  if (file === undefined) return undefined
  const close = () => fs.close(file)
  try {
    const stat = regularStat(fs, file)
    return { bytes: stat.size, chunks: from => pieces(fs, file, stat, from), close }
  } catch (error) {
    close()
    throw error
  }
}

async function* pieces(fs: FileSystem, file: number, { size, mtimeMs }: Stat, from: number): AsyncGenerator<Buffer> {
  for (let position = from; position < size; ) {
    // A new buffer each time: the consumer may keep it.
    const buffer = Buffer.allocUnsafeSlow(PIECE_BYTES)
    const count = fs.read(file, buffer, { position })
    const now = fs.fstat(file)
    if (count === 0 || now.size !== size || now.mtimeMs !== mtimeMs)
      throw new HalError('UNREADABLE', 'the file has changed since it was opened')
    yield buffer.subarray(0, count)
    position += count
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

function regularStat(fs: FileSystem, file: number): Stat {
  const stat = fs.fstat(file)
  if (!stat.isFile()) throw notRegular()
  return stat
}

function notRegular(): HalError {
  return new HalError('UNREADABLE', 'the file is not a regular file')
}
