import { getSystemErrorMap } from 'node:util'

/** The cases that callers of the HAL distinguish. */
export type HalErrorCode =
  /** Nothing is stored. This is normal on many systems. */
  | 'ABSENT'
  /** Something is stored, but not in the expected form. */
  | 'UNREADABLE'
  /** A command could not be run, or reported a failure. */
  | 'COMMAND_FAILED'
  /** Another process has claimed the resource. */
  | 'IN_USE'

/**
 * An error of the HAL itself; errors of system calls are passed on as node:fs throws them. The message is a clause with a
 * subject ("the file is not valid UTF-8") that can follow a colon in a log line or a response. It names no path and quotes
 * no content.
 */
export class HalError extends Error {
  readonly code: HalErrorCode

  constructor(code: HalErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Reports whether no usable value is stored, as opposed to a system that refuses to read or write it. */
export function isUnreadable(error: unknown): error is HalError {
  return error instanceof HalError && (error.code === 'ABSENT' || error.code === 'UNREADABLE')
}

/** Returns the code of a failed system call, such as `ENOENT`, or of a `HalError`. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Errors that do not mean that a value is absent: storage fails, nothing more can be opened, or access is denied. */
const REFUSALS = ['EIO', 'EACCES', 'EPERM', 'EMFILE', 'ENFILE', 'ENOMEM']

/** For `catch`, where anything unusable counts as absent. @throws the error if the system refuses access. */
export function absentUnlessRefused(error: unknown): undefined {
  if (REFUSALS.includes(errorCode(error) ?? '')) throw error
}

/** Reports whether a write failed because the storage, or a quota on it, is full. */
export function isNoSpace(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(errorCode(error) ?? '')
}

/** Reports whether the system or the HAL threw the error, so that it is not a bug in this program. */
export function isOfSystem(error: unknown): boolean {
  return error instanceof HalError || isSystemError(error)
}

function isSystemError(error: unknown): error is Error & { readonly errno: number } {
  return error instanceof Error && 'errno' in error && typeof error.errno === 'number'
}

/** Returns why something failed, in words that name no path: `read-only file system (EROFS)`. */
export function reasonOf(error: unknown): string {
  if (error instanceof HalError) return error.message
  if (isSystemError(error))
    return `${getSystemErrorMap().get(error.errno)?.[1] ?? 'system error'} (${errorCode(error)})`
  return 'unexpected error'
}
