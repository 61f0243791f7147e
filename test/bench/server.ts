import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

/** CLK_TCK is 100 on every architecture that Linux tells programs of, proc(5). */
const TICK_MS = 10

/** A server under test: a process that says on stderr where it listens. */
export class Server {
  readonly #child: ChildProcess
  readonly port: number
  /** From the spawn to the first answer. */
  readonly startMs: number
  /** Bytes of that answer's body. */
  readonly firstBodyLength: number

  private constructor(child: ChildProcess, port: number, startMs: number, firstBodyLength: number) {
    this.#child = child
    this.port = port
    this.startMs = startMs
    this.firstBodyLength = firstBodyLength
  }

  /** Starts it, and sends it a first request. */
  static async start(args: readonly string[], env: NodeJS.ProcessEnv, request: string): Promise<Server> {
    const from = performance.now()
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'pipe'], env })
    const kill = () => child.kill('SIGKILL')
    process.once('exit', kill)
    child.once('exit', () => process.off('exit', kill))
    const said: string[] = []
    const port = await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', () => reject(new Error(`node ${args.join(' ')} ended:\n${said.join('\n')}`)))
      createInterface({ input: child.stderr }).on('line', line => {
        said.push(line)
        const port = /listening on http:\S+:(\d+)$/.exec(line)?.[1]
        if (port !== undefined) resolve(Number(port))
      })
    })
    const socket = connect({ port, host: '127.0.0.1' })
    socket.write(request)
    const [answer] = await once(socket, 'data')
    const startMs = performance.now() - from
    socket.destroy()
    const length = /^HTTP\/1\.1 200 [\s\S]*\r\ncontent-length: (\d+)/i.exec(`${answer}`)?.[1]
    if (length === undefined) throw new Error(`the first answer was ${answer}`)
    return new Server(child, port, startMs, Number(length))
  }

  /** Processor time of all its threads so far; in ticks of 10 ms where the kernel does not say it better. */
  cpuMs(): number {
    const proc = `/proc/${this.#child.pid}`
    try {
      const nanoseconds = readdirSync(`${proc}/task`).map(thread =>
        Number(readFileSync(`${proc}/task/${thread}/schedstat`, 'utf8').split(' ', 1)[0]),
      )
      return nanoseconds.reduce((total, thread) => total + thread, 0) / 1e6
    } catch {
      // Past the name, which is in parentheses and may hold spaces, utime and stime are the 12th and 13th.
      const fields = readFileSync(`${proc}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')
      return (Number(fields[11]) + Number(fields[12])) * TICK_MS
    }
  }

  /** Resident MiB: what it has made itself, and what is mapped from files. */
  memory(): { readonly anon: number; readonly file: number } {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8')
    const mib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024
    return { anon: mib('RssAnon'), file: mib('RssFile') }
  }

  async stop(): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await exited
  }
}
