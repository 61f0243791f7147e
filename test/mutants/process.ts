/** A process that runs one program with one mutant after another, and is ended if one of them does not end by itself. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { Answer, Request } from './worker.ts'

/** A run has this many times the time that it takes without a mutant, and this much more, in milliseconds. */
const LIMITS = { times: 6, cpuMs: 2_000, wallMs: 20_000, longestWallMs: 90_000 }
const LOOK_MS = 250
/** Clock ticks in proc_pid_stat(5) are hundredths of a second on all architectures that Node runs on. */
const TICK_MS = 10
/** Seconds after which tap would end the process: out of the way of the limits. */
const TAP_TIMEOUT_S = '86400'
/** Milliseconds that a test waits for an effect in vain. */
const DEADLINE_MS = '8000'
/**
 * A mutant may write where its source would not, and may do so as root: nothing but memory can be written. Mounts
 * below the root, such as /proc, stay as they are.
 */
const SEALED = `
  for folder in /tmp /run /dev/shm; do mount -t tmpfs tmpfs "$folder" || exit; done
  mount -o remount,bind,ro / && exec "$@"`

export type Ended = Answer | 'timed out' | `ended by itself: ${string}`

export class MutantProcess {
  readonly #child: ChildProcess
  /** Runs that it has answered. */
  runs = 0

  constructor(worker: string) {
    const own = process.getuid?.() === 0 ? [] : ['--map-root-user']
    const command = ['sh', '-c', SEALED, 'sh', process.execPath, worker]
    this.#child = spawn('unshare', [...own, '--mount', '--', ...command], {
      cwd: tmpdir(),
      env: { ...process.env, TEST_DEADLINE_MS: DEADLINE_MS, TAP_TIMEOUT: TAP_TIMEOUT_S },
      stdio: ['ignore', 'ignore', process.env.DEBUG ? 'inherit' : 'ignore', 'ipc'],
    })
  }

  /** @param usual The tests' time without a mutant, in milliseconds; undefined if that is not known. */
  async run(request: Request, usual?: { readonly cpuMs: number; readonly wallMs: number }): Promise<Ended> {
    const child = this.#child
    const over = new AbortController()
    const { signal } = over
    const cpuLimit = usual ? LIMITS.cpuMs + LIMITS.times * usual.cpuMs : Number.POSITIVE_INFINITY
    const wallLimit = Math.min(LIMITS.wallMs + LIMITS.times * (usual?.wallMs ?? Infinity), LIMITS.longestWallMs)
    const began = performance.now()
    const cpuBefore = cpuMs(child.pid)
    const late = new Promise<Ended>(resolve => {
      const timer = setInterval(() => {
        if (performance.now() - began > wallLimit || cpuMs(child.pid) - cpuBefore > cpuLimit) resolve('timed out')
      }, LOOK_MS)
      signal.addEventListener('abort', () => clearInterval(timer))
    })
    const answered = answerOf(child, signal)
    const died = once(child, 'exit', { signal }).then(how => `ended by itself: ${how.join(' ')}` as const)
    if (child.exitCode !== null || child.signalCode !== null) return 'ended by itself: before'
    child.send(request, () => undefined)
    try {
      const ended = await Promise.race([answered, died, late])
      this.runs++
      return ended
    } finally {
      over.abort()
      for (const promise of [answered, died]) promise.catch(() => undefined)
    }
  }

  async end(): Promise<void> {
    const child = this.#child
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

/** tap, too, sends messages to the parent of its process. */
async function answerOf(child: ChildProcess, signal: AbortSignal): Promise<Answer> {
  for (;;) {
    const [message] = (await once(child, 'message', { signal })) as [Partial<Answer>]
    if (message.tests !== undefined) return message as Answer
  }
}

/** The processor time of a process so far; 0 if it is gone. */
function cpuMs(pid: number | undefined): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return TICK_MS * (Number(fields[11]) + Number(fields[12]))
  } catch {
    return 0
  }
}
