/** The only door to the file system: no other file in hal/ or src/ imports node:fs, and test/layers.test.ts holds them to it. */
import {
  accessSync,
  closeSync,
  constants,
  type FSWatcher,
  fchmodSync,
  fchownSync,
  fdatasync,
  fstatSync,
  fsync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  renameSync,
  rmdirSync,
  type Stats,
  statfsSync,
  symlinkSync,
  unlinkSync,
  watch,
  write,
  writeSync,
} from 'node:fs'
import { errorCode } from '../errors.ts'

export const { O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants
const { W_OK } = constants

export type Stat = Stats
/** Emits `change` with the kind of change and the name in the folder; `error` when the watch is lost. */
export type Watch = FSWatcher

/**
 * The system calls that the HAL makes on files. Tests override some of them to make them fail.
 *
 * Paths are absolute, and every failure is thrown as node:fs throws it, with `code` and `errno`. All calls are synchronous
 * except the three that may wait for the disk: a call that only reaches the kernel's memory would take ten times as long in the
 * thread pool.
 */
export interface FileSystem {
  /** open(2). @returns a descriptor for the calls below, which the caller closes. */
  open(path: string, flags: number, mode?: number): number
  /** close(2). Does not make anything durable. */
  close(file: number): void
  /** read(2) into the start of `buffer`, or pread(2) with a position. @returns the number of bytes; 0 at the end of the file. */
  read(file: number, buffer: Uint8Array, options?: { readonly position: number }): number
  /** write(2) of `bytes` from `offset` on. @returns the number of bytes written, which may be only a part. */
  write(file: number, bytes: Uint8Array, offset?: number): number
  /** fsync(2). Waits for the disk, so it runs in Node's pool and does not block the event loop. */
  fsync(file: number): Promise<void>
  /** fdatasync(2), in the pool as well: syncs a file's content and length, but not its times. */
  fdatasync(file: number): Promise<void>
  /** write(2) in the pool: the kernel blocks a process that writes faster than the disk. */
  writeMuch(file: number, bytes: Uint8Array): Promise<number>
  /** fstat(2). */
  fstat(file: number): Stat
  /** fchown(2). May clear the set-ID bits of the mode. */
  fchown(file: number, uid: number, gid: number): void
  /** fchmod(2). The umask does not apply. */
  fchmod(file: number, mode: number): void
  /** ftruncate(2). */
  ftruncate(file: number, length: number): void
  /** lstat(2): a link is not followed. @returns undefined if nothing is there. */
  lstat(path: string): Stat | undefined
  /** readlink(2). Fails with EINVAL for anything but a symbolic link. */
  readlink(path: string): string
  /** readdir(3), in no particular order and without `.` and `..`. */
  readdir(path: string): string[]
  /** realpath(3): the path with every link of the host followed. */
  realpath(path: string): string
  /** rename(2): replaces what is at `to` in one step. */
  rename(from: string, to: string): void
  /** unlink(2). */
  unlink(path: string): void
  /** symlink(2). Fails with EEXIST if anything is at `path`. */
  symlink(target: string, path: string): void
  /** mkdir(2). The umask applies. */
  mkdir(path: string, mode: number): void
  /** rmdir(2). Fails with ENOTEMPTY unless the folder is empty. */
  rmdir(path: string): void
  /** statfs(2), of the file system that holds a path. */
  statfs(path: string): { readonly bsize: number; readonly blocks: number; readonly bavail: number }
  /** access(2) for writing: whether the file system, or the mount, that holds a path is read-only. */
  isReadOnly(path: string): boolean
  /** An inotify(7) watch on a folder, which does not keep the process running. */
  watch(folder: string): Watch
}

const QUIET = { throwIfNoEntry: false } as const

/** The file system of the host. */
export const KERNEL: FileSystem = {
  open: openSync,
  close: closeSync,
  read: readSync,
  write: writeSync,
  fsync: file =>
    new Promise((resolve, reject) => {
      fsync(file, error => (error ? reject(error) : resolve()))
    }),
  fdatasync: file =>
    new Promise((resolve, reject) => {
      fdatasync(file, error => (error ? reject(error) : resolve()))
    }),
  writeMuch: (file, bytes) =>
    new Promise((resolve, reject) => {
      write(file, bytes, (error, count) => (error ? reject(error) : resolve(count)))
    }),
  fstat: fstatSync,
  fchown: fchownSync,
  fchmod: fchmodSync,
  ftruncate: ftruncateSync,
  lstat(path) {
    try {
      return lstatSync(path, QUIET)
    } catch (error) {
      if (isAbsence(error)) return undefined
      throw error
    }
  },
  isReadOnly(path) {
    try {
      accessSync(path, W_OK)
      return false
    } catch (error) {
      return errorCode(error) === 'EROFS'
    }
  },
  readlink: readlinkSync,
  readdir: readdirSync,
  realpath: realpathSync.native,
  rename: renameSync,
  unlink: unlinkSync,
  symlink: symlinkSync,
  mkdir: mkdirSync,
  rmdir: rmdirSync,
  statfs: statfsSync,
  watch: folder => watch(folder, { persistent: false }),
}

/** Whether a call failed because nothing is at the path. */
export function isAbsence(error: unknown): boolean {
  const code = errorCode(error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}
