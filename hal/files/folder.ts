/** Folders, and the names in them. A name is only as durable as its folder: each change here ends with fsync(2). */
import { dirname } from 'node:path'
import { errorCode } from '../errors.ts'
import { type FileSystem, isAbsence, O_DIRECTORY, O_RDONLY } from './kernel.ts'

const NEW_FOLDER_MODE = 0o755

/** Makes a folder and its missing parents, unless it exists. The umask does not apply. */
export async function makeFolder(fs: FileSystem, folder: string, mode = NEW_FOLDER_MODE): Promise<void> {
  try {
    fs.mkdir(folder, mode)
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return
    if (errorCode(error) !== 'ENOENT') throw error
    await makeFolder(fs, dirname(folder))
    fs.mkdir(folder, mode)
  }
  await syncFolder(fs, folder, mode)
  await syncFolder(fs, dirname(folder))
}

/** Runs `act`, which adds a name to a folder, and makes the name durable. Makes the folder first if it is missing. */
export async function inFolder(fs: FileSystem, folder: string, act: () => Promise<void>): Promise<void> {
  try {
    await act()
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error
    await makeFolder(fs, folder)
    await act()
  }
  await syncFolder(fs, folder)
}

/** Removes a file or link. Does nothing if it does not exist. */
export async function remove(fs: FileSystem, at: string): Promise<void> {
  try {
    fs.unlink(at)
  } catch (error) {
    // A read-only file system refuses to remove even a name that is not there.
    if (errorCode(error) === 'EROFS' && !fs.lstat(at)) return
    if (!isAbsence(error)) throw error
    // Sync all the same: an earlier unlink may not be durable yet, if its own sync failed.
    if (!fs.lstat(dirname(at))?.isDirectory()) return
  }
  await syncFolder(fs, dirname(at))
}

/** Makes the names in a folder durable, after setting its mode if one is given. */
export async function syncFolder(fs: FileSystem, folder: string, mode?: number): Promise<void> {
  await withFile(fs, fs.open(folder, O_RDONLY | O_DIRECTORY), file => {
    if (mode !== undefined) fs.fchmod(file, mode)
    return fs.fsync(file)
  })
}

/** Closes the file when `act` is done with it. */
export async function withFile(fs: FileSystem, file: number, act: (file: number) => unknown): Promise<void> {
  try {
    await act(file)
  } finally {
    fs.close(file)
  }
}
