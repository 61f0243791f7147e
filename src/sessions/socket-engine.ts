import type { Socket } from 'node:net'
import type { Carrier, Device, EndReason } from '../../hal/engine.ts'
import { lingeringClose } from '../http/lingering-close.ts'
import type { Cancelable, StreamReply } from '../http/reply.ts'
import type { Former } from './session.ts'
import type { Sessions } from './sessions.ts'

const HEADERS = ['Content-Type', 'application/x-ndjson', 'Cache-Control', 'no-store']

/** A line of the response to a request for a session. */
type AnswerLine =
  | { readonly id?: string; readonly state: 'pending' | 'active'; readonly since: string }
  | { readonly state: 'denied' | 'ended'; readonly reason: EndReason }

/**
 * Engines that speak HTTP on a Unix socket. Each request is a session, and its response has a line for each state. Both last
 * as long as the connection.
 */
export class SocketEngine implements Carrier {
  readonly isExclusive = false
  readonly #sessions: Sessions
  readonly #links = new Map<string, SessionStream>()

  constructor(sessions: Sessions) {
    this.#sessions = sessions
  }

  /** Answers a request for a session. @param former The session that continues, if it does. */
  open(device: Device, state: 'pending' | 'active', former: Former = {}): StreamReply {
    return {
      headers: HEADERS,
      preamble: '',
      open: socket => {
        const link = new SessionStream(socket)
        const id = this.#sessions.enter(this, device, state, former)
        if (id === undefined) {
          link.finish({ state: 'denied', reason: 'full' })
          return link
        }
        this.#links.set(id, link)
        link.write({ id, state, since: this.#sessions.get(id).since })
        link.closed.then(() => this.#remove(id, link))
        return link
      },
    }
  }

  async admit(id: string): Promise<void> {
    this.#sessions.move(id, 'active')
    this.#links.get(id)?.write({ state: 'active', since: this.#sessions.get(id).since })
  }

  async end(id: string, reason: EndReason): Promise<void> {
    const link = this.#links.get(id)
    if (!link) return
    if (this.#sessions.get(id).state === 'pending') {
      link.finish({ state: 'denied', reason })
      this.#remove(id, link)
    } else {
      link.write({ state: 'ended', reason })
      // The engine closes the connection once it has stopped showing the device.
      await link.closed
    }
  }

  /** Tells all engines that the service is stopping. They keep showing their devices. */
  close(): void {
    for (const link of this.#links.values()) {
      link.finish({ state: 'ended', reason: 'shutdown' })
      link.destroy()
    }
  }

  /** Removes a session, unless another connection has taken over its id. */
  #remove(id: string, link: SessionStream): void {
    if (this.#links.get(id) !== link) return
    this.#links.delete(id)
    this.#sessions.leave(id)
  }
}

/** The connection of a session. */
class SessionStream implements Cancelable {
  readonly closed: Promise<void>
  cancel: () => void = () => undefined
  readonly #socket: Socket
  #isFinished = false

  constructor(socket: Socket) {
    this.#socket = socket
    this.closed = new Promise(resolve => {
      this.cancel = resolve
    })
  }

  write(line: AnswerLine): void {
    if (!this.#isFinished) this.#socket.write(text(line))
  }

  /** Writes the last line, and closes the connection: an engine that keeps it open must not keep its place. */
  finish(line: AnswerLine): void {
    if (this.#isFinished) return
    this.#isFinished = true
    lingeringClose(this.#socket, Buffer.from(text(line)))
  }

  /** Closes the connection once the kernel has taken its last line. */
  destroy(): void {
    this.#socket.end(() => this.#socket.destroy())
  }
}

function text(line: AnswerLine): string {
  return `${JSON.stringify(line)}\n`
}
