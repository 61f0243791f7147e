import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { errorCode, reasonOf } from '../../hal/errors.ts'
import type { Address } from '../config.ts'
import { hostAndPort } from '../http/address.ts'
import { responseTo } from '../http/response.ts'
import { isObject, type JsonObject, parseJson } from '../json.ts'
import type { FieldError } from '../problem.ts'
import { CommandError } from './failure.ts'

/** Milliseconds for the answer to a request that changes nothing. */
const TIMEOUT_MS = 60_000
/** How many times as long a change may take: it restarts services of the device. */
const CHANGE_FACTOR = 4
/** Milliseconds without a byte while a file is sent; longer than it takes to check the complete file. */
const SILENCE_MS = 300_000
/** Errors of a connection that was established, and then ended. */
const ENDED = ['ECONNRESET', 'EPIPE']
/** Far more than any configuration has. */
const MAX_ANSWER_BYTES = 1024 * 1024

export interface Answer {
  readonly body: JsonObject
  readonly etag: string | undefined
}

interface ProblemBody {
  readonly detail?: string
  readonly errors?: readonly FieldError[]
  readonly type?: string
}

/** A file to send. */
export interface Sent {
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: number
  readonly chunks: AsyncIterable<Buffer>
}

/** Sends requests to a service, wherever it runs. Each method rejects with `Refused`, or with a `CommandError`. */
export interface Client {
  send(method: string, path: string, body?: JsonObject, etag?: string): Promise<Answer>
  put(path: string, file: Sent): Promise<Answer>
}

/** The service refused a request. */
export class Refused extends CommandError {
  readonly status: number
  readonly errors: readonly FieldError[]
  /** The last part of the problem type, such as `conflict`. */
  readonly type: string

  constructor(status: number, { detail = '', errors = [], type = '' }: ProblemBody) {
    super(`the service refused: ${detail.replace(/\.$/, '')}`)
    this.status = status
    this.errors = errors
    this.type = type.slice(type.lastIndexOf(':') + 1)
  }
}

/** How long the service may be silent. */
interface Limit {
  readonly ms: number
  /** Whether it may be making a change all the while. */
  readonly isChange: boolean
}

/** The service that runs on this device. */
export class ServiceClient implements Client {
  readonly #address: Address
  readonly #token: () => string
  readonly #timeoutMs: number

  /**
   * @param token Makes a token for each request.
   * @param timeoutMs Milliseconds that the service has to answer; a change has four times as long.
   */
  constructor(address: Address, token: () => string, timeoutMs = TIMEOUT_MS) {
    this.#address = address
    this.#token = token
    this.#timeoutMs = timeoutMs
  }

  /** @throws {Refused} {CommandError} if no service answers, or not in time, or not to the end. */
  async send(method: string, path: string, body?: JsonObject, etag?: string): Promise<Answer> {
    const text = body ? JSON.stringify(body) : ''
    const headers = {
      'Content-Length': String(Buffer.byteLength(text)),
      ...(text !== '' && { 'Content-Type': 'application/json' }),
      ...(etag !== undefined && { 'If-Match': etag }),
    }
    const isChange = method !== 'GET' && !path.endsWith('?validateOnly=true')
    const limit = { ms: this.#timeoutMs * (isChange ? CHANGE_FACTOR : 1), isChange }
    return this.#answer(method, path, headers, limit, async out => {
      out.end(text)
    })
  }

  /** Sends a file as fast as the service takes it. @throws as `send`, also if the connection breaks off. */
  async put(path: string, { headers, bytes, chunks }: Sent): Promise<Answer> {
    const all = { ...headers, 'Content-Length': String(bytes), Expect: '100-continue' }
    return this.#answer('PUT', path, all, { ms: SILENCE_MS, isChange: false }, async out => {
      // A refused file is not sent.
      await once(out, 'continue')
      await pipeline(Readable.from(chunks, { objectMode: false }), out)
    })
  }

  async #answer(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    { ms, isChange }: Limit,
    write: (out: ClientRequest) => Promise<void>,
  ): Promise<Answer> {
    const { host, port } = this.#address
    let answer: IncomingMessage | undefined
    let isSilent = false
    try {
      answer = await this.#ask(method, `/api/v1${path}`, headers, out => {
        out.setTimeout(ms, () => {
          isSilent = true
          out.destroy()
        })
        return write(out)
      })
      const { statusCode = 0, headers: said } = answer
      const isFine = statusCode >= 200 && statusCode < 300
      if (statusCode === 204) return { body: {}, etag: said.etag }
      const isBounded = Number(said['content-length']) <= MAX_ANSWER_BYTES
      const body = isBounded ? parseJson(Buffer.concat(await answer.toArray())) : null
      if (!isObject(body) || (!isFine && typeof body.detail !== 'string')) throw new SyntaxError()
      if (!isFine) throw new Refused(statusCode, body)
      return { body, etag: said.etag }
    } catch (error) {
      // A refusal, or a file that cannot be read.
      if (error instanceof CommandError) throw error
      const at = hostAndPort(host, port)
      // The error of a request that was cut off says only that it broke off.
      if (isSilent)
        throw new CommandError(
          `the service at ${at} has not answered within ${ms / 1000} s${isChange ? '; it may still make the change' : ''}`,
        )
      if (ENDED.includes(errorCode(error) ?? ''))
        throw new CommandError(
          `the service at ${at} ended the connection before it had answered${isChange ? '; it may have made the change' : ''}`,
        )
      const reason = error instanceof SyntaxError ? 'another program does' : reasonOf(error)
      throw new CommandError(`no service answers at ${at}: ${reason}; start it, or give its address with --listen`)
    } finally {
      answer?.destroy()
    }
  }

  #ask(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    write: (out: ClientRequest) => Promise<void>,
  ): Promise<IncomingMessage> {
    const all = { ...headers, Authorization: `Bearer ${this.#token()}` }
    return new Promise((resolve, reject) => {
      const out = request({ ...this.#address, method, path, headers: all, agent: false })
      responseTo(out).then(resolve, reject)
      write(out).catch(reject)
    })
  }
}
