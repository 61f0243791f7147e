/** The one door to the device: nothing else in hal/ imports node:fs or node:child_process. */
import { execFile } from 'node:child_process'
import { CommandFailed, errorCode } from './errors.ts'
import { type FileSystem, Files } from './files.ts'

/** Milliseconds until a command that does not end is killed. */
export const COMMAND_TIMEOUT_MS = 10_000
const MAX_OUTPUT_BYTES = 64 * 1024

/** A command and its arguments; no shell reads them. */
export type Argv = readonly [command: string, ...arguments: string[]]
/** Runs a command and returns what it printed on stdout. @throws {CommandFailed} */
export type Run = (argv: Argv) => Promise<string>

/** The system under a root: its files, and where the root is the running system's, its commands and its kernel. */
export class System extends Files {
  /** The root is `/`: the system is the one we run on. */
  readonly isRunning: boolean
  readonly #run: Run

  constructor(root: string, options: { run?: Run; fs?: FileSystem } = {}) {
    super(root, options.fs)
    this.isRunning = root === '/'
    this.#run = options.run ?? runCommand
  }

  /** Runs a command of the running system. Never for another root: it would touch the host. */
  async run(argv: Argv): Promise<string> {
    if (!this.isRunning) throw new CommandFailed(`${argv[0]} is not run for another root`)
    return this.#run(argv)
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
      env: {
        PATH: process.env.PATH ?? '/usr/sbin:/usr/bin:/sbin:/bin',
        LC_ALL: 'C',
      },
    } as const
    const child = execFile(command, args, options, (error, stdout) => {
      if (!error) resolve(stdout)
      else
        reject(
          new CommandFailed(`${command} ${failure(error, child.exitCode)}`, {
            cause: error,
          }),
        )
    })
    child.stdin?.end()
  })

function failure(error: Error & { killed?: boolean }, status: number | null): string {
  if (errorCode(error) === 'ENOENT') return 'is not installed'
  if (error.killed) return `did not end within ${COMMAND_TIMEOUT_MS / 1000} s`
  // No status: a signal. 0: it printed more than is read.
  return status ? `failed with status ${status}` : 'failed'
}
