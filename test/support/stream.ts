import { connect, type Socket } from 'node:net'
import type { JsonObject } from '../../src/json.ts'
import { DEADLINE_MS } from './eventually.ts'

/** Milliseconds after which a test no longer waits for an event. */
const EVENT_MS = 4 * DEADLINE_MS

/** A block of an event stream, raw and parsed. */
export interface Block {
  readonly raw: string
  readonly id: string | undefined
  readonly event: string | undefined
  readonly data: JsonObject | undefined
  readonly comment: string | undefined
}

/** A raw HTTP connection to an event stream, so that every byte can be checked. */
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

  /** The next block; undefined when the stream has ended. */
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

  /** The next block that is an event; undefined when the stream has ended. The stream is closed if no event comes for long. */
  async event(): Promise<Block | undefined> {
    const deadline = setTimeout(() => this.close(), EVENT_MS)
    try {
      for (;;) {
        const block = await this.block()
        if (!block || block.event !== undefined) return block
      }
    } finally {
      clearTimeout(deadline)
    }
  }

  /** The next event that matches; skips the ones before it. @throws if the stream ends without it. */
  async eventWhere(isIt: (data: JsonObject, id: string | undefined) => boolean): Promise<Block> {
    for (;;) {
      const event = await this.event()
      if (!event) throw new Error(`the stream ended without the event: ${isIt}`)
      if (isIt(event.data ?? {}, event.id)) return event
    }
  }

  close(): void {
    this.socket.destroy()
  }
}

/** Opens a stream on a port, on the loopback unless `host` says otherwise. */
export function openStream(
  port: number,
  path: string,
  headers: Record<string, string>,
  host = '127.0.0.1',
): Promise<TestStream> {
  return new Promise((resolve, reject) => {
    const lines = Object.entries({
      Host: 'device',
      Accept: 'text/event-stream',
      ...headers,
    }).map(([name, value]) => `${name}: ${value}\r\n`)
    const socket = connect(port, host, () => socket.write(`GET /api/v1${path} HTTP/1.1\r\n${lines.join('')}\r\n`))
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
