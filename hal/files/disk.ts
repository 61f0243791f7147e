/**
 * Files at their places: absolute paths of the host, with no link left to follow. What is written is durable and whole.
 */
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  renameSync,
  rmdirSync,
  type Stats,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { errorCode, HalError } from '../errors.ts'

/**
 * The calls that change a disk, and the one that every reading of a file begins with. Tests override one to make it fail.
 *
 * What ends in the kernel's memory is done at once: by a thread of the pool it takes ten times as long. What waits for
 * the disk is fsync(2), and meanwhile the process does other things.
 */
export const KERNEL = {
  openSync,
  writeSync,
  fchownSync,
  fchmodSync,
  ftruncateSync,
  renameSync,
  unlinkSync,
  symlinkSync,
  mkdirSync,
  rmdirSync,
  fsync: (file: number) =>
    new Promise<void>((resolve, reject) => {
      fsync(file, error => (error ? reject(error) : resolve()))
    }),
}
export type FileSystem = typeof KERNEL

/** What stood at a place: a file, a link, an empty folder, or nothing. */
export type Image = { readonly at: string } & (
  | { readonly kind: 'file'; readonly bytes: Buffer; readonly mode: number }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'folder'; readonly mode: number }
  | { readonly kind: 'absent' }
)

/** Bytes of a file that is read for what it says. */
const MAX_FILE_BYTES = 64 * 1024
/** Bytes of a file that can be put back after a failed write; whatever fills a configuration file up to here is replaced. */
export const MAX_IMAGE_BYTES = 16 * 1024 * 1024
/** What a small file is read into: a buffer for each would be garbage at once. */
const scratch = Buffer.allocUnsafeSlow(4096)
const NEW_FILE_MODE = 0o644
const NEW_FOLDER_MODE = 0o755
const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants

/** The bytes of a regular file; undefined where there is nothing. @throws {HalError} over the limit. */
export function readFile(fs: FileSystem, at: string, limit = MAX_FILE_BYTES): Buffer | undefined {
  let file: number
  try {
    file = fs.openSync(at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw error
  }
  try {
    const stat = fstatSync(file)
    if (!stat.isFile()) throw new HalError('UNREADABLE', 'the file is not a regular file')
    const chunks: Buffer[] = []
    for (let total = 0; Math.max(total, stat.size) <= limit; ) {
      // Room for more than the size: where no more comes, that is the end. Under /proc and /sys the size says nothing.
      const chunk = stat.size < scratch.length ? scratch : Buffer.allocUnsafe(stat.size + 1)
      const count = readSync(file, chunk)
      const part = chunk.subarray(0, count)
      chunks.push(chunk === scratch ? Buffer.from(part) : part)
      total += count
      if (count === 0 || total === stat.size) return Buffer.concat(chunks)
    }
    throw new HalError('UNREADABLE', `the file is larger than ${limit / 1024} KiB`)
  } finally {
    closeSync(file)
  }
}

/** The target of a symbolic link; undefined for what is none. */
export function linkTarget(at: string): string | undefined {
  // Most names are no links: asking readlink(2) for each of them would cost an exception a name.
  return stat(at)?.isSymbolicLink() ? readlinkSync(at) : undefined
}

/** The names in a folder in the order of their bytes; none where there is no folder. */
export function list(at: string): readonly string[] {
  try {
    return readdirSync(at).sort()
  } catch (error) {
    if (isAbsence(error)) return []
    throw error
  }
}

/** What stands there, a link for itself. */
export function stat(at: string): Stats | undefined {
  try {
    return lstatSync(at, { throwIfNoEntry: false })
  } catch (error) {
    if (isAbsence(error)) return undefined
    throw error
  }
}

/** Replaces what stands there, unless it is the same already. See `Files.writeAtomic`. */
export async function writeFile(fs: FileSystem, at: string, bytes: Buffer, mode?: number): Promise<boolean> {
  const standing = stat(at)
  // What is behind a link to /dev/null must not become a file.
  if (standing && !standing.isFile() && !standing.isDirectory() && !standing.isSymbolicLink())
    throw new HalError('UNREADABLE', 'the file is not a regular file')
  const existing = standing?.isFile() ? standing : undefined
  const bornMode = (mode ?? existing?.mode ?? NEW_FILE_MODE) & 0o7777
  if (existing && bornMode === (existing.mode & 0o7777) && holds(fs, at, bytes)) return false
  await inFolder(fs, dirname(at), () => {
    const temporary = temporaryName(at)
    return orRemove(fs, temporary, async () => {
      await create(fs, temporary, bytes, bornMode, existing)
      await replace(fs, temporary, at)
    })
  })
  return true
}

/** One write(2) to what stands there, such as an attribute of the kernel: nothing to make durable. */
export async function overwrite(fs: FileSystem, at: string, text: string): Promise<void> {
  await opened(fs.openSync(at, O_WRONLY | O_NOFOLLOW), file => fs.writeSync(file, text))
}

/** Makes a symbolic link by a rename. See `Files.writeLink`. */
export async function writeLink(fs: FileSystem, at: string, target: string): Promise<boolean> {
  if (linkTarget(at) === target) return false
  await inFolder(fs, dirname(at), async () => {
    const temporary = temporaryName(at)
    fs.symlinkSync(target, temporary)
    await orRemove(fs, temporary, () => rename(fs, temporary, at))
  })
  return true
}

/** Removes a file or a link; nothing there is well, too. */
export async function remove(fs: FileSystem, at: string): Promise<void> {
  try {
    fs.unlinkSync(at)
  } catch (error) {
    // An unlink before this one may not be durable yet, where its folder could not be synced.
    if (!isAbsence(error)) throw error
    if (!stat(dirname(at))?.isDirectory()) return
  }
  await syncFolder(fs, dirname(at))
}

/** What stands there, for `restore`. */
export function imageOf(fs: FileSystem, at: string): Image {
  const standing = stat(at)
  if (standing === undefined) return { at, kind: 'absent' }
  if (standing.isSymbolicLink()) return { at, kind: 'link', target: readlinkSync(at) }
  const mode = standing.mode & 0o7777
  if (standing.isDirectory()) return { at, kind: 'folder', mode }
  const bytes = readFile(fs, at, MAX_IMAGE_BYTES)
  return bytes === undefined ? { at, kind: 'absent' } : { at, kind: 'file', bytes, mode }
}

/** Puts back what stood at a place. */
export async function restore(fs: FileSystem, image: Image): Promise<void> {
  if (image.kind === 'file') {
    await writeFile(fs, image.at, image.bytes, image.mode)
    const redo = redoName(image.at)
    if (stat(redo)) await remove(fs, redo)
    return
  }
  if (image.kind === 'link') return void (await writeLink(fs, image.at, image.target))
  if (image.kind === 'folder' && stat(image.at)?.isDirectory()) return
  await remove(fs, image.at)
  if (image.kind === 'folder') await makeFolder(fs, image.at, image.mode)
}

/** Finishes what a power cut interrupted there; see `Files.recover`. */
export async function recover(fs: FileSystem, at: string): Promise<void> {
  const folder = dirname(at)
  for (const name of list(folder)) {
    const leftover = join(folder, name)
    if (!leftover.startsWith(temporaryPrefix(at))) continue
    const finish = leftover === redoName(at) ? replace(fs, leftover, at) : remove(fs, leftover)
    await finish.catch(() => undefined)
  }
}

async function create(
  fs: FileSystem,
  at: string,
  bytes: Buffer,
  mode: number,
  owner: { uid: number; gid: number } | undefined,
): Promise<void> {
  await opened(fs.openSync(at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode), file => {
    const born = fstatSync(file)
    const isForeign = owner && (born.uid !== owner.uid || born.gid !== owner.gid)
    if (isForeign) fs.fchownSync(file, owner.uid, owner.gid)
    // The umask may have taken some of it, and a change of the owner its set-id bits.
    if (isForeign || (born.mode & 0o7777) !== mode) fs.fchmodSync(file, mode)
    writeAll(fs, file, bytes)
    return fs.fsync(file)
  })
}

/** rename(2), also onto an empty folder: a container's engine makes one where a file to be mounted is missing. */
function rename(fs: FileSystem, from: string, at: string): void {
  try {
    fs.renameSync(from, at)
  } catch (error) {
    if (errorCode(error) !== 'EISDIR') throw error
    fs.rmdirSync(at)
    fs.renameSync(from, at)
  }
}

/**
 * Puts a new text, whole and durable in the file `from`, in the place of what is there. A file that is a mount point of
 * its own, where rename(2) is refused, is overwritten. The new text stands beside it under a name that tells so, until
 * the overwriting is durable: a start after a power cut does it again.
 */
async function replace(fs: FileSystem, from: string, at: string): Promise<void> {
  try {
    return rename(fs, from, at)
  } catch (error) {
    if (errorCode(error) !== 'EBUSY' && errorCode(error) !== 'EXDEV') throw error
  }
  const redo = redoName(at)
  const mode = stat(from)?.mode ?? NEW_FILE_MODE
  const open = await orRemove(fs, redo, async () => {
    fs.renameSync(from, redo)
    await syncFolder(fs, dirname(at))
    return fs.openSync(at, O_WRONLY | O_CREAT | O_NOFOLLOW, mode)
  })
  // Where this fails the name stays: what is torn is made whole by `restore`, or else by the next start.
  await opened(open, file => {
    const bytes = readFile(fs, redo, MAX_IMAGE_BYTES)
    if (fstatSync(file).mode !== mode) fs.fchmodSync(file, mode & 0o7777)
    if (bytes) writeAll(fs, file, bytes)
    fs.ftruncateSync(file, bytes?.length ?? 0)
    return fs.fsync(file)
  })
  await remove(fs, redo)
}

/** Runs what puts a name into a folder, makes the folder first where it is missing, and the name durable after it. */
async function inFolder(fs: FileSystem, folder: string, act: () => Promise<void>): Promise<void> {
  try {
    await act()
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    await makeFolder(fs, folder)
    await act()
  }
  await syncFolder(fs, folder)
}

/** Makes a folder and those above it that are missing, readable whatever the umask says. */
async function makeFolder(fs: FileSystem, folder: string, mode = NEW_FOLDER_MODE): Promise<void> {
  try {
    fs.mkdirSync(folder, mode)
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return
    if (errorCode(error) !== 'ENOENT') throw error
    await makeFolder(fs, dirname(folder))
    fs.mkdirSync(folder, mode)
  }
  await syncFolder(fs, folder, mode)
  await syncFolder(fs, dirname(folder))
}

async function orRemove<T>(fs: FileSystem, temporary: string, act: () => T | Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    await remove(fs, temporary).catch(() => undefined)
    throw error
  }
}

/** A name is as durable as its folder. */
async function syncFolder(fs: FileSystem, folder: string, mode?: number): Promise<void> {
  await opened(fs.openSync(folder, O_RDONLY | O_DIRECTORY), file => {
    if (mode !== undefined) fs.fchmodSync(file, mode)
    return fs.fsync(file)
  })
}

/** write(2) may take a part. */
function writeAll(fs: FileSystem, file: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(file, bytes, at)
}

/** Closes what was opened when `act` is done with it. */
async function opened(file: number, act: (file: number) => unknown): Promise<void> {
  try {
    await act(file)
  } finally {
    closeSync(file)
  }
}

function isAbsence(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}

function holds(fs: FileSystem, at: string, bytes: Buffer): boolean {
  try {
    return readFile(fs, at)?.equals(bytes) ?? false
  } catch {
    return false
  }
}

/** Beside the target, so that rename(2) stays within one file system. */
function temporaryPrefix(at: string): string {
  const name = at.lastIndexOf('/') + 1
  return `${at.slice(0, name)}.${at.slice(name)}.receiverd-`
}

function temporaryName(at: string): string {
  return temporaryPrefix(at) + randomUUID()
}

function redoName(at: string): string {
  return `${temporaryPrefix(at)}redo`
}
