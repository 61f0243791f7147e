/** Faults below `hal/files` and `hal/os/command`: any call of the system, and any command, may fail while it is told to. */
import { setTimeout as sleep } from 'node:timers/promises'
import { HalError } from '../../hal/errors.ts'
import { type FileSystem, KERNEL, O_CREAT, O_WRONLY } from '../../hal/files/kernel.ts'
import { type Argv, COMMAND_TIMEOUT_MS, CommandFailure, type Run } from '../../hal/os/command.ts'
import { type ErrorCode, systemError } from '../hal/support/file-system.ts'
import type { Random } from '../support/random.ts'

/** How a call that reads, or that writes, fails on a device. EMFILE is for opening a file. */
const READING: readonly ErrorCode[] = ['EIO', 'EACCES']
const WRITING: readonly ErrorCode[] = ['EROFS', 'ENOSPC', 'EIO', 'EACCES', 'EDQUOT']
const CODES: Readonly<Partial<Record<keyof FileSystem, readonly ErrorCode[]>>> = {
  open: ['EIO', 'EACCES', 'EMFILE', 'ENFILE'],
  read: ['EIO'],
  write: WRITING,
  fsync: ['EIO', 'ENOSPC'],
  fdatasync: ['EIO', 'ENOSPC'],
  writeMuch: WRITING,
  fstat: ['EIO'],
  fchown: ['EROFS', 'EACCES', 'EIO'],
  fchmod: ['EROFS', 'EACCES', 'EIO'],
  ftruncate: WRITING,
  lstat: READING,
  readlink: READING,
  readdir: [...READING, 'EMFILE'],
  realpath: READING,
  rename: WRITING,
  unlink: WRITING,
  symlink: WRITING,
  mkdir: WRITING,
  rmdir: ['EROFS', 'EACCES', 'EIO'],
  statfs: READING,
  watch: ['ENOSPC', 'EMFILE'],
}
/** The kernel's, and in memory: no storage, and unplugged devices fail there every day. */
const NOT_STORAGE = /\/(sys|proc|run|dev\/null)(\/|$)/
/** A command that answers late does so within this time. */
const LATE_MS = 20

export class Striker {
  /** How often each call was struck, and how: `open EMFILE`, `run hangs`. */
  readonly struck = new Map<string, number>()
  total = 0
  /** The codes and ways since it was asked last. */
  recent = new Set<string>()
  readonly #random: Random
  #probability = 0
  #run: Run = async () => ''
  /** The paths of descriptors. */
  readonly #paths = new Map<unknown, string>()

  constructor(random: Random) {
    this.#random = random
  }

  /** From now on each call fails with this probability. With 0, none does. */
  rage(probability: number): void {
    this.#probability = probability
  }

  takeRecent(): ReadonlySet<string> {
    const { recent } = this
    this.recent = new Set()
    return recent
  }

  /** The file system of the host, struck. */
  get fs(): FileSystem {
    const calls = (Object.keys(KERNEL) as (keyof FileSystem)[]).map(name => [name, this.#struckCall(name)])
    return Object.fromEntries(calls) as FileSystem
  }

  /** The same for commands. */
  run(run: Run): Run {
    this.#run = run
    return argv => this.#command(argv)
  }

  #strikes(path = ''): boolean {
    if (NOT_STORAGE.test(path)) return false
    return this.#probability > 0 && this.#random.chance(this.#probability)
  }

  #count(name: string, how: string): void {
    this.total++
    this.recent.add(how)
    this.struck.set(`${name} ${how}`, (this.struck.get(`${name} ${how}`) ?? 0) + 1)
  }

  #struckCall(name: keyof FileSystem) {
    const proceed = (args: readonly unknown[]) => {
      const result = Reflect.apply(KERNEL[name], KERNEL, args)
      if (name === 'open') this.#paths.set(result, String(args[0]))
      return result
    }
    const isAsync = name === 'fsync' || name === 'fdatasync' || name === 'writeMuch'
    return (...args: unknown[]) => {
      const codes = CODES[name]
      const [first] = args
      const path = typeof first === 'string' ? first.replace(/^\/dev\/shm\b/, '') : this.#paths.get(first)
      if (!codes || !this.#strikes(path)) return proceed(args)
      const code = this.#random.pick(name === 'open' ? codesOfOpen(args, codes) : codes)
      this.#count(name, code)
      // Half of it is written, as where the storage has become full.
      const [file, bytes] = args
      if (name.startsWith('write') && bytes instanceof Uint8Array && this.#random.chance(0.5))
        KERNEL.write(file as number, bytes.subarray(0, bytes.length >> 1))
      if (isAsync) return Promise.reject(systemError(code))
      throw systemError(code)
    }
  }

  async #command(argv: Argv): Promise<string> {
    if (!this.#strikes()) return this.#run(argv)
    const [command] = argv
    const how = this.#random.pick([
      'is missing',
      'fails',
      'hangs',
      'dies',
      'says nothing',
      'is late',
      'fails when done',
    ])
    this.#count('run', how)
    if (how === 'fails when done') await this.#run(argv)
    if (how === 'is late') {
      await sleep(this.#random.below(LATE_MS))
      return this.#run(argv)
    }
    if (how === 'says nothing') return ''
    if (how === 'is missing') throw new HalError('COMMAND_FAILED', `${command} is not installed`)
    if (how === 'hangs') {
      await sleep(this.#random.below(LATE_MS))
      throw new CommandFailure(`${command} did not end within ${COMMAND_TIMEOUT_MS / 1000} s`, '')
    }
    if (how === 'dies') throw new CommandFailure(`${command} failed`, '')
    throw new CommandFailure(`${command} failed with status 1`, 'at /etc/secret')
  }
}

function codesOfOpen([, flags]: readonly unknown[], codes: readonly ErrorCode[]): readonly ErrorCode[] {
  return ((flags as number) & (O_CREAT | O_WRONLY)) === 0 ? codes : [...codes, 'EROFS', 'ENOSPC', 'EDQUOT']
}
