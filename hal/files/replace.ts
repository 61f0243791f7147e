/** Replaces a file in one step, and finishes interrupted replacements after a power cut. */
import { randomUUID } from 'node:crypto'
import { dirname, join } from 'node:path'
import { errorCode, HalError } from '../errors.ts'
import { remove, syncFolder, withFile } from './folder.ts'
import { type FileSystem, O_CREAT, O_NOFOLLOW, O_WRONLY } from './kernel.ts'
import { list, readFile } from './read.ts'

/** Limit on a replaceable file in bytes: ample for a configuration file, and small enough to keep until a change is over. */
export const MAX_REPLACEABLE_BYTES = 1024 * 1024

/** A new name beside the target, so that rename(2) stays within one file system. */
export function temporaryName(at: string): string {
  return temporaryPrefix(at) + randomUUID()
}

/** Removes a temporary file if `act` fails. */
export async function orRemove<T>(fs: FileSystem, temporary: string, act: () => T | Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    await remove(fs, temporary).catch(() => undefined)
    throw error
  }
}

/** rename(2), also onto an empty folder: a container engine makes one where a file to be mounted is missing. */
export function rename(fs: FileSystem, from: string, at: string): void {
  try {
    fs.rename(from, at)
  } catch (error) {
    if (errorCode(error) !== 'EISDIR') throw error
    fs.rmdir(at)
    fs.rename(from, at)
  }
}

/**
 * Replaces the entry at a place with the file `from`, which is complete and durable. A file that is a mount point cannot be
 * renamed over, so it is overwritten. Until that is durable, the new file keeps a name that marks it: a start after a power cut
 * overwrites again.
 */
export async function replace(fs: FileSystem, from: string, at: string): Promise<void> {
  try {
    return rename(fs, from, at)
  } catch (error) {
    if (errorCode(error) !== 'EBUSY' && errorCode(error) !== 'EXDEV') throw error
  }
  const redo = redoName(at)
  const mode = fs.lstat(from)?.mode ?? 0
  const open = async () => {
    fs.rename(from, redo)
    await syncFolder(fs, dirname(at))
    return fs.open(at, O_WRONLY | O_CREAT | O_NOFOLLOW, mode)
  }
  // After a power cut, the redo file is the only whole copy.
  const target = await (from === redo ? open() : orRemove(fs, redo, open))
  // If this fails the redo file stays, and `restore` or the next start makes a torn target whole.
  await withFile(fs, target, file => {
    const bytes = readFile(fs, redo, MAX_REPLACEABLE_BYTES)
    // The start of another process may have finished this, or somebody may have cleared up.
    if (!bytes) throw new HalError('UNREADABLE', 'the new content was removed before it was in place')
    if (fs.fstat(file).mode !== mode) fs.fchmod(file, mode & 0o7777)
    writeAll(fs, file, bytes)
    fs.ftruncate(file, bytes.length)
    return fs.fsync(file)
  })
  await remove(fs, redo)
}

/** Writes all bytes: one write(2) may write only a part. */
export function writeAll(fs: FileSystem, file: number, bytes: Uint8Array): void {
  for (let offset = 0; offset < bytes.length; ) offset += fs.write(file, bytes, offset)
}

/** Finishes what a power cut interrupted at any of these places, with one look at each folder. See `Files.recover`. */
export async function recover(fs: FileSystem, places: ReadonlySet<string>): Promise<void> {
  const prefixes = Array.from(places, at => ({ prefix: temporaryPrefix(at), at }))
  for (const folder of new Set(prefixes.map(({ at }) => dirname(at))))
    for (const name of list(fs, folder)) {
      const leftover = join(folder, name)
      const at = prefixes.find(({ prefix }) => leftover.startsWith(prefix))?.at
      if (at === undefined) continue
      const finish = leftover === redoName(at) ? replace(fs, leftover, at) : remove(fs, leftover)
      await finish.catch(() => undefined)
    }
}

/** Abandons an interrupted overwrite, after something else was put in its place. */
export async function discardRedo(fs: FileSystem, at: string): Promise<void> {
  if (fs.lstat(redoName(at))) await remove(fs, redoName(at))
}

function temporaryPrefix(at: string): string {
  const name = at.lastIndexOf('/') + 1
  return `${at.slice(0, name)}.${at.slice(name)}.receiverd-`
}

/** The name under which `replace` keeps the new content of a file that it overwrites. */
export function redoName(at: string): string {
  return `${temporaryPrefix(at)}redo`
}
