/** UxPlay as it can be watched: its sockets, its files and its log, under the root of a device. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { SystemOptions } from '../../../hal/os/system.ts'
import { monotonicMs } from '../../../hal/os/uxplay.ts'

export const CONTROL = 7001
export const VIDEO = 7000
/** The states of a connection, and of a socket that listens, in the kernel's table. */
const ESTABLISHED = '01'
const LISTENING = '0A'
const BOUND = '07'
const MACHINE_ID = '0123456789abcdef0123456789abcdef'
const SHOWN_LINES = /^--lines=(\d+)$/
/** Limit on a field in bytes, from which journalctl(1) prints null. */
const MAX_FIELD_BYTES = 4096

export interface FakeSocket {
  readonly inode: number
  readonly peer: string
  readonly port?: number
  /** Unread bytes. */
  readonly waiting?: number
}

interface Line {
  readonly text: string
  /** Milliseconds of the monotonic clock. */
  readonly at: number
  readonly cursor: string
}

export class FakeUxPlay {
  /** Milliseconds by which its clock, and that of its engine, is ahead. */
  ahead = 0
  /** How often it was started. */
  starts = 0
  /** The options that it runs with. */
  options = ''
  /** Processes that have read its log. */
  reads = 0
  /** Connections that it has not accepted. */
  backlog = 0
  /** Whether devices can connect to it. */
  isListening = true
  /** Whether the journal can be read. */
  isReadable = true
  /** Called when it is restarted, before it stops. */
  restarting: () => void = () => undefined
  /** As `systemctl show` prints it. */
  state = 'active'
  /** Whether systemd is about to start it, but waits for another unit. */
  hasJob = false
  readonly #root: string
  #lines: Line[] = []
  #printed = 0
  #sockets: readonly FakeSocket[] = []

  constructor(root: string, options: string) {
    this.#root = root
    for (const folder of ['var/log/journal', 'run/uxplay', 'proc/net'])
      mkdirSync(join(root, folder), { recursive: true })
    this.#write('etc/machine-id', MACHINE_ID)
    this.configure(options)
    this.start()
  }

  readonly now = (): number => monotonicMs() + this.ahead

  /** Options for a `System` on which it runs. */
  get systemOptions(): SystemOptions {
    return {
      running: true,
      run: async ([, verb, ...more]) => {
        if (verb === 'show' && more.includes('--value')) return `${this.state}\nrunning\n`
        if (verb === 'show') return `ActiveState=${this.state}\nJob=${this.hasJob ? 7 : ''}\nInvocationID=1\n`
        if (verb?.endsWith('restart')) {
          this.restarting()
          this.stop()
          this.start()
        }
        return ''
      },
      readLines: async (argv, take) => {
        this.reads++
        if (!this.isReadable) throw new Error('No space left on device')
        const [, count] = argv.map(word => SHOWN_LINES.exec(word)).find(Boolean) ?? []
        for (const { text, at, cursor } of this.#lines.slice(-Number(count)).reverse()) {
          const record = {
            MESSAGE: Buffer.byteLength(text) < MAX_FIELD_BYTES ? text : null,
            __CURSOR: cursor,
            __MONOTONIC_TIMESTAMP: `${at * 1000}`,
            __REALTIME_TIMESTAMP: '1700000000000000',
          }
          if (!take(JSON.stringify(record))) return
        }
      },
    }
  }

  /** Writes its startup file. */
  configure(options: string): void {
    this.#write('etc/uxplayrc', options)
  }

  start(): void {
    const rc = `${this.#read('etc/uxplayrc')}\n`
    this.options = `${rc}${this.#read('run/receiverd/uxplay-allowed')}# ${this.#read('proc/sys/kernel/hostname')}`
    this.starts++
    // It takes a second to start.
    this.#lines = [{ text: 'Initialized server socket(s)', at: this.now() - 1_000, cursor: `c${this.#printed++}` }]
    this.state = 'active'
    this.connect()
    this.#write('run/uxplay/startup', `${sha256(rc)}  rc\n${sha256(this.options)}  options\n`)
  }

  /** Whatever was connected is out. */
  stop(): void {
    this.state = 'inactive'
    this.#lines = []
    this.backlog = 0
    this.isListening = true
    this.connect()
    this.play(false)
    this.file(false)
    rmSync(join(this.#root, 'run/uxplay/startup'), { force: true })
  }

  print(...texts: readonly string[]): void {
    for (const text of texts) this.#lines.push({ text, at: this.now(), cursor: `c${this.#printed++}` })
    this.#write(`var/log/journal/${MACHINE_ID}/system.journal`, '')
  }

  /** From now on, these are its connections. @param rest Other rows of the kernel's table. */
  connect(sockets: readonly FakeSocket[] = [], rest = ''): void {
    this.#sockets = sockets
    const listener = { inode: 1, peer: '0.0.0.0', waiting: this.backlog }
    const rows = [
      ...(this.isListening ? [rowOf(listener, LISTENING)] : []),
      ...sockets.map(socket => rowOf(socket, ESTABLISHED)),
    ]
    this.#write('proc/net/tcp', rows.join('') + rest)
    this.#write('proc/net/tcp6', '')
  }

  /** Adds connections. */
  accept(...sockets: readonly FakeSocket[]): void {
    this.connect([...this.#sockets, ...sockets])
  }

  /** Plays the sound of a device. */
  play(isPlaying: boolean): void {
    this.#write('proc/net/udp', isPlaying ? rowOf({ inode: 2, peer: '0.0.0.0' }, BOUND) : '')
  }

  /** Makes or removes the file of the connected device. */
  file(isThere: boolean): void {
    if (isThere) this.#write('run/uxplay/device', 'x')
    else rmSync(join(this.#root, 'run/uxplay/device'), { force: true })
  }

  #read(path: string): string {
    try {
      return readFileSync(join(this.#root, path), 'utf8')
    } catch {
      return ''
    }
  }

  #write(path: string, text: string): void {
    mkdirSync(dirname(join(this.#root, path)), { recursive: true })
    writeFileSync(join(this.#root, path), text)
  }
}

/** A row of the kernel's table of sockets. */
function rowOf({ port = CONTROL, peer, waiting = 0, inode }: FakeSocket, state: string): string {
  const hex = (text: string) => text.toUpperCase().padStart(8, '0')
  const address = hex(Buffer.from(peer.split('.').map(Number)).reverse().toString('hex'))
  const local = `00000000:${port.toString(16).toUpperCase()}`
  return ` 0: ${local} ${address}:C000 ${state} 00000000:${hex(waiting.toString(16))} 00:00000000 00000000 0 0 ${inode} 1\n`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
