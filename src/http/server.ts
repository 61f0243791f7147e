import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo, ListenOptions } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Authenticator, type Credential, insufficientScope } from '../auth/authenticator.ts'
import { presentedCredential } from '../auth/credentials.ts'
import type { Clock } from '../clock.ts'
import {
  HEAD_TIMEOUT_MS,
  KEEP_ALIVE_MS,
  LISTEN_BACKLOG,
  MAX_HEAD_BYTES,
  MAX_HEADERS,
  MAX_HOLD_S,
  MAX_PIPELINED,
  REQUEST_TIMEOUT_MS,
  TIMEOUT_CHECK_MS,
} from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import { AddressCount } from './address-count.ts'
import { readJson, requireMediaType } from './body.ts'
import { corsHeaders, isPreflight, type Origins, preflightHeaders } from './cors.ts'
import type { Reply, StreamReply, WholeReply } from './reply.ts'
import { Request, remoteAddress } from './request.ts'
import type { Route, Router } from './router.ts'

export interface HttpServerOptions {
  readonly router: Router
  readonly authenticator: Authenticator
  readonly origins: Origins
  readonly connections: number
  /** The same for one address: somebody who takes them all takes a part. */
  readonly connectionsPerAddress: number
  readonly clock: Clock
  readonly log: Log
}

/** On every answer: what it says is of this moment and for this client, and it is what its type says. */
const COMMON = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
/** Milliseconds without a byte until a connection is given up: longer than any poll is held. */
const IDLE_MS = (MAX_HOLD_S + 30) * 1000
/** A target in absolute form, which a server must take too (RFC 9112 §3.2.2). */
const ABSOLUTE_FORM = /^https?:\/\/[^/?]*/i

/** What is under way on a connection: made once for it, as a request makes enough already. */
interface Connection {
  /** It has become a stream: nothing else is said on it. */
  isStream: boolean
  /** What is being answered on it, to know whether an error may still be written. */
  response: ServerResponse | undefined
  /** Requests whose answers are not all in the kernel yet. */
  waiting: number
  /** Called when one of them is. */
  readonly answered: () => void
}

/**
 * A request's path: routed, authenticated, authorized, its body read, handled, answered. Handlers return a `Reply`; this
 * is the one place that writes to a response.
 */
export class HttpServer {
  readonly #options: HttpServerOptions
  readonly #server: Server
  readonly #open = new WeakMap<Duplex, Connection>()
  readonly #connections: AddressCount
  #isClosing = false

  constructor(options: HttpServerOptions) {
    this.#options = options
    this.#server = createServer({
      maxHeaderSize: MAX_HEAD_BYTES,
      headersTimeout: HEAD_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      // Node would answer a request without Host by an empty 400; we do not use Host.
      requireHostHeader: false,
    })
    this.#server.maxConnections = options.connections
    this.#server.timeout = IDLE_MS
    // Beyond its own limit Node drops headers in silence; ours refuses.
    this.#server.maxHeadersCount = 0
    this.#connections = new AddressCount(options.connectionsPerAddress)
    this.#server.on('connection', socket => {
      const address = remoteAddress(socket)
      if (!this.#connections.hasRoom(address)) return void socket.destroy()
      socket.once('close', this.#connections.enter(address))
      const connection: Connection = {
        isStream: false,
        response: undefined,
        waiting: 0,
        answered: () => connection.waiting--,
      }
      this.#open.set(socket, connection)
    })
    this.#server.on('request', (request, response) => this.#serve(request, response))
    this.#server.on('checkContinue', (request, response) => this.#serve(request, response))
    this.#server.on('checkExpectation', (request, response) => {
      const problem = new Problem('expectation-failed', 'The only expectation taken is 100-continue.')
      this.#serve(request, response, problem)
    })
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) => this.#refuseConnection(error, socket))
  }

  /** Listens, and says where. */
  listen(where: ListenOptions | { readonly fd: number }): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ backlog: LISTEN_BACKLOG, ...where }, () => {
        this.#server.off('error', reject)
        this.#server.on('error', error => this.#options.log('error', `the listening socket failed: ${error.message}`))
        resolve(addressText(this.#server.address()))
      })
    })
  }

  /** Takes no more connections, answers what was asked, and resolves when the last connection has ended. */
  close(): Promise<void> {
    this.#isClosing = true
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    this.#server.closeIdleConnections()
    return closed
  }

  #serve(request: IncomingMessage, response: ServerResponse, refused?: Problem): void {
    const { socket } = request
    const connection = this.#open.get(socket)
    // A request on a connection that is a stream already: there is no place for its answer. One behind so many others:
    // Node would parse on for as long as nobody reads, and keep 5 MB for 64 KiB of requests.
    if (!connection || connection.isStream || connection.waiting >= MAX_PIPELINED) return void socket.destroy()
    connection.waiting++
    connection.response = response.on('finish', connection.answered)
    let reply: Reply | Promise<Reply>
    try {
      reply = refused ? problemReply(refused) : this.#answer(request, response)
    } catch (error) {
      reply = this.#problemReply(error)
    }
    if (!(reply instanceof Promise)) return this.#write(request, response, reply)
    reply
      .catch(error => this.#problemReply(error))
      .then(reply => this.#write(request, response, reply))
      .catch(error => socket.destroy(error))
  }

  #answer(message: IncomingMessage, response: ServerResponse): Reply | Promise<Reply> {
    const { router, authenticator } = this.#options
    // Each costs memory that Node's count of bytes leaves out.
    if (message.rawHeaders.length > 2 * MAX_HEADERS)
      throw new Problem('head-too-large', `A request has at most ${MAX_HEADERS} headers.`)
    const { path, query } = parseTarget(message.url ?? '/')
    if (isPreflight(message)) return { status: 204, headers: preflightHeaders(router.allowed(path)) }
    const route = router.find(message.method ?? '', path)
    const request = new Request(message, query)
    if (route.needs === 'nothing') return route.handle(request)

    const credential = authenticator.authenticate(presentedCredential(message, query))
    authorize(route, credential)
    if (!route.body) {
      // A body that nobody reads would stop the reading from the socket, and so hide that the client has left.
      if (hasBody(message)) message.resume()
      return route.handle(request, credential)
    }

    route.body.precondition(request)
    requireMediaType(message, route.body.accepts)
    return readJson(message, () => proceed(message, response)).then(body => {
      // It may have taken its time to arrive: what let the request in must still hold.
      authenticator.recheck(credential)
      request.body = body
      return route.handle(request, credential)
    })
  }

  #write(request: IncomingMessage, response: ServerResponse, reply: Reply): void {
    if ('open' in reply) this.#openStream(request, response, reply)
    else this.#writeWhole(request, response, reply)
  }

  #writeWhole(request: IncomingMessage, response: ServerResponse, { status, headers, body }: WholeReply): void {
    if (response.destroyed) return
    if (this.#isClosing) response.shouldKeepAlive = false
    const all = [...COMMON, ...corsHeaders(request, this.#options.origins), ...headers]
    if (body) all.push('Content-Length', String(body.length))
    response.writeHead(status, all)
    response.end(request.method === 'HEAD' ? undefined : body)
  }

  /**
   * Answers with a body that ends with the connection (RFC 9112 §6.3), written to the socket itself: `response.write`
   * would frame and copy each event again for each client.
   */
  #openStream(request: IncomingMessage, response: ServerResponse, reply: StreamReply): void {
    const { socket } = request
    const connection = this.#open.get(socket)
    if (!connection || response.socket !== socket) {
      const problem = new Problem('bad-request', 'A stream cannot be pipelined behind another request.')
      return this.#writeWhole(request, response, problemReply(problem))
    }
    const headers = [
      ...NOSNIFF,
      ...corsHeaders(request, this.#options.origins),
      ...reply.headers,
      'Connection',
      'close',
    ]
    if (request.method === 'HEAD') {
      response.writeHead(200, headers).end()
      return
    }
    connection.isStream = true
    connection.response = undefined
    // Node lets go of a request and its response when that has finished: 2 of 12 KB a stream.
    response.emit('finish')
    socket.setTimeout(0)
    socket.write(`${this.#rawHead(200, headers)}${reply.preamble}`)
    reply.open(socket)
  }

  /** Node's parser or its timer gives up on a connection, and leaves the answer to us. */
  #refuseConnection(error: NodeJS.ErrnoException, socket: Duplex): void {
    const { response, isStream } = this.#open.get(socket) ?? {}
    // Answered in part, or answered before its body was there: a second answer would be taken for that of another request.
    const isAnswered = response?.headersSent && !(response.writableFinished && response.req.complete)
    if (error.code === 'ECONNRESET' || !socket.writable || isStream || isAnswered) return void socket.destroy()
    const { status, headers, body } = problemReply(connectionProblem(error))
    const length = ['Content-Length', String(body?.length ?? 0)]
    socket.end(
      Buffer.concat([
        Buffer.from(this.#rawHead(status, [...COMMON, ...headers, ...length, 'Connection', 'close'])),
        body ?? EMPTY,
      ]),
      // Not left half-open to a client that never closes its side.
      () => socket.destroy(),
    )
  }

  #rawHead(status: number, headers: readonly string[]): string {
    const date = new Date(this.#options.clock.now()).toUTCString()
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nDate: ${date}\r\n`
    for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`
    return `${head}\r\n`
  }

  #problemReply(error: unknown): WholeReply {
    if (error instanceof Problem) {
      if (error.status >= 500 && error.kind !== 'unavailable')
        this.#options.log('error', `answered with ${error.status}: ${error.message}`)
      return problemReply(error)
    }
    this.#options.log(
      'error',
      `answered with 500: ${error instanceof Error ? (error.stack ?? error.message) : 'no error'}`,
    )
    return problemReply(new Problem('internal', 'The device failed to answer this; its log says why.'))
  }
}

const NOSNIFF = ['X-Content-Type-Options', 'nosniff']
const EMPTY = Buffer.alloc(0)

function problemReply(problem: Problem): WholeReply {
  return {
    status: problem.status,
    headers: ['Content-Type', 'application/problem+json', ...problem.headers],
    body: problem.body(),
  }
}

function authorize(route: Route, credential: Credential): void {
  const { needs } = route
  if (needs === 'api-key') {
    if (!credential.isApiKey) throw insufficientScope('This takes the API key itself; no token can do it.', undefined)
  } else if (!credential.grants.has(needs)) throw insufficientScope(`This takes the grant ${needs}.`, needs)
}

function parseTarget(target: string): {
  path: string
  query: URLSearchParams | undefined
} {
  const origin = target.startsWith('/') ? target : target.replace(ABSOLUTE_FORM, '')
  const mark = origin.indexOf('?')
  if (mark < 0) return { path: origin, query: undefined }
  return {
    path: origin.slice(0, mark),
    query: new URLSearchParams(origin.slice(mark + 1)),
  }
}

/** RFC 9112 §6.3: without either header a request has none. */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

function proceed(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.expect !== undefined) response.writeContinue()
}

function connectionProblem({ code }: NodeJS.ErrnoException): Problem {
  if (code === 'HPE_HEADER_OVERFLOW')
    return new Problem('head-too-large', `A request's head has at most ${MAX_HEAD_BYTES} bytes.`)
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new Problem(
      'request-timeout',
      `A request's head takes at most ${HEAD_TIMEOUT_MS / 1000} s, the whole request ${REQUEST_TIMEOUT_MS / 1000} s.`,
    )
  return new Problem('bad-request', 'This is not an HTTP/1.1 request.')
}

function addressText(address: AddressInfo | string | null): string {
  if (address === null || typeof address === 'string') return address ?? 'a socket of the service manager'
  return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`
}
