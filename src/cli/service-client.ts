import { type IncomingMessage, request } from 'node:http'
import { reasonOf } from '../../hal/errors.ts'
import type { Address } from '../config.ts'
import { hostAndPort } from '../http/address.ts'
import { isObject, type JsonObject, parseJson } from '../json.ts'
import type { FieldError } from '../problem.ts'
import { CommandError } from './failure.ts'

/** Longer than any change takes. */
const TIMEOUT_MS = 60_000
/** Far more than any configuration has. */
const MAX_ANSWER_BYTES = 1024 * 1024

export interface Answer {
  readonly body: JsonObject
  readonly etag: string | undefined
}

/** The service refused a request. */
export class Refused extends CommandError {
  readonly errors: readonly FieldError[]

  constructor({ detail = '', errors = [] }: { readonly detail?: string; readonly errors?: readonly FieldError[] }) {
    super(`the service refused: ${detail.replace(/\.$/, '')}`)
    this.errors = errors
  }
}

/** The service that runs on this device. */
export class ServiceClient {
  readonly #address: Address
  readonly #token: () => string

  /** @param token Makes one for each request. */
  constructor(address: Address, token: () => string) {
    this.#address = address
    this.#token = token
  }

  /** @throws {Refused} {CommandError} if there is no service. */
  async send(method: string, path: string, body?: JsonObject, etag?: string): Promise<Answer> {
    try {
      const answer = await this.#ask(method, `/api/v1${path}`, body && JSON.stringify(body), etag)
      const { statusCode, headers } = answer
      const isBounded = Number(headers['content-length']) <= MAX_ANSWER_BYTES
      const said = isBounded ? parseJson(Buffer.concat(await answer.toArray())) : null
      if (!isObject(said) || (statusCode !== 200 && typeof said.detail !== 'string'))
        throw new Error('another program does')
      if (statusCode !== 200) throw new Refused(said)
      return { body: said, etag: headers.etag }
    } catch (error) {
      if (error instanceof Refused) throw error
      const { host, port } = this.#address
      throw new CommandError(
        `no service answers at ${hostAndPort(host, port)}: ${reasonOf(error)}; start it, or give its address with --listen`,
      )
    }
  }

  #ask(method: string, path: string, body = '', etag?: string): Promise<IncomingMessage> {
    const headers = {
      Authorization: `Bearer ${this.#token()}`,
      'Content-Length': Buffer.byteLength(body),
      ...(body !== '' && { 'Content-Type': 'application/json' }),
      ...(etag !== undefined && { 'If-Match': etag }),
    }
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    return new Promise((resolve, reject) => {
      request({ ...this.#address, method, path, headers, signal, agent: false })
        .on('error', reject)
        .on('response', resolve)
        .end(body)
    })
  }
}
