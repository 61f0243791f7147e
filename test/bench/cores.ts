// Processes on their cores, and what /proc says of them.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

export const SERVER_CORE = 0
export const LOAD_CORE = 1
/** Milliseconds until a server that does not answer is given up. */
const START_MS = 10_000
const LOOK_MS = 1

const execute = promisify(execFile)

/** Runs a program to its end on a core, and returns what it printed. */
export async function run(core, argv, env = {}) {
  const [command, ...args] = pinned(core, argv)
  const { stdout } = await execute(command, args, { env: { PATH: process.env.PATH, ...env }, maxBuffer: 1 << 24 })
  return stdout
}

export function has(command) {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** A server under test: a process, and those that it starts. */
export class Server {
  /** Milliseconds from its start to its first answer. */
  startMs = 0
  #child
  #log = ''

  constructor(port, argv, env = {}) {
    this.port = port
    const [command, ...args] = pinned(SERVER_CORE, argv)
    this.#child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env.PATH, ...env } })
    this.#child.stderr.on('data', text => {
      this.#log = (this.#log + text).slice(-4096)
    })
  }

  /** Resolves when it answers, whatever it says. */
  async answers(path) {
    const start = performance.now()
    while (!(await isAnswered(this.port, path))) {
      if (this.#child.exitCode !== null || performance.now() - start > START_MS) {
        this.#child.kill('SIGKILL')
        throw new Error(`${this.#child.spawnargs.join(' ')} does not answer: ${this.#log}`)
      }
      await sleep(LOOK_MS)
    }
    this.startMs = performance.now() - start
    return this
  }

  /** Nanoseconds that all its threads have run. */
  cpuNs() {
    let sum = 0
    for (const pid of this.#pids())
      for (const task of readdirSync(`/proc/${pid}/task`))
        sum += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0])
    return sum
  }

  /** Bytes by a name of proc_pid_status(5): VmRSS, RssAnon. */
  memory(name) {
    let sum = 0
    for (const pid of this.#pids())
      sum +=
        1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
    return sum
  }

  async stop() {
    if (this.#child.exitCode !== null) throw new Error(`${this.#child.spawnargs.join(' ')} has ended: ${this.#log}`)
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    const late = setTimeout(() => this.#child.kill('SIGKILL'), START_MS)
    await exited
    clearTimeout(late)
  }

  #pids() {
    const pids = [this.#child.pid]
    // The list grows while it is walked: children come after their parents.
    for (const pid of pids)
      pids.push(...readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean))
    return pids
  }
}

/** The program of load.c: clients that check every event. */
export class Load {
  #child
  #lines
  #log = ''

  constructor(argv) {
    const [command, ...args] = pinned(LOAD_CORE, argv)
    this.#child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child.stderr.on('data', text => {
      this.#log += text
    })
    this.#child.stdin.on('error', () => undefined)
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  /** Resolves with the answer to a command. @throws {Error} where an event was lost, came twice or out of order. */
  async tell(command) {
    this.#child.stdin.write(`${command}\n`)
    const { value, done } = await this.#lines.next()
    if (!done) return JSON.parse(value)
    if (this.#child.exitCode === null) await once(this.#child, 'exit')
    throw new Error(`load: ${this.#log.trim()}`)
  }

  stop() {
    this.#child.kill('SIGKILL')
  }
}

/** With one core alone, server and load share it. */
function pinned(core, argv) {
  return availableParallelism() > 1 ? ['taskset', '-c', String(core), ...argv] : argv
}

function isAnswered(port, path) {
  return new Promise(resolve => {
    get({ port, path, host: '127.0.0.1', agent: false }, response => {
      response.resume()
      resolve(true)
    }).on('error', () => resolve(false))
  })
}
