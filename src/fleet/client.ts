import type { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { errorCode, reasonOf } from '../../hal/errors.ts'
import { CommandError } from '../cli/failure.ts'
import { type Answer, type Client, Refused, type Sent } from '../cli/service-client.ts'
import { hostAndPort } from '../http/address.ts'
import { responseTo } from '../http/response.ts'
import { isObject, type JsonObject, type JsonValue } from '../json.ts'
import { UPLOAD_TOTAL_MS } from '../limits.ts'
import { printable } from '../log.ts'
import { Mismatch, open, type Trust } from './connection.ts'
import type { Endpoint } from './fleet-file.ts'

/** How many times as long a change may take as another answer: it restarts services of the device. */
const CHANGE_FACTOR = 4
/** Longer than a device takes to check a whole file. */
const SILENCE_MS = 300_000
/** Limit on an answer in bytes: the description of the API has about 200 KB. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024
const MAX_REASON = 300

export type Endpoints = readonly [Endpoint, ...Endpoint[]]

/** A connection to a device that has proved its identity. */
interface Connected {
  readonly socket: Socket
  readonly endpoint: Endpoint
}

export interface DeviceAnswer extends Answer {
  readonly headers: IncomingHttpHeaders
}

/** The device did not answer: it is unknown whether it carried out the request. */
export class Unanswered extends CommandError {}

/** The device did not answer in time. */
export class Silent extends Unanswered {
  constructor(ms: number) {
    super(`it does not answer within ${ms / 1000} s`)
  }
}

/** Sends requests to one device, each on a new connection: one that is kept open would not show that the device is gone. */
export class DeviceClient implements Client {
  #endpoints: Endpoints
  readonly #trust: Trust
  readonly #credentials: readonly string[]
  readonly #timeoutMs: number
  readonly #silenceMs: number
  /** The index of the credential that the device last accepted. */
  #index = 0
  /** Where it last proved its identity. */
  #proved: Endpoint | undefined

  /**
   * @param endpoints Where it may be, the likeliest first: of several, all but one are other devices that claim to be this one.
   * @param credentials In the order in which they are tried: the second one is a key that the device may have by now.
   * @param timeoutMs Milliseconds that the device has to answer; a change has four times as long.
   * @param silenceMs Milliseconds without a byte while a file is sent, and for the answer after its last byte.
   */
  constructor(
    endpoints: Endpoints,
    trust: Trust,
    credentials: readonly string[],
    timeoutMs: number,
    silenceMs = SILENCE_MS,
  ) {
    this.#endpoints = endpoints
    this.#trust = trust
    this.#credentials = credentials
    this.#timeoutMs = timeoutMs
    this.#silenceMs = silenceMs
  }

  /** The same device with another credential. */
  as(credential: string): DeviceClient {
    return new DeviceClient(this.#endpoints, this.#trust, [credential], this.#timeoutMs, this.#silenceMs)
  }

  /** The host at which it last proved its identity; before that, the likeliest one. */
  get host(): string {
    return (this.#proved ?? this.#endpoints[0]).host
  }

  /**
   * From now on, looks for the device at these hosts as well. A certificate of an authority proves only who has a host, which may
   * be another device, so then it changes nothing.
   */
  lookAt(hosts: readonly string[]): void {
    const isProvedByKey = this.#trust.kind === 'pin' || this.#trust.kind === 'fingerprint'
    if (!isProvedByKey || hosts.length === 0) return
    const { port } = this.#proved ?? this.#endpoints[0]
    this.#endpoints = [...this.#endpoints, ...hosts.map(host => ({ host, port }))]
    this.#proved = undefined
  }

  /** @throws {Refused} {Unanswered} {CommandError} if there is no such device. */
  async send(method: string, path: string, body?: JsonObject, etag?: string): Promise<DeviceAnswer> {
    const text = body ? JSON.stringify(body) : ''
    const headers = {
      'Content-Length': String(Buffer.byteLength(text)),
      ...(text !== '' && { 'Content-Type': 'application/json' }),
      ...(etag !== undefined && { 'If-Match': etag }),
    }
    const timeoutMs = method === 'GET' ? this.#timeoutMs : CHANGE_FACTOR * this.#timeoutMs
    return this.#withEachCredential(credential =>
      this.#answer(credential, method, path, headers, timeoutMs, async out => {
        out.end(text)
      }),
    )
  }

  /**
   * Opens a stream of events, which the caller reads without a time limit. Resolves when the device has answered.
   * @param signal Ends the stream.
   * @throws as `send`.
   */
  async follow(path: string, cursor: string, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    const headers = { Accept: 'text/event-stream', 'Last-Event-ID': cursor }
    return this.#withEachCredential(credential => this.#begin(credential, path, headers, signal))
  }

  /** Sends a file as fast as the device takes it. @throws as `send`. */
  async put(path: string, { headers, bytes, chunks }: Sent): Promise<DeviceAnswer> {
    const all = { ...headers, 'Content-Length': String(bytes), Expect: '100-continue' }
    return this.#withEachCredential(credential =>
      this.#answer(credential, 'PUT', path, all, UPLOAD_TOTAL_MS, async (out, within) => {
        out.setTimeout(this.#silenceMs, () => out.destroy(new Unanswered('it does not answer')))
        // A file that the device refuses is not sent.
        await once(out, 'continue')
        await pipeline(Readable.from(chunks, { objectMode: false }), out)
        // An answer that arrives byte by byte is not silence.
        within(this.#silenceMs)
      }),
    )
  }

  /**
   * The certificate with which the device proved its identity.
   * @throws {CommandError} if it cannot be reached, or did not prove it.
   */
  async certificate(): Promise<X509Certificate> {
    return new Promise((resolve, reject) => {
      this.#open(new AbortController().signal, resolve).then(({ socket }) => socket.destroy(), reject)
    })
  }

  /**
   * Connects where the device last proved its identity; else everywhere at once, because one that only claims to be this device
   * could take up all the time. @throws {CommandError} if no connection is the device's; the reason of the signal.
   */
  async #open(signal: AbortSignal, shown?: (certificate: X509Certificate) => void): Promise<Connected> {
    const others = new AbortController()
    const stop = () => others.abort(signal.reason)
    signal.addEventListener('abort', stop)
    const attempts = (this.#proved ? [this.#proved] : this.#endpoints).map(async endpoint => {
      const socket = await open(endpoint, this.#trust, others.signal, shown).catch(error => {
        throw notConnected(error, endpoint)
      })
      // Two of them may be the device's.
      if (others.signal.aborted) socket.destroy()
      else this.#proved = endpoint
      others.abort()
      return { socket, endpoint }
    })
    try {
      return await Promise.any(attempts)
    } catch (error) {
      this.#proved = undefined
      const { errors } = error as AggregateError
      // The device itself may be off while another one answers.
      throw errors.find(failure => !(failure instanceof Mismatch)) ?? errors[0]
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  async #withEachCredential<T>(attempt: (credential: string) => Promise<T>): Promise<T> {
    for (;;) {
      const credential = this.#credentials[this.#index] ?? ''
      try {
        return await attempt(credential)
      } catch (error) {
        const isLast = this.#index >= this.#credentials.length - 1
        if (isLast || !(error instanceof Refused) || error.status !== 401) throw error
        this.#index++
      }
    }
  }

  /**
   * @param timeoutMs Milliseconds for everything.
   * @param write Sends the body. It may set another time limit, from then on, for the rest.
   */
  async #answer(
    credential: string,
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    timeoutMs: number,
    write: (out: ClientRequest, within: (ms: number) => void) => Promise<void>,
  ): Promise<DeviceAnswer> {
    const clock = new AbortController()
    let timer: NodeJS.Timeout | undefined
    let isOver = false
    const within = (ms: number) => {
      clearTimeout(timer)
      if (!isOver) timer = setTimeout(() => clock.abort(new Silent(ms)), ms)
    }
    within(timeoutMs)
    try {
      const connected = await this.#open(clock.signal)
      const out = this.#request(connected, credential, method, path, headers)
      const stop = () => out.destroy(clock.signal.reason)
      clock.signal.addEventListener('abort', stop)
      // The time may have run out while the device proved its identity.
      if (clock.signal.aborted) stop()
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        responseTo(out).then(resolve, reject)
        write(out, within).catch(reject)
      })
      try {
        return await readAnswer(answer)
      } finally {
        answer.destroy()
        connected.socket.destroy()
      }
    } catch (error) {
      // The error of a request that was cut off by the time limit says only that it broke off.
      if (clock.signal.aborted) throw clock.signal.reason
      throw brokeOff(error)
    } finally {
      isOver = true
      clearTimeout(timer)
    }
  }

  async #begin(
    credential: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<AsyncIterable<Buffer>> {
    let connected: Connected | undefined
    let isLate = false
    const end = () => connected?.socket.destroy()
    const timer = setTimeout(() => {
      isLate = true
      end()
    }, this.#timeoutMs)
    try {
      connected = await this.#open(signal)
      signal.addEventListener('abort', end)
      connected.socket.once('close', () => signal.removeEventListener('abort', end))
      if (signal.aborted || isLate) end()
      const answer = await responseTo(this.#request(connected, credential, 'GET', path, headers).end())
      if (answer.statusCode === 200 && answer.headers['content-type'] === 'text/event-stream') return answer
      await readAnswer(answer)
      throw new CommandError('it is no receiver: it answers with something other than events')
    } catch (error) {
      end()
      if (signal.aborted) throw signal.reason
      if (isLate) throw new Silent(this.#timeoutMs)
      throw brokeOff(error)
    } finally {
      clearTimeout(timer)
    }
  }

  #request(
    { socket, endpoint: { host, port } }: Connected,
    credential: string,
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
  ): ClientRequest {
    return request({
      method,
      path: `/api/v1${path}`,
      headers: { ...headers, Host: hostAndPort(host, port), Authorization: `Bearer ${credential}` },
      createConnection: () => socket,
    })
  }
}

function notConnected(error: unknown, { host, port }: Endpoint): CommandError {
  if (error instanceof CommandError) return error
  return new CommandError(`cannot connect to ${hostAndPort(host, port)}: ${causeOf(error)}`)
}

function brokeOff(error: unknown): CommandError {
  return error instanceof CommandError ? error : new Unanswered(`it broke off: ${causeOf(error)}`)
}

/** @throws {Refused} {CommandError} if the answer is not that of a receiver. */
async function readAnswer(answer: IncomingMessage): Promise<DeviceAnswer> {
  const { statusCode = 0, headers } = answer
  const isFine = statusCode >= 200 && statusCode < 300
  if (statusCode === 204) return { body: {}, etag: headers.etag, headers }
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) throw new CommandError('its answer has no end: it is no receiver')
    chunks.push(chunk)
  }
  const body = parsed(Buffer.concat(chunks).toString())
  if (!isFine && isObject(body) && typeof body.detail === 'string') throw new Refused(statusCode, body)
  if (isFine && isObject(body)) return { body, etag: headers.etag, headers }
  if (statusCode >= 300 && statusCode < 400)
    throw new CommandError(`it redirects (${statusCode}); is it https: in place of http:, or another program?`)
  // From a server in front of a service that is starting.
  if (statusCode === 502 || statusCode === 504) throw new Unanswered(`its service is not running (${statusCode})`)
  throw new CommandError(`it is no receiver: it answers ${statusCode}, and not as one`)
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The cause of an error in words, also for TLS errors and others without a number. */
export function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unexpected error'
  if ('errno' in error && typeof error.errno === 'number') return reasonOf(error)
  const nested = error instanceof AggregateError ? error.errors[0] : undefined
  if (nested !== undefined) return causeOf(nested)
  const code = errorCode(error)
  return printable(`${error.message.split('\n', 1)[0]}${code === undefined ? '' : ` (${code})`}`.slice(0, MAX_REASON))
}
