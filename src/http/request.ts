import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { JsonValue } from '../json.ts'
import { Problem } from '../problem.ts'

/** A request as the handlers see it: routed, its credential checked, its body read where the route takes one. */
export class Request {
  readonly #message: IncomingMessage
  readonly #query: URLSearchParams | undefined
  /** HEAD: answered as GET, with no body and without holding. */
  readonly isHead: boolean
  /** The body's JSON, on a route that takes one. */
  body: JsonValue | undefined

  constructor(message: IncomingMessage, query: URLSearchParams | undefined) {
    this.#message = message
    this.#query = query
    this.isHead = message.method === 'HEAD'
  }

  get address(): string {
    return remoteAddress(this.#message.socket)
  }

  /** A header by its lower-case name; repeated ones joined or dropped as node:http has it. */
  header(name: string): string | undefined {
    const value = this.#message.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  /** @throws {Problem} 400 where it stands more than once: two readers could take two values. */
  queryParameter(name: string): string | undefined {
    const [value, ...more] = this.#query?.getAll(name) ?? []
    if (more.length > 0) throw new Problem('bad-request', `${name} stands more than once in the query; send it once.`)
    return value
  }

  /** Calls `gone` when the connection ends. The returned function takes that back: the connection may serve others. */
  onGone(gone: () => void): () => void {
    const { socket } = this.#message
    // Node warns of the eleventh listener; here each stands for a request, and MAX_PIPELINED bounds them.
    socket.setMaxListeners(0).once('close', gone)
    return () => socket.removeListener('close', gone)
  }
}

/** A client's address; one name for all that come through a local socket. */
export function remoteAddress(socket: Socket): string {
  return socket.remoteAddress ?? 'local'
}
