import { constants as os } from 'node:os'
import { type FileSystem, KERNEL, O_CREAT, O_DIRECTORY, O_WRONLY } from '../../../hal/files/kernel.ts'
import type { Run } from '../../../hal/os/command.ts'

/** A call about to happen: a system call on a path such as `open`, on an open file such as `file.sync`, or a command. */
export interface Call {
  readonly name: string
  /** The path; of a rename the new one, of a command all of its words. */
  readonly path: string
  /** Whether it can change what is on the disk. */
  readonly changes: boolean
  /** Lets it happen. Only waits for the disk (`IN_POOL`) and commands return a promise. */
  readonly proceed: () => unknown
  /** Lets half of a write happen; of any other call, nothing. */
  readonly tear: () => void
}

/** Is shown a call before it happens. Lets it proceed or throws, and does not wait for anything. */
export type Intercept = (call: Call) => unknown

/** Runs commands, each shown to `intercept` as a call named `run`. */
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

/** The names of the calls that change something, as they are shown. */
const CHANGES = {
  write: 'file.write',
  fchown: 'file.chown',
  fchmod: 'file.chmod',
  ftruncate: 'file.truncate',
  fsync: 'file.sync',
  fdatasync: 'file.datasync',
  writeMuch: 'file.append',
  rename: 'rename',
  unlink: 'unlink',
  symlink: 'symlink',
  mkdir: 'mkdir',
  rmdir: 'rmdir',
} as const satisfies Partial<Record<keyof FileSystem, string>>

const IN_POOL: readonly string[] = ['fsync', 'fdatasync', 'writeMuch'] satisfies (keyof typeof CHANGES)[]

/**
 * The real file system, with every call that changes something shown to `intercept`, and the path of every file that is
 * opened to be read shown to `read`.
 */
export function intercepted(intercept: Intercept, read: (path: string) => void = () => undefined): FileSystem {
  /** The paths of descriptors. The kernel reuses a descriptor once it is closed. */
  const paths = new Map<number, string>()

  const open = (path: string, flags: number, mode?: number): number => {
    const proceed = () => {
      const file = KERNEL.open(path, flags, mode)
      paths.set(file, path)
      return file
    }
    const changes = (flags & (O_CREAT | O_WRONLY)) !== 0
    if (changes || (flags & O_DIRECTORY) !== 0)
      return intercept({ name: 'open', path, changes, proceed, tear: () => undefined }) as number
    read(path)
    return proceed()
  }

  const change = (key: keyof typeof CHANGES, args: readonly unknown[]): unknown => {
    const name = CHANGES[key]
    const [first, second] = args
    const path = typeof first === 'number' ? paths.get(first) : /^(rename|symlink)$/.test(key) ? second : first
    const result = intercept({
      name,
      path: String(path),
      changes: true,
      proceed: () => Reflect.apply(KERNEL[key], KERNEL, args),
      tear: () => {
        if ((key === 'write' || key === 'writeMuch') && Buffer.isBuffer(second))
          KERNEL.write(first as number, second.subarray(0, second.length >> 1))
      },
    })
    // If it threw later, the next call would have happened already.
    if (!IN_POOL.includes(key) && result instanceof Promise) throw new TypeError(`${name} does not wait for a promise`)
    return result
  }

  const changes = Object.keys(CHANGES).map(name => {
    const key = name as keyof typeof CHANGES
    const call = (...args: unknown[]) => change(key, args)
    // The caller is given a promise, also where `intercept` throws.
    return [key, IN_POOL.includes(key) ? async (...args: unknown[]) => call(...args) : call]
  })
  return { ...KERNEL, open, ...Object.fromEntries(changes) }
}

/** The process is gone: thrown in place of a system call, and of every one after it. */
export class Stopped extends Error {}

/**
 * Stops the process in place of the `n`-th call that changes something. Half of a write happens. Before that, `refuse`
 * may throw for a call.
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

/** A file system that stops as `stopAt` says. */
export function stoppingAt(n: number, refuse?: (call: Call) => void): FileSystem {
  return intercepted(stopAt(n, refuse))
}

/** A file system where the `n`-th of the calls that `which` selects fails, and no other. */
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

/** For `stoppingAt` and `intercepted`: refuses a rename to anything but a temporary name, as onto a mount point. */
export function refuseRename(code: ErrorCode): (call: Call) => void {
  return ({ name, path }) => {
    if (name === 'rename' && !path.includes('.receiverd-')) throw systemError(code)
  }
}

/** A file system that refuses renames as `refuseRename` says. */
export function refusing(fs: FileSystem, code: ErrorCode): FileSystem {
  return {
    ...fs,
    rename(from, to) {
      if (!to.includes('.receiverd-')) throw systemError(code)
      fs.rename(from, to)
    },
  }
}

/** The real file system, with storage that fails when some of the files are read. */
export function unreadable(isUnreadable: (path: string) => boolean): FileSystem {
  return intercepted(
    call => call.proceed(),
    path => {
      if (isUnreadable(path)) throw systemError('EIO')
    },
  )
}

/** The real file system with these calls in place of its own, and its descriptors that are open. */
export function tracked(calls: Partial<FileSystem> = {}): {
  readonly fs: FileSystem
  readonly open: ReadonlySet<number>
} {
  const fs = { ...KERNEL, ...calls }
  const open = new Set<number>()
  return {
    open,
    fs: {
      ...fs,
      open(...args) {
        const file = fs.open(...args)
        open.add(file)
        return file
      },
      close(file) {
        fs.close(file)
        open.delete(file)
      },
    },
  }
}

export type ErrorCode = keyof typeof os.errno

/** An error as node:fs throws it. */
export function systemError(code: ErrorCode): Error {
  return Object.assign(new Error(`${code}: injected`), { code, errno: -os.errno[code] })
}
