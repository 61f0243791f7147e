import { networkInterfaces } from 'node:os'
import { HalError } from '../errors.ts'
import { Files } from '../files/files.ts'
import type { FileSystem } from '../files/kernel.ts'
import type { Stop } from '../files/watcher.ts'
import { Serial } from '../serial.ts'
import {
  type Argv,
  type Monitor,
  monitorCommand,
  type ReadLines,
  type Run,
  readCommandLines,
  runCommand,
} from './command.ts'

/** The addresses of each interface that has a carrier, in CIDR notation and sorted. */
export type Addresses = Readonly<Record<string, readonly string[]>>

/** Replaces parts of the host, in tests. */
export interface SystemOptions {
  readonly run?: Run
  readonly readLines?: ReadLines
  readonly monitor?: Monitor
  readonly fs?: FileSystem
  readonly addresses?: () => Addresses
  /** Whether the system under the root is the running one although its path is not `/`. */
  readonly running?: boolean
}

/**
 * The system under a root: its files and, if it is the running system, its commands and its kernel. Settings reach the device
 * only through this class.
 */
export class System extends Files {
  /** Whether this is the system that this process runs on, not an image or another disk. */
  readonly isRunning: boolean
  /** Starts, stops and restarts of units take turns: systemd cancels one if another conflicts with it. */
  readonly unitJobs = new Serial()
  readonly #run: Run
  readonly #readLines: ReadLines
  readonly #monitor: Monitor
  readonly #addresses: () => Addresses

  /** @param root A real path, as from `realRoot`: the running system is recognized by `/`. */
  constructor(root: string, options: SystemOptions = {}) {
    super(root, options.fs)
    this.isRunning = options.running ?? root === '/'
    this.#run = options.run ?? runCommand
    this.#readLines = options.readLines ?? readCommandLines
    this.#monitor = options.monitor ?? monitorCommand
    this.#addresses = options.addresses ?? kernelAddresses
  }

  /**
   * Runs a command of the running system. @returns what it printed on stdout.
   * @throws {HalError} if it fails, or for another root, because it would act on the host.
   */
  async run(argv: Argv): Promise<string> {
    this.#requireRunning(argv)
    return this.#run(argv)
  }

  /**
   * Runs a command of the running system, and calls `take` with each line that it prints until that returns false.
   * @throws {HalError} as `run`.
   */
  async readLines(argv: Argv, take: (line: string) => boolean): Promise<void> {
    this.#requireRunning(argv)
    await this.#readLines(argv, take)
  }

  /**
   * Calls `line` with each line that a command of the running system prints, such as `alsactl monitor`. The command is
   * restarted when it ends. Does nothing for another root.
   */
  monitor(argv: Argv, line: (line: string) => void): Stop {
    return this.isRunning ? this.#monitor(argv, line) : () => undefined
  }

  #requireRunning([command]: Argv): void {
    if (!this.isRunning) throw new HalError('COMMAND_FAILED', `${command} does not run on another root`)
  }

  /** The addresses of the running system; undefined for another root. */
  addresses(): Addresses | undefined {
    return this.isRunning ? this.#addresses() : undefined
  }
}

function kernelAddresses(): Addresses {
  const addresses = Object.entries(networkInterfaces()).map(([name, all]) => [
    name,
    (all ?? []).flatMap(({ cidr }) => cidr ?? []).sort(),
  ])
  return Object.fromEntries(addresses)
}
