import { HalError } from '../errors.ts'
import { makeFolder } from '../files/folder.ts'
import { isAbsence, KERNEL, O_DIRECTORY, O_RDONLY } from '../files/kernel.ts'
import { lockFile } from './command.ts'

/**
 * Claims a folder for as long as this process runs, and makes the folder if it is missing. The lock is on the folder
 * itself: it leaves no file behind, a killed process leaves no stale lock, and it works on a read-only file system.
 * @throws {HalError} `IN_USE` if another process has claimed it; `COMMAND_FAILED` if that cannot be determined.
 */
export async function claimFolder(folder: string): Promise<void> {
  const file = await openFolder(folder)
  try {
    if (await lockFile(file)) return
  } catch (error) {
    KERNEL.close(file)
    throw error
  }
  KERNEL.close(file)
  throw new HalError('IN_USE', 'the folder is used by another process')
}

async function openFolder(folder: string): Promise<number> {
  const open = () => KERNEL.open(folder, O_RDONLY | O_DIRECTORY)
  try {
    return open()
  } catch (error) {
    if (!isAbsence(error)) throw error
    await makeFolder(KERNEL, folder)
    return open()
  }
}
