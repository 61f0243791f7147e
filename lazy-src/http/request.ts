import type { IncomingMessage } from 'node:http'
import type { JsonValue } from '../json.ts'
import { Problem } from '../problem.ts'

/** A request as the handlers see it: routed, its credential checked, its body read where the route takes one. */
export class Request {
  readonly #message: IncomingMessage
  readonly #query: URLSearchParams | undefined
  /** HEAD: answered as GET, with no body and without holding. */
  readonly isHead: boolean
  /** Whom the client's address stands for, as `networkOf` has it. */
  readonly network: string
  /** The body's JSON, on a route that takes one. */
  body: JsonValue | undefined

  constructor(message: IncomingMessage, query: URLSearchParams | undefined, network: string) {
    this.#message = message
    this.#query = query
    this.network = network
    this.isHead = message.method === 'HEAD'
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
}
