/** The product as it ships, the bundle, run as a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { currentBundle } from '../../build/bundle-file.ts'
import { Api } from '../support/api.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { type Output, run } from '../support/run.ts'

export const BUNDLE = currentBundle()
const KEY_FILE = 'var/lib/receiverd/api-key'

/** The Node that runs the bundle, preceded by its emulator in `make arm-test`. */
const NODE = process.env.NODE_UNDER_TEST?.split(' ') ?? [process.execPath]

/** Milliseconds from SIGTERM to exit that the service promises. */
const STOP_MS = 5_000

/** Runs the bundle's command line to its end. */
export function receiverd(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Output> {
  const [program = '', ...before] = NODE
  return run(program, [...before, BUNDLE, ...args], env)
}

export interface ReceiverOptions {
  readonly env?: NodeJS.ProcessEnv
  /** The API key to start with; by default the service makes one. */
  readonly apiKey?: string
  /** The Node to run it on. */
  readonly node?: string
}

/** A running `receiverd serve` with a root of its own. */
export class Receiver extends Api {
  readonly root: string
  /** The lines of its stderr, including those of earlier runs. */
  readonly log: string[] = []
  readonly #options: ReceiverOptions
  #child: ChildProcess | undefined
  #url = ''

  constructor(root: string, options: ReceiverOptions = {}) {
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
    await eventually(() => child.exitCode !== null || this.#url !== '').catch(() => undefined)
    if (this.#url === '') throw new Error(`receiverd did not start (exit ${child.exitCode}): ${this.log.join('\n')}`)
  }

  /** Stops it with SIGTERM, within the time that it promises, and returns its exit status. */
  async stop(): Promise<number | null> {
    const child = this.#child
    if (!child) throw new Error('it is not running')
    this.#child = undefined
    if (child.exitCode !== null) return child.exitCode
    const exited = once(child, 'exit', { signal: AbortSignal.timeout(STOP_MS) })
    child.kill('SIGTERM')
    const [status] = await exited
    return status as number | null
  }

  /** Stops it, and starts it on the same port and root. */
  async restart(whileStopped: () => void = () => undefined): Promise<void> {
    const { host } = new URL(this.#url)
    const status = await this.stop()
    if (status !== 0) throw new Error(`receiverd exited with ${status}`)
    whileStopped()
    await this.start(host)
  }

  /** Kills it, and waits until it is gone. */
  async kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  /** Closes our end of its stderr. */
  closeLog(): void {
    this.#child?.stderr?.destroy()
  }
}

/** Starts a service of the test's own, which is killed after the test. */
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
