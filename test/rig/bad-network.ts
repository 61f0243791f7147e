import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { Api } from '../support/api.ts'
import { SEED } from '../support/random.ts'
import { firstLine } from './first-line.ts'
import type { Rig } from './rig.ts'

const PROGRAM = fileURLToPath(new URL('bad-network.py', import.meta.url))
const READY_MS = 30_000
const run = promisify(execFile)

/** Each way. */
export interface Conditions {
  /** Of all packets, 0 to 1. */
  readonly loss?: number
  readonly delayMs?: number
  /** Up to so much later than that, so that packets overtake each other. */
  readonly jitterMs?: number
  /** No packet arrives, and nobody is told. */
  readonly swallows?: boolean
}

/** A machine as it is seen by clients beyond a bad network. */
export class BadNetwork extends Api {
  readonly #rig: Rig
  readonly #program: ChildProcess
  /** Of the host's end. */
  readonly #name: string
  /** Its number on this host. */
  readonly #number: string
  #end = 2

  private constructor(rig: Rig, program: ChildProcess, name: string) {
    super()
    this.#rig = rig
    this.#program = program
    this.#name = name
    this.#number = numberOf(rig)
  }

  static async between(t: Test, rig: Rig): Promise<BadNetwork> {
    const number = numberOf(rig)
    const [here, there] = [`bad${number}`, `far${number}`]
    const program = spawn('python3', [PROGRAM, here, there, `${rig.pid}`, `${SEED}`], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const ended = once(program, 'exit')
    t.teardown(async () => {
      program.stdin?.end()
      await ended
    })
    await firstLine(program, READY_MS)
    const network = new BadNetwork(rig, program, here)
    const host = (...argv: readonly string[]) => run('ip', argv)
    const machine = (...argv: readonly string[]) => rig.run(['ip', ...argv])
    for (const [ip, name, end] of [
      [host, here, 1],
      [machine, there, 2],
    ] as const) {
      // An address at once: the search for duplicates would delay IPv6 by a second, or more where packets are lost.
      await ip('address', 'add', `198.19.${number}.${end}/24`, 'dev', name)
      await ip('address', 'add', `fd19:${number}::${end}/64`, 'dev', name, 'nodad')
      await ip('link', 'set', name, 'up')
    }
    return network
  }

  get address(): string {
    return `198.19.${this.#number}.${this.#end}`
  }

  get address6(): string {
    return `fd19:${this.#number}::2`
  }

  get url(): string {
    return `http://${this.address}:8080`
  }

  get key(): string {
    return this.#rig.key
  }

  /** The conditions from now on; unnamed ones are good. */
  become({ loss = 0, delayMs = 0, jitterMs = 0, swallows = false }: Conditions): void {
    this.#program.stdin?.write(`${JSON.stringify({ loss, delayMs, jitterMs, swallows })}\n`)
  }

  /** Bytes that a packet may have. */
  async setMtu(bytes: number): Promise<void> {
    await run('ip', ['link', 'set', this.#name, 'mtu', `${bytes}`])
    await this.#machine('link', 'set', this.#far, 'mtu', `${bytes}`)
  }

  /** Gives the machine another address in place of the one that it has, if it has one. */
  async move(): Promise<void> {
    await this.dropAddress().catch(() => undefined)
    this.#end++
    await this.#machine('address', 'add', `${this.address}/24`, 'dev', this.#far)
  }

  /** Leaves it its IPv6 address alone. */
  async dropAddress(): Promise<void> {
    await this.#machine('address', 'delete', `${this.address}/24`, 'dev', this.#far)
  }

  get #far(): string {
    return `far${this.#number}`
  }

  #machine(...argv: readonly string[]): Promise<string> {
    return this.#rig.run(['ip', ...argv])
  }
}

function numberOf(rig: Rig): string {
  return rig.address.split('.')[2] ?? ''
}
