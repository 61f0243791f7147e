import type { IncomingMessage } from 'node:http'
import type { JsonValue } from '../json.ts'
import { Problem } from '../problem.ts'
import type { Client } from './address.ts'
import type { IncomingBody } from './incoming-body.ts'

/** Values of the parameters in a path, by name. */
export type PathParameters = ReadonlyMap<string, string>

export const NO_PARAMETERS: PathParameters = new Map()

/** A request as handlers see it: routed, its credential checked, its body parsed if the route takes one. */
export class Request implements Client {
  readonly #message: IncomingMessage
  readonly #query: URLSearchParams | undefined
  readonly #parameters: PathParameters
  /** For log lines. If there is a server in front, the address of that server's client. */
  readonly address: string
  /** For limits: that of the connection. */
  readonly network: string
  /** HEAD is answered as GET, without a body and without holding. */
  readonly isHead: boolean
  /** The body's JSON, on a route that takes one. */
  body: JsonValue | undefined
  /** The body as it arrives, on a route that takes it so. */
  incoming: IncomingBody | undefined

  constructor(
    message: IncomingMessage,
    query: URLSearchParams | undefined,
    address: string,
    network: string,
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

  /** A whole number in the query; undefined without one. @throws {Problem} 400 for anything else, or out of the range. */
  integerParameter(name: string, min: number, max: number): number | undefined {
    const text = this.queryParameter(name)
    if (text === undefined) return undefined
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new Problem('bad-request', `${name} must be a whole number from ${min} to ${max}.`)
  }

  /** A switch in the query; off without one. @throws {Problem} 400 for anything but `true` and `false`. */
  switchParameter(name: string): boolean {
    const text = this.queryParameter(name) ?? 'false'
    if (text === 'true' || text === 'false') return text === 'true'
    throw new Problem('bad-request', `${name} must be true or false.`)
  }

  /** A parameter of the route's path, percent-decoded; the route must have it. */
  parameter(name: string): string {
    const value = this.#parameters.get(name)
    if (value === undefined) throw new Error(`the path of the route has no {${name}}`)
    return value
  }
}
