/** The contents of a place before a change, to put them back if the change is undone. */
import { HalError } from '../errors.ts'
import { makeFolder, remove } from './folder.ts'
import type { FileSystem } from './kernel.ts'
import { readFile } from './read.ts'
import { discardRedo, MAX_REPLACEABLE_BYTES } from './replace.ts'
import { writeFile, writeLink } from './write.ts'

/** A file, a link, an empty folder, or nothing. `mode` has only the nine permission bits. */
export type PathContent =
  | { readonly kind: 'file'; readonly mode: number; readonly bytes: Buffer }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'folder'; readonly mode: number }
  | { readonly kind: 'absent' }

/** The contents of a path of the system, and of the target of its link if it was one. */
export interface Image {
  /** The path as the system under the root sees it, wherever that root is. */
  readonly path: string
  readonly entry: PathContent
  readonly behind?: PathContent
}

const PERMISSIONS = 0o777
const SPECIAL_BITS = 0o7000

/** Captures a place. @throws {HalError} if it cannot be put back: a FIFO, a device, or a file that is too large. */
export function capture(fs: FileSystem, at: string): PathContent {
  const standing = fs.lstat(at)
  if (standing === undefined) return { kind: 'absent' }
  if (standing.isSymbolicLink()) return { kind: 'link', target: fs.readlink(at) }
  const mode = standing.mode & PERMISSIONS
  if (standing.isDirectory()) return { kind: 'folder', mode }
  if (standing.size > MAX_REPLACEABLE_BYTES)
    throw new HalError('UNREADABLE', `one of its files is larger than ${MAX_REPLACEABLE_BYTES / 1024 ** 2} MiB`)
  const bytes = readFile(fs, at, MAX_REPLACEABLE_BYTES)
  return bytes === undefined ? { kind: 'absent' } : { kind: 'file', mode, bytes }
}

/** Puts back what was at a place. Leaves it alone if it has not changed: it may be on a read-only file system. */
export async function restore(fs: FileSystem, at: string, entry: PathContent): Promise<void> {
  const standing = fs.lstat(at)
  if (entry.kind === 'file') {
    // Set-ID bits are kept, as any write keeps them, but never added: the entry may come from a foreign journal.
    const special = standing?.isFile() ? standing.mode & SPECIAL_BITS : 0
    await writeFile(fs, at, entry.bytes, entry.mode | special)
    return discardRedo(fs, at)
  }
  if (entry.kind === 'link') return void (await writeLink(fs, at, entry.target))
  if (entry.kind === 'folder' && standing?.isDirectory()) return
  await remove(fs, at)
  if (entry.kind === 'folder') await makeFolder(fs, at, entry.mode)
}
