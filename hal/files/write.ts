/** Writes to a place: an absolute path of the host that has no link left to follow. Every write is whole and durable. */
import { dirname } from 'node:path'
import { HalError } from '../errors.ts'
import { inFolder, withFile } from './folder.ts'
import { type FileSystem, O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY, type Stat } from './kernel.ts'
import { linkTarget, readFile } from './read.ts'
import { orRemove, rename, replace, temporaryName, writeAll } from './replace.ts'

const NEW_FILE_MODE = 0o644

/** Replaces what is at a place, unless it is the same already. See `Files.writeAtomic`. */
export async function writeFile(fs: FileSystem, at: string, bytes: Uint8Array, mode?: number): Promise<boolean> {
  const standing = fs.lstat(at)
  // The target of a link to /dev/null must not become a file.
  if (standing && !standing.isFile() && !standing.isDirectory() && !standing.isSymbolicLink())
    throw new HalError('UNREADABLE', 'the file is not a regular file')
  const existing = standing?.isFile() ? standing : undefined
  const newMode = (mode ?? existing?.mode ?? NEW_FILE_MODE) & 0o7777
  if (existing?.size === bytes.length && newMode === (existing.mode & 0o7777) && holds(fs, at, bytes)) return false
  await inFolder(fs, dirname(at), () => {
    const temporary = temporaryName(at)
    return orRemove(fs, temporary, async () => {
      await create(fs, temporary, bytes, newMode, existing)
      await replace(fs, temporary, at)
    })
  })
  return true
}

/** Makes a symbolic link by a rename. See `Files.writeLink`. */
export async function writeLink(fs: FileSystem, at: string, target: string): Promise<boolean> {
  if (linkTarget(fs, at) === target) return false
  await inFolder(fs, dirname(at), async () => {
    const temporary = temporaryName(at)
    fs.symlink(target, temporary)
    await orRemove(fs, temporary, () => rename(fs, temporary, at))
  })
  return true
}

/** One write(2) to a file that exists, such as an attribute of the kernel. There is nothing to make durable. */
export async function writeAttribute(fs: FileSystem, at: string, text: string): Promise<void> {
  await withFile(fs, fs.open(at, O_WRONLY | O_NOFOLLOW), file => fs.write(file, Buffer.from(text)))
}

/** Makes a durable file that has its mode from the start, and the owner of the file that it replaces. */
async function create(
  fs: FileSystem,
  at: string,
  bytes: Uint8Array,
  mode: number,
  owner: Pick<Stat, 'uid' | 'gid'> | undefined,
): Promise<void> {
  await withFile(fs, fs.open(at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode), file => {
    const created = fs.fstat(file)
    const isForeign = owner && (created.uid !== owner.uid || created.gid !== owner.gid)
    if (isForeign) fs.fchown(file, owner.uid, owner.gid)
    // The umask may have removed bits, and a change of owner the set-ID bits.
    if (isForeign || (created.mode & 0o7777) !== mode) fs.fchmod(file, mode)
    writeAll(fs, file, bytes)
    return fs.fsync(file)
  })
}

function holds(fs: FileSystem, at: string, bytes: Uint8Array): boolean {
  try {
    return readFile(fs, at, bytes.length)?.equals(bytes) === true
  } catch {
    return false
  }
}
