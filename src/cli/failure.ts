import { errorCode, reasonOf } from '../../hal/errors.ts'
import { hostAndPort } from '../http/address.ts'

/** A command that cannot do what was asked. The message is one line that says what to do about it. */
export class CommandError extends Error {}

/** Returns one line for the user of the command: what failed, why, and the remedy if one is known. */
export function describeFailure(error: unknown, isRoot: boolean): string {
  if (!(error instanceof Error)) return String(error)
  const what = subjectOf(error)
  if (what === undefined) return error.message
  return `cannot ${what}: ${reasonOf(error)}${remedyFor(error, isRoot)}`
}

/** Returns the purpose of the failed system call, from Node's error properties; undefined for other errors. */
function subjectOf(error: Error & NodeJS.ErrnoException): string | undefined {
  if (typeof error.errno !== 'number') return undefined
  if (isPath(error)) return `listen on ${error.address}`
  if ('address' in error && 'port' in error)
    return `listen on ${hostAndPort(String(error.address), Number(error.port))}`
  if ('hostname' in error) return `listen on ${error.hostname}`
  return error.path === undefined ? undefined : `access ${error.path}`
}

/** Reports whether the error is about a Unix socket, which has the port -1 in Node. */
function isPath(error: Error): error is Error & { readonly address: string } {
  return 'address' in error && 'port' in error && error.port === -1
}

function remedyFor(error: Error, isRoot: boolean): string {
  if (isPath(error)) return '; give --engines a path that nothing else uses, in a directory that exists'
  switch (errorCode(error)) {
    case 'EADDRINUSE':
      return '; stop the program that uses it, or choose another address with --listen'
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return '; choose an address of this device with --listen'
    case 'EACCES':
    case 'EPERM':
      return isRoot ? '' : '; run it as root'
    default:
      return ''
  }
}
