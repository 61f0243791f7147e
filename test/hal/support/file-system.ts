import { constants } from 'node:fs'
import { constants as os } from 'node:os'
import { type FileSystem, KERNEL } from '../../../hal/files/disk.ts'
import type { Run } from '../../../hal/os/system.ts'

/** A system call on its way: of `open` and the like, or of a file that was opened, such as `file.sync`; or a command. */
export interface Call {
  readonly name: string
  /** The path, of a rename the new one; of a command all of it. */
  readonly path: string
  /** Whether it can change what is on the disk. */
  readonly changes: boolean
  /** Lets it happen. A promise comes of `file.sync` and of a command alone. */
  readonly proceed: () => unknown
  /** Of a write: lets half of it happen. */
  readonly tear: () => void
}

/** Is shown a call first, and lets it proceed or throws, there and then. */
export type Intercept = (call: Call) => unknown

/** Commands, each shown as a call named `run`. */
export function interceptedRun(intercept: Intercept, run: Run): Run {
  return async argv =>
    (await intercept({
      name: 'run',
      path: argv.join(' '),
      changes: true,
      proceed: () => run(argv),
      tear: () => undefined,
    })) as string
}

/** What the calls are shown as; those of a file begin with its descriptor. */
const NAMES = {
  writeSync: 'file.write',
  fchownSync: 'file.chown',
  fchmodSync: 'file.chmod',
  ftruncateSync: 'file.truncate',
  fsync: 'file.sync',
  openSync: 'open',
  renameSync: 'rename',
  unlinkSync: 'unlink',
  symlinkSync: 'symlink',
  mkdirSync: 'mkdir',
  rmdirSync: 'rmdir',
} as const satisfies Record<keyof FileSystem, string>

const { O_CREAT, O_DIRECTORY, O_WRONLY } = constants

/** The real file system with every call that changes something shown to `intercept`, and every reading to `read`. */
export function intercepted(intercept: Intercept, read: (path: string) => void = () => undefined): FileSystem {
  /** What the descriptors are of; one that was closed is given out again. */
  const paths = new Map<number, string>()

  const open = (path: string, flags: number, mode?: number): number => {
    const proceed = () => {
      const file = KERNEL.openSync(path, flags, mode)
      paths.set(file, path)
      return file
    }
    const changes = (flags & (O_CREAT | O_WRONLY)) !== 0
    if (changes || (flags & O_DIRECTORY) !== 0)
      return intercept({ name: 'open', path, changes, proceed, tear: () => undefined }) as number
    read(path)
    return proceed()
  }

  const pass = (key: Exclude<keyof FileSystem, 'openSync'>, args: readonly unknown[]): unknown => {
    const name = NAMES[key]
    const [first, second] = args
    const path = typeof first === 'number' ? paths.get(first) : key.match(/^(rename|symlink)/) ? second : first
    const result = intercept({
      name,
      path: String(path),
      changes: true,
      proceed: () => Reflect.apply(KERNEL[key], KERNEL, args),
      tear: () => {
        if (key !== 'writeSync' || !Buffer.isBuffer(second)) return
        KERNEL.writeSync(first as number, second.subarray(0, second.length >> 1))
      },
    })
    // What is late to throw would have let the next call happen.
    if (key !== 'fsync' && result instanceof Promise) throw new TypeError(`${name} does not wait for a promise`)
    return result
  }

  return new Proxy(KERNEL, {
    get(_, key: keyof FileSystem) {
      if (key === 'openSync') return open
      if (key === 'fsync') return async (file: number) => pass(key, [file])
      return (...args: unknown[]) => pass(key, args)
    },
  })
}

/** The process is gone: thrown in the place of a system call, and of each one after it. */
export class Stopped extends Error {}

/**
 * The process stops in the place of the `n`-th call that changes something, and for good. A write happens half. `refuse`
 * may throw for calls before that.
 */
export function stopAt(n: number, refuse: (call: Call) => void = () => undefined): Intercept {
  let calls = 0
  return call => {
    if (calls < n && call.changes && ++calls === n) call.tear()
    if (calls >= n) throw new Stopped()
    refuse(call)
    return call.proceed()
  }
}

/** A file system that the process stops at. */
export function stoppingAt(n: number, refuse?: (call: Call) => void): FileSystem {
  return intercepted(stopAt(n, refuse))
}

/** A file system where the `n`-th of the calls that `which` names fails, and no other. */
export function failingAt(
  n: number,
  code: ErrorCode,
  which: (call: Pick<Call, 'name' | 'changes'>) => boolean,
): FileSystem {
  let calls = 0
  const fails = (call: Pick<Call, 'name' | 'changes'>) => which(call) && ++calls === n
  return intercepted(
    call => {
      if (fails(call)) {
        call.tear()
        throw systemError(code)
      }
      return call.proceed()
    },
    () => {
      if (fails({ name: 'read', changes: false })) throw systemError(code)
    },
  )
}

/** For `stoppingAt` and `intercepted`: a rename onto anything but a name beside it is refused, as onto a mount point. */
export function refuseRename(code: ErrorCode): (call: Call) => void {
  return ({ name, path }) => {
    if (name === 'rename' && !path.includes('.receiverd-')) throw systemError(code)
  }
}

export type ErrorCode = keyof typeof os.errno

/** An error as node:fs throws it. */
export function systemError(code: ErrorCode): Error {
  return Object.assign(new Error(`${code}: injected`), { code, errno: -os.errno[code] })
}
