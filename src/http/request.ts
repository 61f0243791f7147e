import type { IncomingMessage } from 'node:http'
import type { JsonValue } from '../json.ts'
import { Problem } from '../problem.ts'
import type { Client } from './address.ts'
import { NO_PARAMETERS, type PathParameters } from './router.ts'

/** A request as handlers see it: routed, its credential checked, its body parsed if the route takes one. */
export class Request implements Client {
  readonly #message: IncomingMessage
  readonly #query: URLSearchParams | undefined
  readonly #parameters: PathParameters
  readonly address: string
  readonly network: string
  /** HEAD is answered as GET, without a body and without holding. */
  readonly isHead: boolean
  /** The body's JSON, on a route that takes one. */
  body: JsonValue | undefined

  constructor(
    message: IncomingMessage,
    query: URLSearchParams | undefined,
    { address, network }: Client,
    parameters: PathParameters = NO_PARAMETERS,
  ) {
    this.#message = message
    this.#query = query
    this.#parameters = parameters
    this.address = address
    this.network = network
    this.isHead = message.method === 'HEAD'
  }

  /** A header by its lower-case name. Repeated ones are joined or dropped as node:http does it. */
  header(name: string): string | undefined {
    const value = this.#message.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  /** @throws {Problem} 400 if it is repeated: two readers could read two values. */
  queryParameter(name: string): string | undefined {
    const [value, ...more] = this.#query?.getAll(name) ?? []
    if (more.length > 0) throw new Problem('bad-request', `The query repeats ${name}. Send it once.`)
    return value
  }

  /** A parameter of the route's path, percent-decoded; the route must have it. */
  parameter(name: string): string {
    const value = this.#parameters.get(name)
    if (value === undefined) throw new Error(`the path of the route has no {${name}}`)
    return value
  }
}
