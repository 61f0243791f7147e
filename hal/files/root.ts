import { join } from 'node:path'
import { errorCode, HalError, isUnreadable } from '../errors.ts'
import { type FileSystem, KERNEL } from './kernel.ts'
import { linkTarget } from './read.ts'

const MAX_LINKS = 40
/** A path that ends in no name, but in `/`, `.` or `..`. */
const NO_NAME = /\/\.{0,2}$/

/** The real path of a root, so that every way to write `/` is recognized. @throws {HalError} if it is not a folder. */
export function realRoot(path: string, fs: FileSystem = KERNEL): string {
  const real = fs.realpath(path)
  if (!fs.lstat(real)?.isDirectory()) throw new HalError('UNREADABLE', 'it is not a folder')
  return real
}

/**
 * Resolves paths of the system under a root to places: absolute paths of the host that have no link left to follow. A link is
 * followed as that system would follow it: an absolute one begins at the root again, and none leads out (as after chroot(2), or
 * with `systemctl --root`). It does not protect against a tree that changes meanwhile: that would take openat2(2), which Node
 * lacks.
 */
export class Root {
  readonly #fs: FileSystem
  /** The root without a slash at its end. */
  readonly #base: string
  /** Real places of folders, as of this turn of the event loop. */
  readonly #folders = new Map<string, string>()

  constructor(root: string, fs: FileSystem = KERNEL) {
    this.#fs = fs
    this.#base = join(root, '/').slice(0, -1)
  }

  /** Where a path leads. @throws {HalError} for a loop of links. */
  resolve(path: string): string {
    const at = this.resolveParent(path)
    const isPlain = !NO_NAME.test(path) && linkTarget(this.#fs, at) === undefined
    return isPlain ? at : this.#base + this.#realPath(path.split('/')) || '/'
  }

  /**
   * Calls `open` with the place of a path, and again with its target if it is a link. @throws {HalError} for a loop. Most names
   * are not links: because of O_NOFOLLOW, they cost no lstat(2).
   */
  openThrough<T>(path: string, open: (at: string) => T): T {
    if (NO_NAME.test(path)) return open(this.resolve(path))
    try {
      return open(this.resolveParent(path))
    } catch (error) {
      if (errorCode(error) !== 'ELOOP') throw error
      return open(this.resolve(path))
    }
  }

  /** The place of a path itself: its last name is not followed if it is a link. */
  resolveParent(path: string): string {
    const cut = path.lastIndexOf('/')
    return this.#base + this.#realFolder(path.slice(0, cut)) + path.slice(cut)
  }

  /** Where a write to a path goes: through its link, or in place of it if it is part of a loop. */
  resolveForWrite(path: string): string {
    try {
      return this.resolve(path)
    } catch (error) {
      if (isUnreadable(error)) return this.resolveParent(path)
      throw error
    }
  }

  /**
   * As `#realPath`, but resolves each folder only once in a turn of the event loop: reading every setting asks 190 times
   * for 30 folders.
   */
  #realFolder(path: string): string {
    const known = this.#folders.get(path)
    if (known !== undefined) return known
    if (this.#folders.size === 0) setImmediate(() => this.#folders.clear())
    const at = this.#realPath(path.split('/'))
    this.#folders.set(path, at)
    return at
  }

  /** The path below the root, with a slash before each name: empty for the root itself. */
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
      const target = linkTarget(this.#fs, this.#base + next)
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
