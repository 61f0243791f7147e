import { type ChildProcess, execFile } from 'node:child_process'
import { DEADLINE_MS } from './eventually.ts'

/** A thousand devices print that much. */
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

export interface Output {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  /** The working directory; by default, that of the test. */
  readonly cwd?: string
  /** Milliseconds after which it is killed. */
  readonly withinMs?: number
  /** Called with the process. */
  readonly started?: ((child: ChildProcess) => void) | undefined
}

/** Runs a program to its end, without a terminal. @param env Replaces this process's environment, except `PATH`. */
export function run(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  { cwd, withinMs = DEADLINE_MS, started }: RunOptions = {},
): Promise<Output> {
  return new Promise((resolve, reject) => {
    const own = { PATH: process.env.PATH, ...env }
    const options = { cwd, env: own, timeout: withinMs, maxBuffer: MAX_OUTPUT_BYTES }
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      if (error && typeof error.code === 'string') reject(error)
      else if (child.exitCode === null) reject(new Error(`${program} ended by ${child.signalCode}: ${stderr}`))
      else resolve({ status: child.exitCode, stdout, stderr })
    })
    child.stdin?.end()
    started?.(child)
  })
}
