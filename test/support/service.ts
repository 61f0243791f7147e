import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import { System, type SystemOptions } from '../../hal/system.ts'
import { mint } from '../../src/auth/jwt.ts'
import { type Clock, systemClock } from '../../src/clock.ts'
import { type Environment, readConfig } from '../../src/config.ts'
import type { JsonObject } from '../../src/json.ts'
import { type Service, startService } from '../../src/service.ts'
import { deviceRoot } from './device.ts'

export interface ServiceOptions extends SystemOptions {
  /** Settings, as the process would find them in its environment. */
  readonly env?: Environment
  readonly root?: string
  readonly clock?: Clock
  readonly builtAt?: number
}

/** A running service on real files and a real port. */
export class TestService {
  readonly root: string
  readonly log: readonly string[]
  readonly #service: Service
  readonly #startLines: number

  constructor(root: string, log: readonly string[], service: Service) {
    this.root = root
    this.log = log
    this.#startLines = log.length
    this.#service = service
  }

  /** The lines of the log since the start. */
  get said(): readonly string[] {
    return this.log.slice(this.#startLines)
  }

  get url(): string {
    return this.#service.address
  }

  get port(): number {
    return Number(new URL(this.url).port)
  }

  /** The API key, from its file. */
  get key(): string {
    return readFileSync(join(this.root, 'var/lib/receiverd/api-key'), 'utf8').trim()
  }

  /** A token of the present key. */
  token(roles: unknown, claims: object = {}): string {
    return mint(this.key, { roles, ...claims })
  }

  /** Asks with the API key, unless the headers say otherwise. */
  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.url}/api/v1${path}`, {
      ...init,
      headers: { Authorization: `Bearer ${this.key}`, ...init.headers },
    })
  }

  patch(patch: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const body = typeof patch === 'string' ? patch : JSON.stringify(patch)
    return this.fetch('/system', {
      method: 'PATCH',
      body,
      headers: { 'Content-Type': 'application/json', ...headers },
    })
  }

  async system(): Promise<{ readonly value: JsonObject; readonly id: string }> {
    const response = await this.fetch('/system')
    return { value: (await response.json()) as JsonObject, id: idOf(response) }
  }

  stream(path = '/events', headers: Record<string, string> = {}): Promise<TestStream> {
    return openStream(this.port, path, {
      Authorization: `Bearer ${this.key}`,
      ...headers,
    })
  }

  /** Sends bytes as they are; resolves with all that came back when the connection ended. */
  raw(bytes: string | Buffer): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect(this.port, '127.0.0.1', () => socket.write(bytes))
      let answer = ''
      socket.setEncoding('utf8').on('data', chunk => {
        answer += chunk
      })
      socket.on('close', () => resolve(answer))
      socket.on('error', reject)
    })
  }

  path(name: string): string {
    return join(this.root, name)
  }

  close(): Promise<void> {
    return this.#service.close()
  }
}

/** Starts a service of the test's own; it and its device are gone after the test. */
export async function startTestService(t: Test, options: ServiceOptions = {}): Promise<TestService> {
  const root = options.root ?? deviceRoot(t)
  const log: string[] = []
  const service = await startService(readConfig({ root, listen: '127.0.0.1:0' }, options.env ?? {}, 0), {
    system: new System(root, options),
    clock: options.clock ?? systemClock,
    log: (level, message) => log.push(`${level}: ${message}`),
    random: () => 0,
    newId: randomUUID,
    version: '0.0.0',
    builtAt: options.builtAt ?? 0,
  })
  t.teardown(() => service.close())
  return new TestService(root, log, service)
}

/** The id in an answer's ETag. */
export function idOf(response: Response): string {
  return /^"([^"]+)"$/.exec(response.headers.get('etag') ?? '')?.[1] ?? ''
}

/** One SSE block as it came, and what it says. */
export interface Block {
  readonly raw: string
  readonly id: string | undefined
  readonly event: string | undefined
  readonly data: JsonObject | undefined
  readonly comment: string | undefined
}

/** A raw HTTP connection to an event stream, so that every byte of it can be looked at. */
export class TestStream {
  readonly socket: Socket
  readonly head: string
  readonly ended: Promise<void>
  #text: string
  #wake: () => void = () => undefined
  #isOver = false

  constructor(socket: Socket, head: string, rest: string) {
    this.socket = socket
    this.head = head
    this.#text = rest
    socket.on('data', chunk => {
      this.#text += chunk
      this.#wake()
    })
    socket.on('error', () => undefined)
    this.ended = new Promise(resolve =>
      socket.once('close', () => {
        this.#isOver = true
        this.#wake()
        resolve()
      }),
    )
  }

  get status(): number {
    return Number(this.head.split(' ')[1])
  }

  /** The next block; undefined when the stream is over. */
  async block(): Promise<Block | undefined> {
    for (;;) {
      const end = this.#text.indexOf('\n\n')
      if (end >= 0) {
        const raw = this.#text.slice(0, end + 2)
        this.#text = this.#text.slice(end + 2)
        return parseBlock(raw)
      }
      if (this.#isOver) return undefined
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  /** The next block that is an event; undefined when the stream is over. */
  async event(): Promise<Block | undefined> {
    for (;;) {
      const block = await this.block()
      if (!block || block.event !== undefined) return block
    }
  }

  close(): void {
    this.socket.destroy()
  }
}

function openStream(port: number, path: string, headers: Record<string, string>): Promise<TestStream> {
  return new Promise((resolve, reject) => {
    const lines = Object.entries({
      Host: 'device',
      Accept: 'text/event-stream',
      ...headers,
    }).map(([name, value]) => `${name}: ${value}\r\n`)
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(`GET /api/v1${path} HTTP/1.1\r\n${lines.join('')}\r\n`),
    )
    let text = ''
    socket.setEncoding('utf8').on('error', reject)
    const listen = (chunk: string) => {
      text += chunk
      const end = text.indexOf('\r\n\r\n')
      if (end < 0) return
      socket.removeListener('data', listen)
      resolve(new TestStream(socket, text.slice(0, end), text.slice(end + 4)))
    }
    socket.on('data', listen)
  })
}

function parseBlock(raw: string): Block {
  const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, 'm').exec(raw)?.[1]
  const data = field('data')
  return {
    raw,
    id: field('id'),
    event: field('event'),
    data: data === undefined ? undefined : (JSON.parse(data) as JsonObject),
    comment: /^:(.*)$/m.exec(raw)?.[1]?.trim(),
  }
}
