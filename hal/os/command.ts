/** The only door to other programs: no other file in hal/ or src/ imports node:child_process (see test/layers.test.ts). */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { constants } from 'node:os'
import { isatty } from 'node:tty'
import { errorCode, HalError } from '../errors.ts'
import type { Stop } from '../files/watcher.ts'

/** A command and its arguments. No shell interprets them. */
export type Argv = readonly [command: string, ...arguments: string[]]
/**
 * Runs a command to completion, with a minimal environment plus `env`.
 * @returns what it printed on stdout.
 * @throws {CommandFailure} if it fails.
 */
export type Run = (argv: Argv, env?: Readonly<Record<string, string>>) => Promise<string>
/**
 * Runs a command that does not end by itself, and calls `line` with each line of its stdout until it is stopped. Some time
 * after each start, it also calls `line` with an empty line: the command is listening by then, but has not printed earlier
 * changes.
 */
export type Monitor = (argv: Argv, line: (line: string) => void) => Stop
/**
 * Runs a command and calls `take` with each line of its stdout until it returns false, which ends the command.
 * @throws {HalError} if the command fails; anything that `take` throws.
 */
export type ReadLines = (argv: Argv, take: (line: string) => boolean) => Promise<void>

/** A command that was run and failed. */
export class CommandFailure extends HalError {
  /** The end of its stderr, to tell failures apart. It may contain paths, so no HTTP answer may quote it. */
  readonly stderr: string

  constructor(message: string, stderr: string, options?: ErrorOptions) {
    super('COMMAND_FAILED', message, options)
    this.stderr = stderr.slice(-MAX_LINE)
  }
}

/** Milliseconds after which a command is killed. A small board that is starting up takes 5 s to restart a service. */
export const COMMAND_TIMEOUT_MS = 20_000
const TIMED_OUT = `did not end within ${COMMAND_TIMEOUT_MS / 1000} s`
/** Limit on a command's output in bytes. The controls of a large sound card take about 400 KiB. */
const MAX_OUTPUT_BYTES = 1024 * 1024
/** Limit on a line of a monitored command in characters. The rest of a longer line is dropped. */
const MAX_LINE = 4_096
/** The same for a command whose lines are read: journalctl prints a record of 4 KiB as 20 KiB. */
const MAX_READ_LINE = 64 * 1024
/** Milliseconds until a monitored command that ended is restarted; doubled each time. */
const FIRST_RESTART_MS = 1_000
const LAST_RESTART_MS = 60_000
/** Milliseconds until a monitored command is listening: usually, and on a slow board that is starting up. */
const LISTENING_MS = [3_000, 30_000]
/** Milliseconds after which a monitored command counts as running well: if it ends later, the delay starts over. */
const STEADY_MS = 60_000
/** The exit status of flock(1) if another process has locked the file. */
const LOCKED = 1

/** Runs a command without a shell or input, with English messages and a time limit. */
export const runCommand: Run = ([command, ...args], env) =>
  new Promise((resolve, reject) => {
    const options = {
      timeout: COMMAND_TIMEOUT_MS,
      killSignal: 'SIGKILL',
      maxBuffer: MAX_OUTPUT_BYTES,
      env: { ...environment(), ...env },
    } as const
    const child = execFile(command, args, options, (error, stdout, stderr) => {
      if (!error) return resolve(stdout)
      reject(new CommandFailure(`${command} ${failure(error, child.exitCode)}`, stderr, { cause: error }))
    })
    child.stdin?.end()
  })

/**
 * Monitors a command without a shell or input, and with English messages. A command that ends is restarted after a growing
 * delay, unless it is not installed. The command does not keep this process running.
 */
export const monitorCommand: Monitor = ([command, ...args], line) => {
  let child: ChildProcess | undefined
  let timer: NodeJS.Timeout | undefined
  let delay = FIRST_RESTART_MS
  let stopped = false

  const start = () => {
    let ended = false
    const steady = setTimeout(() => {
      delay = FIRST_RESTART_MS
    }, STEADY_MS).unref()
    const listening = LISTENING_MS.map(ms => setTimeout(line, ms, '').unref())
    const restart = () => {
      clearTimeout(steady)
      listening.forEach(clearTimeout)
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
    child.on('error', error => {
      // A program that is not installed is not tried again: that would start a process every minute, for years.
      if (errorCode(error) === 'ENOENT') ended = true
      restart()
    })
    child.on('exit', restart).unref()
    if (child.stdout instanceof Socket) child.stdout.unref()
    const read = lineReader(text => {
      if (!stopped) line(text)
    })
    child.stdout?.setEncoding('utf8').on('data', read)
  }

  start()
  return () => {
    stopped = true
    clearTimeout(timer)
    child?.kill('SIGKILL')
  }
}

/** Reads the lines of a command without a shell or input, with English messages and a time limit. */
export const readCommandLines: ReadLines = ([command, ...args], take) =>
  new Promise((resolve, reject) => {
    const options = { timeout: COMMAND_TIMEOUT_MS, killSignal: 'SIGKILL', env: environment() } as const
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] })
    const fail = (how: string) => reject(new HalError('COMMAND_FAILED', `${command} ${how}`))
    let isEnough = false
    const read = lineReader(line => {
      if (isEnough) return
      try {
        isEnough = !take(line)
      } catch (error) {
        isEnough = true
        reject(error)
      }
      if (isEnough) child.kill('SIGKILL')
    }, MAX_READ_LINE)
    child.stdout.setEncoding('utf8').on('data', read)
    child.on('error', error => fail(failure(error, null)))
    child.on('close', status => {
      if (isEnough || status === 0) resolve()
      else fail(child.killed ? TIMED_OUT : failed(status))
    })
  })

/** A command that shares this process's input and output. */
export interface Attached {
  /** Its exit status; 128 plus the number of the signal if a signal killed it, as in shells. */
  readonly ended: Promise<number>
  /**
   * Sends a signal to the command and, unless its input is a terminal, to all that it has started in its process group.
   * @param signal 0 sends none.
   * @returns whether any of them still runs.
   */
  kill(signal: NodeJS.Signals | 0): boolean
}

/** Starts a command with this process's environment, input and output. @throws {HalError} if it cannot be started. */
export async function attachCommand([command, ...args]: Argv): Promise<Attached> {
  // At a terminal, the command stays in the group of this process. Node makes a session along with a group, and a new session
  // is without the terminal: Ctrl-Z would not stop the command, in the background it would take the shell's input, and it
  // could not ask for a password on /dev/tty.
  const hasGroup = !isatty(0)
  const child = spawn(command, args, { stdio: 'inherit', detached: hasGroup })
  const ended = new Promise<number>(resolve =>
    child.on('exit', (status, signal) => resolve(status ?? 128 + (signal ? constants.signals[signal] : 0))),
  )
  await new Promise<void>((resolve, reject) => {
    child.on('spawn', resolve)
    child.on('error', error =>
      reject(new HalError('COMMAND_FAILED', `${command} ${failure(error, null)}`, { cause: error })),
    )
  })
  const { pid } = child
  return { ended, kill: signal => (hasGroup && pid !== undefined ? killGroup(pid, signal) : child.kill(signal)) }
}

function killGroup(leader: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-leader, signal)
  } catch {
    return false
  }
}

/**
 * Locks an open file for this process by flock(2), which Node lacks: flock(1) inherits the descriptor, and the lock belongs to
 * the open file description that both processes share. The kernel releases the lock when the descriptor is closed, so also when
 * this process ends, however it ends.
 * @returns false if another process has locked the file.
 * @throws {HalError} if flock(1) is missing or fails otherwise.
 */
export function lockFile(file: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const fail = (how: string) => reject(new HalError('COMMAND_FAILED', `flock ${how}`))
    // It does not wait for the lock, so it needs no time limit.
    spawn('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', file], env: environment() })
      .on('error', error => fail(failure(error, null)))
      .on('exit', status => (status === 0 || status === LOCKED ? resolve(status === 0) : fail(failed(status))))
  })
}

/** Splits text into lines of bounded length; an unfinished line is kept for the next chunk. */
function lineReader(line: (line: string) => void, max = MAX_LINE): (chunk: string) => void {
  let rest = ''
  return chunk => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop()?.slice(0, max) ?? ''
    for (const text of lines) line(text.slice(0, max))
  }
}

function environment() {
  return { PATH: process.env.PATH ?? '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' }
}

function failure(error: Error & { killed?: boolean }, status: number | null): string {
  if (errorCode(error) === 'ENOENT') return 'is not installed'
  if (error.killed) return TIMED_OUT
  if (errorCode(error) === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `printed over ${MAX_OUTPUT_BYTES / 1024} KiB`
  return failed(status)
}

function failed(status: number | null): string {
  return status === null ? 'failed' : `failed with status ${status}`
}
