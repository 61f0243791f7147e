import type { IncomingMessage } from 'node:http'
import type { JsonValue } from '../json.ts'
import { Problem } from '../problem.ts'
import type { Client } from './address.ts'
import type { IncomingBody } from './incoming-body.ts'

/** Values of path parameters, by name. */
export type PathParameters = ReadonlyMap<string, string>

export const NO_PARAMETERS: PathParameters = new Map()

/** A request as handlers see it: routed, its credential checked, and its body parsed if the route takes one. */
export class Request implements Client {
  readonly #message: IncomingMessage
  readonly #query: URLSearchParams | undefined
  readonly #parameters: PathParameters
  /** The address for log lines. With a server in front, that of its client. */
  readonly address: string
  /** The network for limits: that of the connection. */
  readonly network: string
  /** HEAD is answered like GET, but without a body and without holding. */
  readonly isHead: boolean
  /** The parsed JSON body, on a route that takes one. */
  body: JsonValue | undefined
  /** The streamed body, on a route that takes one. */
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

  /** Returns a header by its lower-case name. Repeated headers are joined or dropped as node:http does. */
  header(name: string): string | undefined {
    const value = this.#message.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  /** @throws {Problem} 400 if the parameter is repeated: two readers could read different values. */
  queryParameter(name: string): string | undefined {
    const [value, ...more] = this.#query?.getAll(name) ?? []
    if (more.length > 0) throw new Problem('bad-request', `The query repeats ${name}. Send it once.`)
    return value
  }

  /** Returns a whole number from the query; undefined if absent. @throws {Problem} 400 if it is invalid or out of range. */
  integerParameter(name: string, min: number, max: number): number | undefined {
    const text = this.queryParameter(name)
    if (text === undefined) return undefined
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new Problem('bad-request', `${name} must be a whole number from ${min} to ${max}.`)
  }

  /** Returns a switch from the query; false if absent. @throws {Problem} 400 unless it is `true` or `false`. */
  switchParameter(name: string): boolean {
    const text = this.queryParameter(name) ?? 'false'
    if (text === 'true' || text === 'false') return text === 'true'
    throw new Problem('bad-request', `${name} must be true or false.`)
  }

  /** Returns a percent-decoded parameter of the route's path, which must have it. */
  parameter(name: string): string {
    const value = this.#parameters.get(name)
    if (value === undefined) throw new Error(`the path of the route has no {${name}}`)
    return value
  }
}
