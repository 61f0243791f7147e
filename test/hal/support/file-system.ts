import { constants, openSync } from 'node:fs'
import nodeFs, { type FileHandle } from 'node:fs/promises'
import { constants as os } from 'node:os'
import type { FileSystem } from '../../../hal/disk.ts'
import type { Run } from '../../../hal/system.ts'

/** A system call on its way: of `open` and the like, or of a file that was opened, such as `file.sync`; or a command. */
export interface Call {
  readonly name: string
  /** The path, of a rename the new one; of a command all of it. */
  readonly path: string
  /** Whether it can change what is on the disk. */
  readonly changes: boolean
  /** Lets it happen. */
  readonly proceed: () => Promise<unknown>
  /** Of a write: lets half of it happen. */
  readonly tear: () => Promise<void>
}

const READING = ['file.stat', 'file.close']

/** Is shown a call first, and lets it proceed or throws. */
export type Intercept = (call: Call) => Promise<unknown>

/** Commands, each shown as a call named `run`. */
export function interceptedRun(intercept: Intercept, run: Run): Run {
  return async argv =>
    (await intercept({
      name: 'run',
      path: argv.join(' '),
      changes: true,
      proceed: () => run(argv),
      tear: async () => undefined,
    })) as string
}

/** The real file system with every call that changes something shown to `intercept`, and every reading to `read`. */
export function intercepted(intercept: Intercept, read: (path: string) => void = () => undefined): FileSystem {
  const pass = (name: string, path: string, changes: boolean, proceed: () => Promise<unknown>, tear = async () => {}) =>
    intercept({ name, path, changes, proceed, tear })
  const fileOf = (file: FileHandle, path: string) =>
    new Proxy(file, {
      get(_, key: keyof FileHandle) {
        const method = file[key]
        if (typeof method !== 'function') return method
        const name = `file.${String(key)}`
        return (...args: unknown[]) =>
          pass(
            name,
            path,
            !READING.includes(name),
            () => Reflect.apply(method, file, args) as Promise<unknown>,
            async () => {
              const [bytes] = args
              if (key === 'writeFile' && Buffer.isBuffer(bytes)) await file.write(bytes.subarray(0, bytes.length >> 1))
            },
          )
      },
    })
  return new Proxy({ ...nodeFs, openSync } as FileSystem, {
    get(_, name: keyof FileSystem) {
      if (name === 'openSync')
        return (path: string, flags: number) => {
          read(path)
          return openSync(path, flags)
        }
      return (...args: unknown[]) => {
        const path = String(args[name === 'rename' || name === 'symlink' ? 1 : 0])
        const proceed = () => Reflect.apply(nodeFs[name], nodeFs, args) as Promise<unknown>
        if (name !== 'open') return pass(name, path, true, proceed)
        const changes = (Number(args[1]) & (constants.O_CREAT | constants.O_WRONLY)) !== 0
        return pass(name, path, changes, async () => fileOf((await proceed()) as FileHandle, path))
      }
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
  return async call => {
    if (calls < n && call.changes && ++calls === n) await call.tear()
    if (calls < n) {
      refuse(call)
      return call.proceed()
    }
    // The kernel closes the files of a process that is gone.
    if (call.name === 'file.close') await call.proceed()
    throw new Stopped()
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
    async call => {
      if (fails(call)) {
        if (call.name === 'file.writeFile') await call.tear()
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
