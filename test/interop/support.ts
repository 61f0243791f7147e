/** The product as it ships, the built bundle, run as a process of its own. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { Api, DEADLINE_MS } from '../support/api.ts'
import { deviceRoot } from '../support/device.ts'

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))
export const BUNDLE = join(REPOSITORY, 'build/out/receiverd.cjs')
const KEY_FILE = 'var/lib/receiverd/api-key'

export { DEADLINE_MS }

/** The Node that runs the bundle, with what stands before it: `make arm-test` has that of another machine. */
const NODE = process.env.NODE_UNDER_TEST?.split(' ') ?? [process.execPath]

/** Milliseconds from SIGTERM to exit that the service promises. */
const STOP_MS = 5_000
const LOOK_MS = 10

if (!existsSync(BUNDLE)) throw new Error('there is no build/out/receiverd.cjs: run make build first')

/** Waits until `look` returns something, and returns that. `what` is what was waited for in vain. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  withinMs = DEADLINE_MS,
): Promise<T> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`waited ${withinMs} ms in vain: ${what}`)
    await sleep(LOOK_MS)
  }
}

export interface Output {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end. */
export function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Output> {
  return new Promise((resolve, reject) => {
    const options = { env: { PATH: process.env.PATH, ...env }, timeout: DEADLINE_MS, maxBuffer: 1024 * 1024 }
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      if (error && typeof error.code === 'string') reject(error)
      else if (child.exitCode === null) reject(new Error(`${program} ended by ${child.signalCode}: ${stderr}`))
      else resolve({ status: child.exitCode, stdout, stderr })
    })
  })
}

/** Runs the bundle's command line to its end. */
export function receiverd(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Output> {
  const [program = '', ...before] = NODE
  return run(program, [...before, BUNDLE, ...args], env)
}

export interface ReceiverOptions {
  readonly env?: NodeJS.ProcessEnv
  /** The API key to start with; without it the service makes one. */
  readonly apiKey?: string
  /** The node to run it on. */
  readonly node?: string
}

/** A running `receiverd serve` with a root of its own. */
export class Receiver extends Api {
  readonly root: string
  /** The lines of its stderr, those of earlier runs included. */
  readonly log: string[] = []
  readonly #options: ReceiverOptions
  #child: ChildProcess | undefined
  #url = ''

  constructor(root: string, options: ReceiverOptions) {
    super()
    this.root = root
    this.#options = options
  }

  get url(): string {
    return this.#url
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** The API key in its file. */
  get key(): string {
    return readFileSync(this.path(KEY_FILE), 'utf8').trim()
  }

  path(name: string): string {
    return join(this.root, name)
  }

  async start(listen = '127.0.0.1:0'): Promise<void> {
    const { node, env = {} } = this.#options
    const [program = '', ...before] = node === undefined ? NODE : [node]
    const child = spawn(program, [...before, BUNDLE, 'serve', '--root', this.root, '--listen', listen], {
      stdio: ['ignore', 'inherit', 'pipe'],
      env: { PATH: process.env.PATH, ...env },
    })
    this.#child = child
    this.#url = ''
    createInterface({ input: child.stderr }).on('line', line => {
      this.log.push(line)
      const url = /^<6>receiverd \S+ listening on (http:\S+)$/.exec(line)?.[1]
      if (url) this.#url = url
    })
    await until(`the service is up: ${this.log.join('\n')}`, () => {
      if (child.exitCode !== null) throw new Error(`receiverd exited with ${child.exitCode}: ${this.log.join('\n')}`)
      return this.#url !== ''
    })
  }

  /** Ends it by SIGTERM, within the time that it promises, and returns its exit status. */
  async stop(): Promise<number | null> {
    const child = this.#child
    if (!child) throw new Error('it does not run')
    this.#child = undefined
    if (child.exitCode !== null) return child.exitCode
    const exited = once(child, 'exit', { signal: AbortSignal.timeout(STOP_MS) })
    child.kill('SIGTERM')
    const [status] = await exited
    return status as number | null
  }

  /** Ends it, and starts it on the same port and root. */
  async restart(whileStopped: () => void = () => undefined): Promise<void> {
    const { host } = new URL(this.#url)
    const status = await this.stop()
    if (status !== 0) throw new Error(`receiverd exited with ${status}`)
    whileStopped()
    await this.start(host)
  }

  kill(): void {
    this.#child?.kill('SIGKILL')
  }
}

/** Starts a service of the test's own. It is gone after the test, and must have lived until then. */
export async function startReceiver(t: Test, options: ReceiverOptions = {}): Promise<Receiver> {
  const receiver = new Receiver(deviceRoot(t), options)
  if (options.apiKey !== undefined) {
    mkdirSync(dirname(receiver.path(KEY_FILE)), { recursive: true })
    writeFileSync(receiver.path(KEY_FILE), `${options.apiKey}\n`, { mode: 0o600 })
  }
  t.teardown(() => receiver.kill())
  await receiver.start()
  return receiver
}
