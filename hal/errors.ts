import { getSystemErrorMap } from 'node:util'

/** The cases that callers of the HAL tell apart. */
export type HalErrorCode =
  /** Nothing is stored. Normal on many systems: nothing is broken. */
  | 'ABSENT'
  /** Something is stored, but not in the form that is expected. */
  | 'UNREADABLE'
  /** A command could not be run, or reported a failure. */
  | 'COMMAND_FAILED'
  /** Another process has claimed it. */
  | 'IN_USE'

/**
 * An error of the HAL itself; errors of system calls are passed on as node:fs throws them. The message is a clause with a
 * subject ("the file is not valid UTF-8") that can follow a colon in a log line or an answer. It names no path and quotes
 * no content.
 */
export class HalError extends Error {
  readonly code: HalErrorCode

  constructor(code: HalErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Whether there is no usable value, as opposed to a system that refuses to read or write it. */
export function isUnreadable(error: unknown): error is HalError {
  return error instanceof HalError && (error.code === 'ABSENT' || error.code === 'UNREADABLE')
}

/** The code of a failed system call, such as `ENOENT`, or of a `HalError`. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** How a system fails that may well have a value: the storage fails, nothing more can be opened, or we may not look. */
const REFUSALS = ['EIO', 'EACCES', 'EPERM', 'EMFILE', 'ENFILE', 'ENOMEM']

/** For `catch`, where something counts as absent that cannot be used. @throws the error of a system that refuses. */
export function absentUnlessRefused(error: unknown): undefined {
  if (REFUSALS.includes(errorCode(error) ?? '')) throw error
}

/** Whether the storage refused a write because it is full, or because our share of it is. */
export function isNoSpace(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(errorCode(error) ?? '')
}

/** Whether the system or the HAL has thrown it, and not a mistake of ours. */
export function isOfSystem(error: unknown): boolean {
  return error instanceof HalError || isSystemError(error)
}

function isSystemError(error: unknown): error is Error & { readonly errno: number } {
  return error instanceof Error && 'errno' in error && typeof error.errno === 'number'
}

/** Why something failed, in words that name no path: `read-only file system (EROFS)`. */
export function reasonOf(error: unknown): string {
  if (error instanceof HalError) return error.message
  if (isSystemError(error))
    return `${getSystemErrorMap().get(error.errno)?.[1] ?? 'system error'} (${errorCode(error)})`
  return 'unexpected error'
}
