import { dirname, join } from 'node:path'
import { HalError, isUnreadable } from '../errors.ts'
import { decodeLossless, encodeLossless } from '../format/lossless.ts'
import { makeFolder, remove, syncFolder } from './folder.ts'
import { GrowingFile } from './growing.ts'
import { capture, type Image, restore } from './image.ts'
import { type FileSystem, KERNEL } from './kernel.ts'
import { type LargeFile, largeFile, linkTarget, list, readFile, readStart } from './read.ts'
import { MAX_REPLACEABLE_BYTES, recover, rename } from './replace.ts'
import { Root } from './root.ts'
import { FolderWatcher, type Stop } from './watcher.ts'
import { writeAttribute, writeFile, writeLink } from './write.ts'

export interface Space {
  readonly totalBytes: number
  readonly availableBytes: number
  readonly readOnly: boolean
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The files of the system under a root, by the absolute paths that they have there. Symbolic links are followed as that system
 * would follow them, and never out of the root.
 *
 * A write is durable and whole when its method returns: after a power cut, the file has its old state or its new one. Errors of
 * the system are thrown as node:fs throws them.
 */
export class Files {
  readonly root: string
  readonly #fs: FileSystem
  readonly #root: Root
  readonly #nullDevice: string
  readonly #watcher: FolderWatcher

  /** @param root An absolute path of the host. */
  constructor(root: string, fs = KERNEL) {
    this.root = root
    this.#fs = fs
    this.#root = new Root(root, fs)
    this.#nullDevice = join(root, 'dev/null')
    this.#watcher = new FolderWatcher(fs)
  }

  /**
   * The text of a file; undefined if there is none, or if it is a link to /dev/null, which masks a vendor's file
   * (systemd-system.conf(5)).
   * @param limit Bytes; 64 KiB by default.
   * @throws {HalError} if it is over the limit, not UTF-8, or not a regular file.
   */
  async readText(path: string, limit?: number): Promise<string | undefined> {
    const bytes = await this.readBytes(path, limit)
    if (bytes === undefined) return undefined
    try {
      return utf8.decode(bytes)
    } catch {
      throw new HalError('UNREADABLE', 'the file is not valid UTF-8')
    }
  }

  /** As `readText`, for a file that need not be UTF-8. */
  async readBytes(path: string, limit?: number): Promise<Buffer | undefined> {
    return this.#root.openThrough(path, at => (at === this.#nullDevice ? undefined : readFile(this.#fs, at, limit)))
  }

  /** The first bytes of a file, at most `length` of them; undefined if there is none. @throws {HalError} */
  async readStart(path: string, length: number): Promise<Buffer | undefined> {
    return readStart(this.#fs, this.#root.resolve(path), length)
  }

  /** A file that is read piece by piece; undefined if there is none. @throws {HalError} if it is not a regular file. */
  async openLarge(path: string): Promise<LargeFile | undefined> {
    return largeFile(this.#fs, this.#root.resolve(path))
  }

  /**
   * The text of a file, up to 1 MiB, of which only a part is ours: bytes that are not UTF-8 become lone surrogates, which
   * `writeAtomic` turns back into the same bytes. Otherwise as `readText`.
   */
  async readLossless(path: string): Promise<string | undefined> {
    const bytes = await this.readBytes(path, MAX_REPLACEABLE_BYTES)
    return bytes && decodeLossless(bytes)
  }

  /** As `readLossless`, for a file that is about to be edited; also undefined if something other than a file is there. */
  async readForEdit(path: string): Promise<string | undefined> {
    try {
      return await this.readLossless(path)
    } catch (error) {
      if (isUnreadable(error) && !this.#fs.lstat(this.#root.resolveForWrite(path))?.isFile()) return undefined
      throw error
    }
  }

  /** The file system that holds the root: its size, the space available to this process, and whether it is read-only. */
  async space(): Promise<Space> {
    const { bsize, blocks, bavail } = this.#fs.statfs(this.root)
    return { totalBytes: bsize * blocks, availableBytes: bsize * bavail, readOnly: this.#fs.isReadOnly(this.root) }
  }

  /** Whether there is a file that begins with these ASCII characters. @throws {HalError} if it is not a regular file. */
  async beginsWith(path: string, magic: string): Promise<boolean> {
    return (await this.readStart(path, magic.length))?.toString('latin1') === magic
  }

  /** The target of a symbolic link as written; undefined if nothing is there. @throws {HalError} if it is not a link. */
  async readLink(path: string): Promise<string | undefined> {
    const at = this.#root.resolveParent(path)
    const target = linkTarget(this.#fs, at)
    if (target === undefined && this.#fs.lstat(at)) throw new HalError('UNREADABLE', 'the file is not a symbolic link')
    return target
  }

  /** The same, but undefined for anything that is not a link. */
  async linkTarget(path: string): Promise<string | undefined> {
    return linkTarget(this.#fs, this.#root.resolveParent(path))
  }

  /** The names in a folder in byte order; none if there is no folder. */
  async list(path: string): Promise<readonly string[]> {
    return list(this.#fs, this.#root.resolve(path))
  }

  /** Whether a path exists and, if it is a link, whether its target does. The path must end in a name. */
  async exists(path: string): Promise<boolean> {
    // Most are not links, and need only one lstat(2): a start asks about a hundred units and folders.
    const own = this.#fs.lstat(this.#root.resolveParent(path))
    if (own?.isSymbolicLink() !== true) return own !== undefined
    return this.#fs.lstat(this.#root.resolveForWrite(path)) !== undefined
  }

  /** When the entry at a path was last modified, in milliseconds since 1970; undefined if nothing is there. */
  async modifiedAt(path: string): Promise<number | undefined> {
    return this.#fs.lstat(this.#root.resolveParent(path))?.mtimeMs
  }

  /**
   * Replaces the content of a file in one step, unless it is the same already. Keeps the owner, and the mode unless one
   * is given; the mode applies from the moment the new file is created. Makes missing folders. An empty folder, or a
   * link that is part of a loop, is replaced.
   * @returns whether anything was written.
   * @throws {HalError} if a device, a FIFO or a socket is there.
   */
  async writeAtomic(path: string, content: string | Uint8Array, mode?: number): Promise<boolean> {
    const bytes = typeof content === 'string' ? encodeLossless(content) : content
    return writeFile(this.#fs, this.#root.resolveForWrite(path), bytes, mode)
  }

  /** The files under another root, through the same `FileSystem`. */
  elsewhere(root: string): Files {
    return new Files(root, this.#fs)
  }

  /** Makes the root itself, unless it exists, with this mode. */
  async makeRoot(mode: number): Promise<void> {
    await makeFolder(this.#fs, this.root, mode)
  }

  /**
   * Opens a file that is too large to be written at once, to append from `length` on: anything after that is cut off. With a
   * `length` of 0, makes a missing file with the mode 0600. Its folder must exist. The caller closes it.
   * @throws {HalError} if it is shorter, or not a regular file.
   */
  async grow(path: string, length: number): Promise<GrowingFile> {
    return GrowingFile.open(this.#fs, this.#root.resolveParent(path), length)
  }

  /** The size of a regular file in bytes; undefined if there is none. */
  async size(path: string): Promise<number | undefined> {
    const stat = this.#fs.lstat(this.#root.resolveParent(path))
    return stat?.isFile() ? stat.size : undefined
  }

  /** Writes to an attribute of the kernel under /proc or /sys, by one write(2). It must exist. */
  async writeAttribute(path: string, text: string): Promise<void> {
    await writeAttribute(this.#fs, this.#root.resolve(path), text)
  }

  /**
   * Makes `path` a symbolic link in one step, unless it is the same already.
   * @returns whether anything was written.
   */
  async writeLink(path: string, target: string): Promise<boolean> {
    return writeLink(this.#fs, this.#root.resolveParent(path), target)
  }

  /** Removes a file or link. Does nothing if it does not exist. */
  async remove(path: string): Promise<void> {
    await remove(this.#fs, this.#root.resolveParent(path))
  }

  /** Renames the entry at a path within its folder. Replaces an entry that has the new name, except a folder with content. */
  async rename(path: string, name: string): Promise<void> {
    const at = this.#root.resolveParent(path)
    const folder = dirname(at)
    rename(this.#fs, at, join(folder, name))
    await syncFolder(this.#fs, folder)
  }

  /** Captures a path, and the target of a link there, for `restore`. @throws {HalError} if it could not be put back. */
  async capture(path: string): Promise<Image> {
    const own = this.#root.resolveParent(path)
    const entry = capture(this.#fs, own)
    const target = this.#root.resolveForWrite(path)
    return own === target ? { path, entry } : { path, entry, behind: capture(this.#fs, target) }
  }

  /** As `capture`, for a link of ours: its target is not captured. */
  async captureLink(path: string): Promise<Image> {
    return { path, entry: capture(this.#fs, this.#root.resolveParent(path)) }
  }

  /** Puts back what `capture` saw, where the path and its link lead under this root. */
  async restore({ path, entry, behind }: Image): Promise<void> {
    await restore(this.#fs, this.#root.resolveParent(path), entry)
    if (behind) await restore(this.#fs, this.#root.resolve(path), behind)
  }

  /**
   * Finishes what a power cut interrupted at these paths: completes a file that was overwritten in place, and removes a
   * temporary file. If that is impossible now (a full or read-only disk), the next start tries again.
   */
  async recover(...paths: readonly string[]): Promise<void> {
    await recover(this.#fs, new Set(paths.flatMap(path => [...this.#places(path)])))
  }

  /**
   * Calls `changed` after each change at `path` or at the target of its link, even if a rename makes the change, or a folder on
   * the way is still missing. The call means no more than "read again". If the kernel has no watch left, changes go unreported.
   */
  watch(path: string, changed: () => void): Stop {
    const stops = new Map<string, Stop>()
    const arm = () => {
      const places = new Set(this.#places(path))
      // The link may lead to another place now.
      for (const [place, stop] of stops) {
        if (places.has(place) || places.size === 0) continue
        stop()
        stops.delete(place)
      }
      for (const place of places) if (!stops.has(place)) stops.set(place, this.#watcher.watch(place, rearm))
    }
    const rearm = () => {
      arm()
      changed()
    }
    arm()
    return () => {
      for (const stop of stops.values()) stop()
    }
  }

  /** The place of a path and that of its link's target; none if the links cannot be followed. */
  #places(path: string): Iterable<string> {
    try {
      return new Set([this.#root.resolveParent(path), this.#root.resolveForWrite(path)])
    } catch {
      return []
    }
  }
}
