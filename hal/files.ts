import { randomBytes } from 'node:crypto'
import { constants, lstatSync } from 'node:fs'
import * as nodeFs from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode, Unreadable } from './errors.ts'
import { FolderWatcher, type Stop } from './folder-watcher.ts'

/** The calls that change or read a disk. Tests override one to make it fail. */
export type FileSystem = Pick<
  typeof nodeFs,
  'open' | 'rename' | 'unlink' | 'symlink' | 'readlink' | 'readdir' | 'lstat' | 'mkdir' | 'rmdir'
>

/** What stood at a place (a path with the root, no link left to follow): a file, a link, an empty folder, or nothing. */
export type Image = { readonly at: string } & (
  | { readonly kind: 'file'; readonly bytes: Buffer; readonly mode: number }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'folder'; readonly mode: number }
  | { readonly kind: 'absent' }
)

/** Bytes of a file that is read for what it says. */
export const MAX_FILE_BYTES = 64 * 1024
/** Bytes of a file that can be put back after a failed write; whatever fills a configuration file up to here is replaced. */
const MAX_IMAGE_BYTES = 16 * 1024 * 1024
const NEW_FILE_MODE = 0o644
const NEW_FOLDER_MODE = 0o755
const MAX_LINKS = 40
const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants
/**
 * lstat(2) is answered from memory: asking the thread pool for it takes several times as long, and a PATCH asks 50 times.
 */
const disk: FileSystem = { ...nodeFs, lstat: (async (path: string) => lstatSync(path)) as typeof nodeFs.lstat }
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The files below a root, named by absolute paths as that system sees them. A symbolic link is followed as it would be
 * there: an absolute one begins at the root again, and none leads out (chroot(2), `systemctl --root`).
 */
export class Files {
  readonly root: string
  readonly #fs: FileSystem
  readonly #watcher = new FolderWatcher()

  constructor(root: string, fs: FileSystem = disk) {
    this.root = root
    this.#fs = fs
  }

  /**
   * The text of a file, or undefined where there is none: also behind a link to /dev/null, which hides a file of the
   * vendor's (systemd-system.conf(5)).
   * @throws {Unreadable} over the limit (in bytes; 64 KiB), not UTF-8, or no regular file; the system's own errors as they are.
   */
  async readText(path: string, limit?: number): Promise<string | undefined> {
    const bytes = await this.readBytes(path, limit)
    if (bytes === undefined) return undefined
    try {
      return utf8.decode(bytes)
    } catch {
      throw new Unreadable('not UTF-8')
    }
  }

  /** What `readText` reads, as bytes that need not be UTF-8. */
  async readBytes(path: string, limit?: number): Promise<Buffer | undefined> {
    const at = await this.#resolve(path)
    return at === join(this.root, '/dev/null') ? undefined : this.#readBytes(at, limit)
  }

  /** The text of a file that is about to be edited: undefined, too, where it is unreadable and must be made anew. */
  async readForEdit(path: string): Promise<string | undefined> {
    try {
      return await this.readText(path)
    } catch (error) {
      if (error instanceof Unreadable) return undefined
      throw error
    }
  }

  /** Whether there is a regular file that begins with these ASCII characters. */
  async beginsWith(path: string, magic: string): Promise<boolean> {
    const bytes = await this.#readBytes(await this.#resolve(path), MAX_IMAGE_BYTES)
    return bytes?.subarray(0, magic.length).toString('latin1') === magic
  }

  /** The target of a symbolic link as written, or undefined where there is nothing. */
  async readLink(path: string): Promise<string | undefined> {
    try {
      return await this.#fs.readlink(await this.#resolveParent(path))
    } catch (error) {
      if (isAbsence(error)) return undefined
      if (errorCode(error) === 'EINVAL') throw new Unreadable('not a symbolic link')
      throw error
    }
  }

  /** The names in a folder in the order of their bytes; none where there is no folder. */
  async list(path: string): Promise<readonly string[]> {
    try {
      return (await this.#fs.readdir(await this.#resolve(path))).sort()
    } catch (error) {
      if (isAbsence(error)) return []
      throw error
    }
  }

  async exists(path: string): Promise<boolean> {
    return (await this.#stat(await this.#place(path))) !== undefined
  }

  /**
   * Replaces a file's text, durably and whole: after a power cut the old text or the new one is there. The same text is
   * not written again. The owner of a file that exists is kept, and its mode unless one is given; a mode holds from the
   * moment of the file's creation. An empty folder, or a link of a loop, is replaced.
   * @throws {Unreadable} where a device, a FIFO or a socket stands.
   */
  async writeAtomic(path: string, text: string | Uint8Array, mode?: number): Promise<void> {
    await this.#write(await this.#place(path), Buffer.from(text), mode)
  }

  /** Writes to an attribute of the kernel under /proc or /sys: one write(2), nothing to make durable. */
  async writeAttribute(path: string, text: string): Promise<void> {
    const file = await this.#fs.open(await this.#resolve(path), O_WRONLY | O_NOFOLLOW)
    try {
      await file.writeFile(text)
    } finally {
      await file.close()
    }
  }

  /** Makes `path` a symbolic link to `target` by a rename, so that there is no moment without one. */
  async writeLink(path: string, target: string): Promise<void> {
    await this.#link(await this.#resolveParent(path), target)
  }

  /** Removes a file or a link, durably; nothing there is well, too. */
  async remove(path: string): Promise<void> {
    await this.#remove(await this.#resolveParent(path))
  }

  /** What stands at a path now, and behind it where it is a link, for `restore`. */
  async capture(path: string): Promise<readonly Image[]> {
    return Promise.all(Array.from(await this.#places(path), at => this.#image(at)))
  }

  /** Puts back what `capture` saw. */
  async restore(image: Image): Promise<void> {
    if (image.kind === 'file') return this.#write(image.at, image.bytes, image.mode)
    if (image.kind === 'link') return this.#link(image.at, image.target)
    if (image.kind === 'folder' && (await this.#stat(image.at))?.isDirectory()) return
    await this.#remove(image.at)
    if (image.kind === 'folder') await this.#makeFolder(image.at, image.mode)
  }

  /**
   * Finishes what a power cut interrupted at `path`: a write in place is completed, a temporary file removed. What
   * cannot be done now (a disk that is read-only, or full) is left for the next time.
   */
  async recover(path: string): Promise<void> {
    for (const at of await this.#places(path).catch(() => []))
      for (const name of await this.#fs.readdir(dirname(at)).catch(() => [])) {
        const leftover = join(dirname(at), name)
        if (!leftover.startsWith(temporaryPrefix(at))) continue
        const finish = leftover === redoName(at) ? this.#replace(leftover, at) : this.#remove(leftover)
        await finish.catch(() => undefined)
      }
  }

  /**
   * Calls `changed` after each change at `path`, also one by a rename or of a folder that is missing now. It says no
   * more than "look again". A kernel that has no watch left is no error: nothing is told then.
   */
  watch(path: string, changed: () => void): Stop {
    let stopped = false
    const stops: Stop[] = []
    const arm = async () => {
      const places = await this.#places(path)
      if (stopped) return
      for (const place of places) stops.push(this.#watcher.watch(place, changed))
    }
    arm().catch(() => undefined)
    return () => {
      stopped = true
      for (const stop of stops) stop()
    }
  }

  async #readBytes(at: string, limit = MAX_FILE_BYTES): Promise<Buffer | undefined> {
    let file: nodeFs.FileHandle
    try {
      file = await this.#fs.open(at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch (error) {
      if (isAbsence(error)) return undefined
      throw error
    }
    try {
      const stat = await file.stat()
      if (!stat.isFile()) throw new Unreadable('not a regular file')
      if (stat.size > limit) throw new Unreadable(`over ${limit / 1024} KiB`)
      // Under /proc and /sys the size says nothing, so what is read decides.
      const bytes = await file.readFile()
      if (bytes.length > limit) throw new Unreadable(`over ${limit / 1024} KiB`)
      return bytes
    } finally {
      await file.close()
    }
  }

  async #write(at: string, bytes: Buffer, mode: number | undefined): Promise<void> {
    const standing = await this.#stat(at)
    // What is behind a link to /dev/null must not become a file.
    if (standing && !standing.isFile() && !standing.isDirectory() && !standing.isSymbolicLink())
      throw new Unreadable('not a regular file')
    const existing = standing?.isFile() ? standing : undefined
    const bornMode = (mode ?? existing?.mode ?? NEW_FILE_MODE) & 0o7777
    if (existing && bornMode === (existing.mode & 0o7777)) {
      const present = await this.#readBytes(at).catch(() => undefined)
      if (present?.equals(bytes)) return
    }
    await this.#inFolder(dirname(at), () => {
      const temporary = temporaryName(at)
      return this.#orRemove(temporary, async () => {
        await this.#create(temporary, bytes, bornMode, existing)
        await this.#orRemove(redoName(at), () => this.#replace(temporary, at))
      })
    })
  }

  async #link(at: string, target: string): Promise<void> {
    if ((await this.#linkTarget(at)) === target) return
    await this.#inFolder(dirname(at), async () => {
      const temporary = temporaryName(at)
      await this.#fs.symlink(target, temporary)
      await this.#orRemove(temporary, () => this.#rename(temporary, at))
    })
  }

  async #image(at: string): Promise<Image> {
    const stat = await this.#stat(at)
    if (stat === undefined) return { at, kind: 'absent' }
    if (stat.isSymbolicLink()) return { at, kind: 'link', target: await this.#fs.readlink(at) }
    if (stat.isDirectory()) return { at, kind: 'folder', mode: stat.mode & 0o7777 }
    const bytes = await this.#readBytes(at, MAX_IMAGE_BYTES)
    return bytes === undefined ? { at, kind: 'absent' } : { at, kind: 'file', bytes, mode: stat.mode & 0o7777 }
  }

  async #create(
    at: string,
    bytes: Buffer,
    mode: number,
    owner: { uid: number; gid: number } | undefined,
  ): Promise<void> {
    const file = await this.#fs.open(at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode)
    try {
      const born = await file.stat()
      if (owner && (born.uid !== owner.uid || born.gid !== owner.gid)) await file.chown(owner.uid, owner.gid)
      // The umask may have taken some of it, and a change of the owner its set-id bits.
      if (owner || (born.mode & 0o7777) !== mode) await file.chmod(mode)
      await file.writeFile(bytes)
      await file.sync()
    } finally {
      await file.close()
    }
  }

  /** rename(2), also onto an empty folder: a container's engine makes one where a file to be mounted is missing. */
  async #rename(from: string, at: string): Promise<void> {
    try {
      await this.#fs.rename(from, at)
    } catch (error) {
      if (errorCode(error) !== 'EISDIR') throw error
      await this.#fs.rmdir(at)
      await this.#fs.rename(from, at)
    }
  }

  /**
   * Puts a new text, whole and durable in the file `from`, in the place of what is there. A file that is a mount point of
   * its own, where rename(2) is refused, is overwritten. The new text stands beside it under a name that tells so, until
   * the overwriting is durable: a start after a power cut does it again.
   */
  async #replace(from: string, at: string): Promise<void> {
    try {
      return await this.#rename(from, at)
    } catch (error) {
      if (errorCode(error) !== 'EBUSY' && errorCode(error) !== 'EXDEV') throw error
    }
    const redo = redoName(at)
    await this.#fs.rename(from, redo)
    await this.#syncFolder(dirname(at))
    const { mode } = await this.#fs.lstat(redo)
    const bytes = await this.#readBytes(redo, MAX_IMAGE_BYTES)
    const file = await this.#fs.open(at, O_WRONLY | O_CREAT | O_NOFOLLOW, mode)
    try {
      if ((await file.stat()).mode !== mode) await file.chmod(mode & 0o7777)
      if (bytes) await file.writeFile(bytes)
      await file.truncate(bytes?.length ?? 0)
      await file.sync()
    } finally {
      await file.close()
    }
    await this.#remove(redo)
  }

  /** Runs what puts a name into a folder, makes the folder first where it is missing, and the name durable after it. */
  async #inFolder(folder: string, act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error
      await this.#makeFolder(folder)
      await act()
    }
    await this.#syncFolder(folder)
  }

  /** Makes a folder and those above it that are missing, readable whatever the umask says. */
  async #makeFolder(folder: string, mode = NEW_FOLDER_MODE): Promise<void> {
    try {
      await this.#fs.mkdir(folder, mode)
    } catch (error) {
      if (errorCode(error) === 'EEXIST') return
      if (errorCode(error) !== 'ENOENT') throw error
      await this.#makeFolder(dirname(folder))
      await this.#fs.mkdir(folder, mode)
    }
    await this.#syncFolder(folder, mode)
    await this.#syncFolder(dirname(folder))
  }

  async #orRemove(temporary: string, act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      await this.#remove(temporary).catch(() => undefined)
      throw error
    }
  }

  /** Nothing there is well, too. */
  async #remove(at: string): Promise<void> {
    try {
      await this.#fs.unlink(at)
    } catch (error) {
      if (isAbsence(error)) return
      throw error
    }
    await this.#syncFolder(dirname(at))
  }

  /** A name is as durable as its folder. */
  async #syncFolder(folder: string, mode?: number): Promise<void> {
    const handle = await this.#fs.open(folder, O_RDONLY | O_DIRECTORY)
    try {
      if (mode !== undefined) await handle.chmod(mode)
      await handle.sync()
    } finally {
      await handle.close()
    }
  }

  async #stat(at: string) {
    try {
      return await this.#fs.lstat(at)
    } catch (error) {
      if (isAbsence(error)) return undefined
      throw error
    }
  }

  /** The real place of a path, its last name followed where that is a link. */
  #resolve(path: string): Promise<string> {
    return this.#follow(path.split('/'), '')
  }

  /** The real place of a path, its last name taken as it is. */
  async #resolveParent(path: string): Promise<string> {
    const cut = path.lastIndexOf('/')
    return join(await this.#follow(path.slice(0, cut).split('/'), ''), path.slice(cut + 1))
  }

  /** Where a write to a path goes: a link that leads nowhere, as one of a loop does, is taken as it is. */
  async #place(path: string): Promise<string> {
    try {
      return await this.#resolve(path)
    } catch (error) {
      if (error instanceof Unreadable) return this.#resolveParent(path)
      throw error
    }
  }

  /** A path's own place, and the one behind it where it is a link. */
  async #places(path: string): Promise<Iterable<string>> {
    return new Set([await this.#resolveParent(path), await this.#place(path)])
  }

  async #follow(names: string[], start: string): Promise<string> {
    let links = 0
    let at = start
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      if (name === '' || name === '.') continue
      if (name === '..') {
        at = at.slice(0, Math.max(0, at.lastIndexOf('/')))
        continue
      }
      const target = await this.#linkTarget(join(this.root, at, name))
      if (target === undefined) {
        at = `${at}/${name}`
        continue
      }
      if (++links > MAX_LINKS) throw new Unreadable('too many symbolic links')
      if (target.startsWith('/')) at = ''
      names.unshift(...target.split('/'))
    }
    return join(this.root, at)
  }

  async #linkTarget(at: string): Promise<string | undefined> {
    // Most names are no links: asking readlink(2) for each of them would cost an exception a name.
    return (await this.#stat(at))?.isSymbolicLink() ? this.#fs.readlink(at) : undefined
  }
}

function isAbsence(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}

/** Beside the target, so that rename(2) stays within one file system. */
function temporaryPrefix(at: string): string {
  const folder = dirname(at)
  return join(folder, `.${at.slice(folder === '/' ? 1 : folder.length + 1)}.receiverd-`)
}

function temporaryName(at: string): string {
  return temporaryPrefix(at) + randomBytes(6).toString('hex')
}

function redoName(at: string): string {
  return `${temporaryPrefix(at)}redo`
}
