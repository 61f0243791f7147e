// Servers run on one core and load on another, so that neither takes processor time from the other.
import { execFile, execFileSync } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import { killAtExit } from './lifetime.ts'

export const SERVER_CORE = 0
export const LOAD_CORE = 1
const MAX_OUTPUT = 1 << 24

const execute = promisify(execFile)

/** A command line that runs on a core. On a machine with one core, server and load share it. */
export function pinned(core: number, argv: readonly string[]): readonly string[] {
  return availableParallelism() > 1 ? ['taskset', '-c', String(core), ...argv] : argv
}

/** Runs a program to its end on a core, and returns what it printed. */
export async function run(core: number, argv: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const [command = '', ...args] = pinned(core, argv)
  const running = execute(command, args, { env: { PATH: process.env.PATH, ...env }, maxBuffer: MAX_OUTPUT })
  killAtExit(running.child)
  return (await running).stdout
}

/** Whether a command is installed. */
export function has(command: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
