import { join } from 'node:path'
import { HalError, isUnreadable } from '../errors.ts'
import * as disk from './disk.ts'
import { FolderWatcher, type Stop } from './watcher.ts'

const MAX_LINKS = 40
/** A path that ends in no name, but in a step or in the root. */
const NO_NAME = /\/\.{0,2}$/
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The files below a root, named by absolute paths as that system sees them. A symbolic link is followed as it would be
 * there: an absolute one begins at the root again, and none leads out (chroot(2), `systemctl --root`).
 */
export class Files {
  readonly root: string
  readonly #fs: disk.FileSystem
  readonly #watcher = new FolderWatcher()
  /** The root without the slash that it may end in. */
  readonly #base: string
  /** Real places of folders, as of this turn of the event loop. */
  readonly #folders = new Map<string, string>()

  constructor(root: string, fs = disk.KERNEL) {
    this.root = root
    this.#base = join(root, '/').slice(0, -1)
    this.#fs = fs
  }

  /**
   * The text of a file, or undefined where there is none: also behind a link to /dev/null, which hides a file of the
   * vendor's (systemd-system.conf(5)).
   * @throws {HalError} over the limit (in bytes; 64 KiB), not UTF-8, or no regular file; the system's own errors as they are.
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

  /** What `readText` reads, as bytes that need not be UTF-8. */
  async readBytes(path: string, limit?: number): Promise<Buffer | undefined> {
    const at = this.#resolve(path)
    return at === `${this.#base}/dev/null` ? undefined : disk.readFile(this.#fs, at, limit)
  }

  /** The text of a file that is about to be edited: undefined, too, where it is unreadable and must be made anew. */
  async readForEdit(path: string): Promise<string | undefined> {
    try {
      return await this.readText(path)
    } catch (error) {
      if (isUnreadable(error)) return undefined
      throw error
    }
  }

  /** Whether there is a regular file that begins with these ASCII characters. */
  async beginsWith(path: string, magic: string): Promise<boolean> {
    const bytes = disk.readFile(this.#fs, this.#resolve(path), disk.MAX_IMAGE_BYTES)
    return bytes?.subarray(0, magic.length).toString('latin1') === magic
  }

  /** The target of a symbolic link as written, or undefined where there is nothing. */
  async readLink(path: string): Promise<string | undefined> {
    const at = this.#resolveParent(path)
    const target = disk.linkTarget(at)
    if (target === undefined && disk.stat(at)) throw new HalError('UNREADABLE', 'the file is not a symbolic link')
    return target
  }

  /** The names in a folder in the order of their bytes; none where there is no folder. */
  async list(path: string): Promise<readonly string[]> {
    return disk.list(this.#resolve(path))
  }

  async exists(path: string): Promise<boolean> {
    return disk.stat(this.#place(path)) !== undefined
  }

  /**
   * Replaces a file's text, durably and whole: after a power cut the old text or the new one is there. The same text is
   * not written again. The owner of a file that exists is kept, and its mode unless one is given; a mode holds from the
   * moment of the file's creation. An empty folder, or a link of a loop, is replaced.
   * @returns whether anything was written.
   * @throws {HalError} where a device, a FIFO or a socket stands.
   */
  async writeAtomic(path: string, text: string | Uint8Array, mode?: number): Promise<boolean> {
    return disk.writeFile(this.#fs, this.#place(path), Buffer.from(text), mode)
  }

  /** Writes to an attribute of the kernel under /proc or /sys: one write(2), nothing to make durable. */
  async writeAttribute(path: string, text: string): Promise<void> {
    await disk.overwrite(this.#fs, this.#resolve(path), text)
  }

  /**
   * Makes `path` a symbolic link to `target` by a rename, so that there is no moment without one.
   * @returns whether anything was written.
   */
  async writeLink(path: string, target: string): Promise<boolean> {
    return disk.writeLink(this.#fs, this.#resolveParent(path), target)
  }

  /** Removes a file or a link, durably; nothing there is well, too. */
  async remove(path: string): Promise<void> {
    await disk.remove(this.#fs, this.#resolveParent(path))
  }

  /** What stands at a path now, and behind it where it is a link, for `restore`. */
  async capture(path: string): Promise<readonly disk.Image[]> {
    return Array.from(this.#places(path), at => disk.imageOf(this.#fs, at))
  }

  /** Puts back what `capture` saw. */
  restore(image: disk.Image): Promise<void> {
    return disk.restore(this.#fs, image)
  }

  /**
   * Finishes what a power cut interrupted at `path`: a write in place is completed, a temporary file removed. What
   * cannot be done now (a disk that is read-only, or full) is left for the next time.
   */
  async recover(path: string): Promise<void> {
    for (const at of this.#placesIfAny(path)) await disk.recover(this.#fs, at)
  }

  /**
   * Calls `changed` after each change at `path`, also one by a rename or of a folder that is missing now. It says no
   * more than "look again". A kernel that has no watch left is no error: nothing is told then.
   */
  watch(path: string, changed: () => void): Stop {
    const stops = Array.from(this.#placesIfAny(path), place => this.#watcher.watch(place, changed))
    return () => {
      for (const stop of stops) stop()
    }
  }

  /** The real place of a path, its last name followed where that is a link. */
  #resolve(path: string): string {
    const at = this.#resolveParent(path)
    const isPlain = !NO_NAME.test(path) && disk.linkTarget(at) === undefined
    return isPlain ? at : this.#base + this.#realPath(path.split('/')) || '/'
  }

  /** The real place of a path, its last name taken as it is. */
  #resolveParent(path: string): string {
    const cut = path.lastIndexOf('/')
    return this.#base + this.#realFolder(path.slice(0, cut)) + path.slice(cut)
  }

  /**
   * As `#realPath`, once for all files of a folder that are looked for in one turn of the event loop: a look at every
   * setting asks 190 times for 30 folders.
   */
  #realFolder(path: string): string {
    const known = this.#folders.get(path)
    if (known !== undefined) return known
    if (this.#folders.size === 0) setImmediate(() => this.#folders.clear())
    const at = this.#realPath(path.split('/'))
    this.#folders.set(path, at)
    return at
  }

  /** Where a write to a path goes: a link that leads nowhere, as one of a loop does, is taken as it is. */
  #place(path: string): string {
    try {
      return this.#resolve(path)
    } catch (error) {
      if (isUnreadable(error)) return this.#resolveParent(path)
      throw error
    }
  }

  /** A path's own place, and the one behind it where it is a link. */
  #places(path: string): Iterable<string> {
    return new Set([this.#resolveParent(path), this.#place(path)])
  }

  /** None where the links of a path lead nowhere, or cannot be read. */
  #placesIfAny(path: string): Iterable<string> {
    try {
      return this.#places(path)
    } catch {
      return []
    }
  }

  /** The place below the root, with a slash before each name: empty for the root itself. */
  #realPath(names: string[]): string {
    let links = 0
    let at = ''
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      if (name === '' || name === '.') continue
      if (name === '..') {
        at = at.slice(0, Math.max(0, at.lastIndexOf('/')))
        continue
      }
      const next = `${at}/${name}`
      const target = disk.linkTarget(this.#base + next)
      if (target === undefined) {
        at = next
        continue
      }
      if (++links > MAX_LINKS) throw new HalError('UNREADABLE', 'the path has too many symbolic links')
      if (target.startsWith('/')) at = ''
      names.unshift(...target.split('/'))
    }
    return at
  }
}
