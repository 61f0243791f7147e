import { getSystemErrorMap } from 'node:util'

/** What is there cannot be read as what it should be. The message says why, for the log: no path, no content. */
export class Unreadable extends Error {}

/** There is nothing to read, as on many a system: nothing is broken. */
export class Absent extends Unreadable {}

/** A command did not do what it was asked to. The message names the command and says how it failed. */
export class CommandFailed extends Error {}

/** An error of a system call, as node:fs throws it. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Why the system refused, in words that name no path: `read-only file system (EROFS)`. */
export function reasonOf(error: unknown): string {
  if (error instanceof Unreadable || error instanceof CommandFailed) return error.message
  const code = errorCode(error)
  if (error instanceof Error && 'errno' in error && typeof error.errno === 'number')
    return `${getSystemErrorMap().get(error.errno)?.[1] ?? 'system error'} (${code})`
  return 'unexpected error'
}
