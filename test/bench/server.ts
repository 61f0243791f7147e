import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { killAtExit } from './lifetime.ts'
import { cpuNs, familyOf, memoryBytes } from './proc.ts'

export interface Launch {
  readonly argv: readonly string[]
  /** The whole environment, except for PATH. */
  readonly env?: NodeJS.ProcessEnv
  /** The first request, sent as soon as the server listens. */
  readonly request: string
  /** Where it will listen. By default it writes `listening on http://HOST:PORT` to stderr. */
  readonly port?: number
}

const START_MS = 60_000
const STOP_MS = 10_000
const RETRY_MS = 1
const MAX_LOG = 4096

/** A server under test: a process, and its children. */
export class Server {
  readonly port: number
  /** Milliseconds from the spawn to the first bytes of an answer. */
  readonly startMs: number
  /** Those bytes, as latin1. */
  readonly firstAnswer: string
  readonly #process: Running

  private constructor(running: Running, port: number, startMs: number, firstAnswer: string) {
    this.#process = running
    this.port = port
    this.startMs = startMs
    this.firstAnswer = firstAnswer
  }

  /** @throws {Error} with the end of its stderr if it ends, or does not answer. */
  static async start({ argv, env = {}, request, port }: Launch): Promise<Server> {
    const from = performance.now()
    const running = new Running(argv, env)
    try {
      const at = port ?? (await running.listening)
      const answer = await running.firstAnswer(at, request)
      return new Server(running, at, performance.now() - from, answer)
    } catch (error) {
      running.child.kill('SIGKILL')
      throw error
    }
  }

  /** Nanoseconds of processor time so far. */
  cpuNs(): number {
    return this.#sum(cpuNs)
  }

  /** Bytes, by a name of proc_pid_status(5). */
  memory(name: Parameters<typeof memoryBytes>[1]): number {
    return this.#sum(pid => memoryBytes(pid, name))
  }

  /** @throws {Error} if it has ended before. */
  async stop(): Promise<void> {
    const { child } = this.#process
    if (!this.#process.lives) throw this.#process.failure('has ended')
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await exited
    clearTimeout(late)
  }

  #sum(read: (pid: number) => number): number {
    const { pid = 0 } = this.#process.child
    return familyOf(pid).reduce((sum, member) => sum + read(member), 0)
  }
}

/** The process, before it is known to serve. */
class Running {
  readonly child: ChildProcess
  /** The port that it says it listens on. */
  readonly listening: Promise<number>
  readonly #argv: readonly string[]
  #log = ''

  constructor(argv: readonly string[], env: NodeJS.ProcessEnv) {
    this.#argv = argv
    const [command = '', ...args] = argv
    const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env.PATH, ...env } })
    this.child = child
    killAtExit(child)
    child.once('error', error => this.#note(error.message))
    this.listening = new Promise((resolve, reject) => {
      const lines = createInterface({ input: child.stderr })
      lines.on('line', line => {
        this.#note(line)
        const port = /listening on http:\S+:(\d+)$/.exec(line)?.[1]
        if (port !== undefined) resolve(Number(port))
      })
      lines.once('close', () => reject(this.failure('did not say where it listens')))
    })
    // Nobody waits for it if the port was given.
    this.listening.catch(() => undefined)
  }

  get lives(): boolean {
    return this.child.pid !== undefined && this.child.exitCode === null && this.child.signalCode === null
  }

  failure(what: string): Error {
    return new Error(`${this.#argv.join(' ')} ${what}: ${this.#log}`)
  }

  /** Retries until something listens on the port. */
  async firstAnswer(port: number, request: string): Promise<string> {
    const deadline = performance.now() + START_MS
    while (this.lives && performance.now() < deadline) {
      const answer = await ask(port, request)
      if (answer !== undefined) return answer
      await sleep(RETRY_MS)
    }
    throw this.failure('does not answer')
  }

  #note(line: string): void {
    this.#log = `${this.#log}${line}\n`.slice(-MAX_LOG)
  }
}

/** The first bytes of an answer; undefined if the connection ends without. */
function ask(port: number, request: string): Promise<string | undefined> {
  const socket = connect({ port, host: '127.0.0.1' })
  return new Promise<string | undefined>(resolve => {
    socket.once('data', answer => resolve(answer.toString('latin1')))
    socket.once('close', () => resolve(undefined))
    socket.once('error', () => resolve(undefined))
    socket.write(request)
  }).finally(() => socket.destroy())
}
