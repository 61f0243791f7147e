import { dirname } from 'node:path'
import { HalError, isUnreadable, reasonOf } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import { CommandError } from '../cli/failure.ts'
import { UsageError } from '../usage-error.ts'

/** Limit on a fleet file or a key file in bytes: enough for a few thousand devices. */
export const MAX_BYTES = 1024 * 1024
/** Limit on a file with a certificate of each device. */
const MAX_EARLIER_BYTES = 64 * 1024 * 1024
const OTHERS = 0o077

/** The files of this computer. */
export const HERE = new Files('/')

export interface OwnFile {
  readonly text: string
  /** Whether nobody but its owner may read it. */
  readonly isPrivate: boolean
}

/**
 * Reads a file that the user of this program wrote.
 * @param path An absolute path.
 * @throws {UsageError} if it cannot be read.
 */
export async function readOwn(path: string): Promise<OwnFile> {
  const file = await readIfThere(path)
  if (file) return file
  const advice = isCredential(path) ? '; LoadCredential= of the unit says where it comes from' : ''
  throw new UsageError(`there is no ${path}${advice}`)
}

/** As `readOwn`, for a file that nobody else may read. */
export async function readPrivate(path: string): Promise<string> {
  return requirePrivate(path, await readOwn(path))
}

/** As `readPrivate`; undefined if there is no such file. */
export async function readPrivateIfThere(path: string): Promise<string | undefined> {
  const file = await readIfThere(path)
  return file && requirePrivate(path, file)
}

function requirePrivate(path: string, { text, isPrivate }: OwnFile): string {
  if (!isPrivate) throw new UsageError(`${path} has secrets, and others may read it: chmod 600 ${path}`)
  return text
}

/** The unit's stand-in for a missing file (receiverd-fleet-bridge.service). */
const NO_CREDENTIAL = '#'

/** Whether systemd passes a file: only the service can read it, but its mode is that of an access list (systemd.exec(5)). */
function isCredential(path: string): boolean {
  const { CREDENTIALS_DIRECTORY: folder } = process.env
  return folder !== undefined && dirname(path) === folder
}

/** As `readOwn`; undefined if there is no such file. */
export async function readIfThere(path: string): Promise<OwnFile | undefined> {
  try {
    const { entry, behind } = await HERE.capture(path)
    const content = behind ?? entry
    if (content.kind === 'absent') return undefined
    if (content.kind !== 'file') throw new HalError('UNREADABLE', 'it is not a file')
    const text = await HERE.readText(path, MAX_BYTES)
    if (text === undefined || (isCredential(path) && text.trim() === NO_CREDENTIAL)) return undefined
    return { text, isPrivate: (content.mode & OTHERS) === 0 || isCredential(path) }
  } catch (error) {
    throw new UsageError(`${path}: ${reasonOf(error)}`)
  }
}

/** @throws {CommandError} if a folder is missing: its name is misspelled, or its disk is not mounted. */
export async function requireFolder(path: string): Promise<void> {
  if (!(await isFolder(path))) throw new CommandError(`there is no folder ${path}`)
}

async function isFolder(path: string): Promise<boolean> {
  if (path === '/') return true
  // A file that is too large to capture is not a folder.
  const found = await HERE.capture(path).catch(() => undefined)
  return (found?.behind ?? found?.entry)?.kind === 'folder'
}

/**
 * The text of a file that an earlier run wrote; undefined if it is missing, or is no such text.
 * @throws {UsageError} if the system cannot read it now: it may have everything.
 */
export async function readEarlier(path: string): Promise<string | undefined> {
  return HERE.readText(path, MAX_EARLIER_BYTES).catch(error => {
    if (isUnreadable(error)) return undefined
    throw new UsageError(`${path}: ${reasonOf(error)}`)
  })
}

/** Writes a file of this computer, in a folder that exists. @throws {CommandError} */
export async function writeOwn(path: string, text: string, mode: number): Promise<void> {
  if (await isFolder(path)) throw new CommandError(`cannot write ${path}: it is a folder`)
  await requireFolder(dirname(path))
  await HERE.writeAtomic(path, text, mode).catch(error => {
    throw new CommandError(`cannot write ${path}: ${reasonOf(error)}`)
  })
}
