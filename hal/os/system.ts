/** The one door to the device: nothing else in hal/ imports node:fs or node:child_process. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { errorCode, HalError } from '../errors.ts'
import type { FileSystem } from '../files/disk.ts'
import { Files } from '../files/files.ts'
import type { Stop } from '../files/watcher.ts'

/** Milliseconds until a command that does not end is killed. */
export const COMMAND_TIMEOUT_MS = 10_000
/** The controls of a large sound card take some 400 KiB. */
const MAX_OUTPUT_BYTES = 1024 * 1024
/** Characters of a line of a command that is followed; the rest of a longer one is dropped. */
const MAX_LINE = 4_096
/** Milliseconds until a followed command that has ended is started again; doubled each time that it prints nothing. */
const FIRST_RESTART_MS = 1_000
const LAST_RESTART_MS = 60_000

/** A command and its arguments; no shell reads them. */
export type Argv = readonly [command: string, ...arguments: string[]]
/** Runs a command and returns what it printed on stdout. @throws {HalError} */
export type Run = (argv: Argv) => Promise<string>
/** Runs a command that goes on by itself, and calls `line` with each line of its stdout until it is stopped. */
export type Monitor = (argv: Argv, line: (line: string) => void) => Stop

/** The addresses of the interfaces that have a carrier, in CIDR notation and in the order of their characters. */
export type Addresses = Readonly<Record<string, readonly string[]>>

export interface SystemOptions {
  readonly run?: Run
  readonly monitor?: Monitor
  readonly fs?: FileSystem
  readonly addresses?: () => Addresses
  /** Whether the root is the running system's, where it is seen from another place than `/`. */
  readonly running?: boolean
}

/** The system under a root: its files, and where the root is the running system's, its commands and its kernel. */
export class System extends Files {
  /** The system is the one we run on. */
  readonly isRunning: boolean
  readonly #run: Run
  readonly #monitor: Monitor
  readonly #addresses: () => Addresses

  constructor(root: string, options: SystemOptions = {}) {
    super(root, options.fs)
    this.isRunning = options.running ?? root === '/'
    this.#run = options.run ?? runCommand
    this.#monitor = options.monitor ?? monitorCommand
    this.#addresses = options.addresses ?? kernelAddresses
  }

  /** Runs a command of the running system. Never for another root: it would touch the host. */
  async run(argv: Argv): Promise<string> {
    if (!this.isRunning) throw new HalError('COMMAND_FAILED', `${argv[0]} does not run on another root`)
    return this.#run(argv)
  }

  /** Follows what a command of the running system prints; nothing is told for another root. */
  monitor(argv: Argv, line: (line: string) => void): Stop {
    return this.isRunning ? this.#monitor(argv, line) : () => undefined
  }

  /** The addresses of the running system by interface; undefined for another root. */
  addresses(): Addresses | undefined {
    return this.isRunning ? this.#addresses() : undefined
  }

  /** Enables or disables a unit; with another root its links alone, as `systemctl --root` does (systemctl(1)). */
  async setUnitEnabled(unit: string, enabled: boolean): Promise<void> {
    const verb = enabled ? 'enable' : 'disable'
    await this.#run(this.isRunning ? ['systemctl', verb, unit] : ['systemctl', `--root=${this.root}`, verb, unit])
  }
}

/** Runs a command with no shell, no input, English messages and a time limit. */
export const runCommand: Run = ([command, ...args]) =>
  new Promise((resolve, reject) => {
    const options = {
      timeout: COMMAND_TIMEOUT_MS,
      killSignal: 'SIGKILL',
      maxBuffer: MAX_OUTPUT_BYTES,
      env: environment(),
    } as const
    const child = execFile(command, args, options, (error, stdout) => {
      if (!error) resolve(stdout)
      else
        reject(
          new HalError('COMMAND_FAILED', `${command} ${failure(error, child.exitCode)}`, {
            cause: error,
          }),
        )
    })
    child.stdin?.end()
  })

/**
 * Follows a command with no shell, no input and English messages. It is started again when it ends, or cannot be
 * started, and is no reason for our own process to go on.
 */
export const monitorCommand: Monitor = ([command, ...args], line) => {
  let child: ChildProcess | undefined
  let timer: NodeJS.Timeout | undefined
  let delay = FIRST_RESTART_MS
  let stopped = false

  const start = () => {
    let ended = false
    const restart = () => {
      if (ended || stopped) return
      ended = true
      timer = setTimeout(start, delay).unref()
      delay = Math.min(2 * delay, LAST_RESTART_MS)
    }
    try {
      child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'], env: environment() })
    } catch {
      return restart()
    }
    child.on('error', restart).on('exit', restart).unref()
    if (child.stdout instanceof Socket) child.stdout.unref()
    let rest = ''
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      delay = FIRST_RESTART_MS
      const lines = (rest + chunk).split('\n')
      rest = lines.pop()?.slice(0, MAX_LINE) ?? ''
      for (const text of lines) if (!stopped) line(text.slice(0, MAX_LINE))
    })
  }

  start()
  return () => {
    stopped = true
    clearTimeout(timer)
    child?.kill('SIGKILL')
  }
}

function kernelAddresses(): Addresses {
  const addresses = Object.entries(networkInterfaces()).map(([name, all]) => [
    name,
    (all ?? []).flatMap(({ cidr }) => cidr ?? []).sort(),
  ])
  return Object.fromEntries(addresses)
}

function environment() {
  return { PATH: process.env.PATH ?? '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' }
}

function failure(error: Error & { killed?: boolean }, status: number | null): string {
  if (errorCode(error) === 'ENOENT') return 'is not installed'
  if (error.killed) return `did not end within ${COMMAND_TIMEOUT_MS / 1000} s`
  if (errorCode(error) === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `printed over ${MAX_OUTPUT_BYTES / 1024} KiB`
  return status === null ? 'failed' : `failed with status ${status}`
}
