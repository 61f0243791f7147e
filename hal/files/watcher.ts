import { basename, dirname } from 'node:path'
import { type FileSystem, KERNEL, type Watch } from './kernel.ts'

/** Stops the watch, or the command, that it was returned for. */
export type Stop = () => void

interface Folder {
  readonly watch: Watch
  readonly listeners: Set<Listener>
}

interface Listener {
  /** The name in the watched folder: the file, the next folder on the way to it, or `*` for any name. */
  readonly name: string
  readonly changed: () => void
}

/**
 * Watches files through their folders, with one inotify watch for each folder: a watch on a file would end when a rename
 * replaces it. While the folder is missing, its nearest ancestor is watched until it appears.
 */
export class FolderWatcher {
  readonly #fs: Pick<FileSystem, 'watch'>
  readonly #folders = new Map<string, Folder>()

  constructor(fs: Pick<FileSystem, 'watch'> = KERNEL) {
    this.#fs = fs
  }

  /** Calls `changed` after each change of a file, or of any file of a folder if the path ends in `/*`. */
  watch(path: string, changed: () => void): Stop {
    let stop: Stop | undefined
    const arm = () => {
      stop?.()
      stop = this.#armNearest(path, changed, arm)
    }
    arm()
    return () => stop?.()
  }

  #armNearest(path: string, changed: () => void, rearm: () => void): Stop | undefined {
    let name = basename(path)
    for (let folder = dirname(path); ; folder = dirname(folder)) {
      const rearmAndTell = () => {
        rearm()
        changed()
      }
      const listener = { name, changed: folder === dirname(path) ? changed : rearmAndTell }
      const stop = this.#listen(folder, listener, rearmAndTell)
      if (stop || folder === dirname(folder)) return stop
      name = basename(folder)
    }
  }

  #listen(path: string, listener: Listener, gone: () => void): Stop | undefined {
    const folder = this.#folders.get(path) ?? this.#open(path)
    if (!folder) return undefined
    const whenGone: Listener = { name: basename(path), changed: gone }
    folder.listeners.add(listener).add(whenGone)
    return () => {
      folder.listeners.delete(listener)
      folder.listeners.delete(whenGone)
      if (folder.listeners.size > 0) return
      folder.watch.close()
      if (this.#folders.get(path) === folder) this.#folders.delete(path)
    }
  }

  #open(path: string): Folder | undefined {
    try {
      const folder: Folder = { watch: this.#fs.watch(path), listeners: new Set() }
      folder.watch.on('change', (event, name) => this.#tell(path, folder, event, name?.toString()))
      // The watch is lost (out of memory, folder unmounted). A caller that also polls still sees the changes.
      folder.watch.on('error', () => {
        folder.watch.close()
        this.#folders.delete(path)
      })
      this.#folders.set(path, folder)
      return folder
    } catch {
      return undefined
    }
  }

  #tell(path: string, folder: Folder, event: string, name: string | undefined): void {
    // A folder that is removed or renamed reports that under its own name. Its watch reports nothing after that.
    if (event === 'rename' && name === basename(path)) this.#folders.delete(path)
    for (const listener of [...folder.listeners]) {
      const isMeant = name === undefined || listener.name === name || listener.name === '*'
      // One that is told may stop others, or begin again.
      if (isMeant && folder.listeners.has(listener)) listener.changed()
    }
  }
}
