import { type FSWatcher, watch } from 'node:fs'
import { basename, dirname } from 'node:path'

/** Ends what it was returned for. */
export type Stop = () => void

interface Folder {
  readonly watcher: FSWatcher
  readonly listeners: Set<Listener>
}

interface Listener {
  /** The name in the folder that is watched: the file, the next folder on the way to it, or `*` for any. */
  readonly name: string
  readonly changed: () => void
}

/**
 * Watches files by their folders, one inotify watch a folder: a watched file goes deaf when a rename replaces it. Where
 * the folder is missing, its nearest ancestor is watched until it comes.
 */
export class FolderWatcher {
  readonly #folders = new Map<string, Folder>()

  watch(path: string, changed: () => void): Stop {
    let stop: Stop | undefined
    let stopped = false
    const arm = () => {
      stop?.()
      if (!stopped) stop = this.#armNearest(path, changed, arm)
    }
    arm()
    return () => {
      stopped = true
      stop?.()
    }
  }

  #armNearest(path: string, changed: () => void, rearm: () => void): Stop | undefined {
    let name = basename(path)
    for (let folder = dirname(path); ; folder = dirname(folder)) {
      const lookAround = () => {
        rearm()
        changed()
      }
      const listener = { name, changed: folder === dirname(path) ? changed : lookAround }
      const stop = this.#listen(folder, listener, lookAround)
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
      folder.watcher.close()
      if (this.#folders.get(path) === folder) this.#folders.delete(path)
    }
  }

  #open(path: string): Folder | undefined {
    try {
      const watcher = watch(path, { persistent: false })
      const folder: Folder = { watcher, listeners: new Set() }
      watcher.on('change', (event, name) => this.#tell(path, folder, event, name?.toString()))
      // The watch is lost (no memory, folder unmounted): what reads on a clock still sees the changes.
      watcher.on('error', () => {
        watcher.close()
        this.#folders.delete(path)
      })
      this.#folders.set(path, folder)
      return folder
    } catch {
      return undefined
    }
  }

  #tell(path: string, folder: Folder, event: string, name: string | undefined): void {
    // A folder that was removed or renamed tells of itself under its own name: from here on this watch is deaf.
    if (event === 'rename' && name === basename(path)) this.#folders.delete(path)
    for (const listener of [...folder.listeners])
      if (name === undefined || listener.name === name || listener.name === '*') listener.changed()
  }
}
