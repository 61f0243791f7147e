import { EventEmitter } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Challenge, digestHeader, parseChallenge } from './digest.ts'

export interface RtspAnswer {
  readonly status: number
  readonly reason: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface RtspOptions {
  readonly host: string
  readonly port: number
  /** Local address to connect from. */
  readonly localAddress?: string | undefined
  /** For HTTP digest authentication. */
  readonly password?: string | undefined
  /** Whether to say that it can be remotely controlled. Default: true. */
  readonly hasRemote?: boolean
  /** Milliseconds to wait for an answer. */
  readonly timeoutMs: number
}

export const PLIST = 'application/x-apple-binary-plist'
export const OCTETS = 'application/octet-stream'
const HEAD_END = '\r\n\r\n'

/** Sent by iOS 17 with each request. DACP is for remote controls; its values are arbitrary. */
const HEADERS = ['User-Agent: AirPlay/695.12', 'DACP-ID: 0102030405060708']
const REMOTE = 'Active-Remote: 1234567890'

interface Waiting {
  resolve(answer: RtspAnswer): void
  reject(error: Error): void
}

/**
 * The control connection: requests in the syntax of HTTP/1.1, but with RTSP/1.0 and a sequence number, one at a time.
 * Emits `closed` once, with the reason, whichever side closed it.
 */
export class RtspConnection extends EventEmitter<{ closed: [reason: string] }> {
  readonly #options: RtspOptions
  readonly #socket: Socket
  #received: Buffer = Buffer.alloc(0)
  #waiting: Waiting | undefined
  #sequence = 0
  #challenge: Challenge | undefined
  #closed: string | undefined
  /** Resolves when the last request has been answered. */
  #turn: Promise<unknown> = Promise.resolve()

  private constructor(socket: Socket, options: RtspOptions) {
    super()
    this.#socket = socket
    this.#options = options
    socket.on('data', chunk => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.#answer()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => this.#close(error.code ?? error.message))
    socket.on('end', () => this.#close('FIN'))
    socket.on('close', () => this.#close('closed'))
  }

  static open(options: RtspOptions): Promise<RtspConnection> {
    return new Promise((resolve, reject) => {
      const { host, port, localAddress, timeoutMs } = options
      const socket = connect({ host, port, ...(localAddress === undefined ? {} : { localAddress }) })
      const timer = setTimeout(() => socket.destroy(new Error(`no connection to ${host}:${port}`)), timeoutMs)
      socket.once('error', reject)
      socket.once('connect', () => {
        clearTimeout(timer)
        socket.removeListener('error', reject)
        resolve(new RtspConnection(socket, options))
      })
    })
  }

  /** Local address and port. */
  get local(): string {
    return `${this.#socket.localAddress}:${this.#socket.localPort}`
  }

  /** The reason, once it is closed. */
  get closed(): string | undefined {
    return this.#closed
  }

  /** Sends a request after all earlier ones have been answered. @throws if the connection closes, or on timeout. */
  request(method: string, url: string, body: Buffer = Buffer.alloc(0), type = PLIST): Promise<RtspAnswer> {
    const answer = this.#turn.then(() => this.#ask(method, url, body, type))
    this.#turn = answer.catch(() => undefined)
    return answer
  }

  end(): void {
    this.#socket.end()
  }

  /** Closes both directions at once. */
  destroy(): void {
    this.#socket.destroy()
  }

  reset(): void {
    this.#socket.resetAndDestroy()
  }

  async #ask(method: string, url: string, body: Buffer, type: string): Promise<RtspAnswer> {
    const answer = await this.#send(method, url, body, type)
    const { password } = this.#options
    if (answer.status !== 401 || password === undefined || this.#challenge) return answer
    this.#challenge = parseChallenge(answer.headers['www-authenticate'] ?? '')
    return this.#send(method, url, body, type)
  }

  #send(method: string, url: string, body: Buffer, type: string): Promise<RtspAnswer> {
    const lines = [`${method} ${url} RTSP/1.0`, `CSeq: ${this.#sequence++}`, ...HEADERS]
    if (this.#options.hasRemote ?? true) lines.push(REMOTE)
    if (this.#challenge) lines.push(digestHeader(this.#challenge, this.#options.password ?? '', method, url))
    if (body.length > 0) lines.push(`Content-Type: ${type}`, `Content-Length: ${body.length}`)
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) return reject(new Error(this.#closed))
      const timer = setTimeout(
        () => this.#waiting?.reject(new Error(`no answer to ${method} ${url}`)),
        this.#options.timeoutMs,
      )
      const settled = () => {
        clearTimeout(timer)
        this.#waiting = undefined
      }
      this.#waiting = {
        resolve: answer => {
          settled()
          resolve(answer)
        },
        reject: error => {
          settled()
          reject(error)
        },
      }
      this.#socket.write(Buffer.concat([Buffer.from(lines.join('\r\n') + HEAD_END), body]))
    })
  }

  /** Delivers the answer once it is complete. */
  #answer(): void {
    const headEnd = this.#received.indexOf(HEAD_END)
    if (headEnd < 0) return
    const [status = '', ...lines] = this.#received.toString('latin1', 0, headEnd).split('\r\n')
    const headers = Object.fromEntries(
      lines.map(line => {
        const [name = '', ...value] = line.split(':')
        return [name.toLowerCase(), value.join(':').trim()]
      }),
    )
    const start = headEnd + HEAD_END.length
    const end = start + Number(headers['content-length'] ?? 0)
    if (this.#received.length < end) return
    const body = Buffer.from(this.#received.subarray(start, end))
    this.#received = this.#received.subarray(end)
    const [, code, reason = ''] = /^\S+ (\d+) ?(.*)$/.exec(status) ?? []
    this.#waiting?.resolve({ status: Number(code), reason, headers, body })
  }

  #close(reason: string): void {
    if (this.#closed !== undefined) return
    this.#closed = reason
    this.#waiting?.reject(new Error(reason))
    this.emit('closed', reason)
  }
}
