/** The product as it ships, the built bundle, run as a process of its own. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { deviceRoot } from '../support/device.ts'

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))
export const BUNDLE = join(REPOSITORY, 'build/out/receiverd.cjs')
const KEY_FILE = 'var/lib/receiverd/api-key'

/** Milliseconds until something that must happen is given up; far more than it takes on a busy machine. */
export const DEADLINE_MS = 15_000
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
  return run(process.execPath, [BUNDLE, ...args], env)
}

export interface ReceiverOptions {
  readonly env?: NodeJS.ProcessEnv
  /** The API key to start with; without it the service makes one. */
  readonly apiKey?: string
  /** The node to run it on. */
  readonly node?: string
}

/** A running `receiverd serve` with a root of its own. */
export class Receiver {
  readonly root: string
  /** The lines of its stderr, those of earlier runs included. */
  readonly log: string[] = []
  readonly #options: ReceiverOptions
  #child: ChildProcess | undefined
  #url = ''

  constructor(root: string, options: ReceiverOptions) {
    this.root = root
    this.#options = options
  }

  get url(): string {
    return this.#url
  }

  get port(): number {
    return Number(new URL(this.#url).port)
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
    const { node = process.execPath, env = {} } = this.#options
    const child = spawn(node, [BUNDLE, 'serve', '--root', this.root, '--listen', listen], {
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

  /** Asks with the API key, unless the headers say otherwise. */
  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { Authorization: `Bearer ${this.key}`, ...init.headers }
    return fetch(`${this.url}/api/v1${path}`, { signal: AbortSignal.timeout(DEADLINE_MS), ...init, headers })
  }

  /** Asks with any other credential. */
  fetchAs(token: string, path = '/system', init: RequestInit = {}): Promise<Response> {
    return this.fetch(path, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } })
  }

  patch(patch: object, headers: Record<string, string> = {}): Promise<Response> {
    return this.fetch('/system', {
      method: 'PATCH',
      body: JSON.stringify(patch),
      headers: { 'Content-Type': 'application/json', ...headers },
    })
  }

  async system(): Promise<{ readonly value: JsonObject; readonly etag: string; readonly id: string }> {
    const response = await this.fetch('/system')
    const etag = response.headers.get('etag') ?? ''
    return { value: (await response.json()) as JsonObject, etag, id: etag.replaceAll('"', '') }
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
