import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, ListenOptions, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Authenticator, type Credential, insufficientScope } from '../auth/authenticator.ts'
import { presentedCredential } from '../auth/credentials.ts'
import type { Clock } from '../clock.ts'
import {
  HEAD_TIMEOUT_MS,
  IDLE_MS,
  LISTEN_BACKLOG,
  MAX_HEAD_BYTES,
  MAX_HEADERS,
  MAX_PIPELINED,
  REQUEST_TIMEOUT_MS,
  TIMEOUT_CHECK_MS,
} from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import { AddressCount, networkOf } from './address-count.ts'
import { readJson, requireMediaType } from './body.ts'
import { Cors, isPreflight, type Origins, preflightHeaders } from './cors.ts'
import type { Answerer, Held, HeldReply, Leaver, Reply, StreamReply, WholeReply } from './reply.ts'
import { Request } from './request.ts'
import type { Route, Router } from './router.ts'
import { CLOSE, COMMON, contentLength, Encoder } from './writer.ts'

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

/** A target in absolute form, which a server must take too (RFC 9112 §3.2.2). */
const ABSOLUTE_FORM = /^https?:\/\/[^/?]*/i

type WriteBytes = (connection: Connection, reply: WholeReply, cors: readonly string[]) => void

/** What is under way on a connection: made once for it, as a request makes enough already. */
class Connection implements Answerer {
  readonly socket: Socket
  /** One name for all that come through a local socket. */
  readonly network: string
  /** It has become a stream: nothing else is said on it. */
  stream: Leaver | undefined
  /** What is being answered on it, to know whether an error may still be written. */
  response: ServerResponse | undefined
  /** The poll that waits on it. */
  held: Held | undefined
  /** For the answer to that. */
  cors: readonly string[] = []
  /** Requests whose answers are not all in the kernel yet. */
  waiting = 0
  /** Called when one of them is. */
  readonly answered = (): void => {
    this.waiting--
  }
  /** Called when it has ended. */
  readonly ended = (): void => {
    this.#connections.leave(this.network)
    this.held?.cancel()
    this.stream?.cancel()
  }
  readonly #connections: AddressCount
  readonly #write: WriteBytes

  /** @param connections Where it has its place until it has ended. */
  constructor(socket: Socket, network: string, connections: AddressCount, write: WriteBytes) {
    this.socket = socket
    this.network = network
    this.#connections = connections
    this.#write = write
    connections.enter(network)
    socket.on('close', this.ended)
  }

  /** Answers the poll that waits. */
  answer(reply: WholeReply | Problem): void {
    this.held = undefined
    this.#write(this, wholeOf(reply), this.cors)
  }
}

/**
 * A request's path: routed, authenticated, authorized, its body read, handled, answered. Handlers return a `Reply`; this
 * is the one place that writes it. A stream alone writes for itself, once it is open.
 */
export class HttpServer {
  readonly #options: HttpServerOptions
  readonly #server: Server
  readonly #open = new WeakMap<Duplex, Connection>()
  readonly #cors: Cors
  readonly #encoder: Encoder
  readonly #connections: AddressCount
  #isClosing = false

  constructor(options: HttpServerOptions) {
    this.#options = options
    this.#cors = new Cors(options.origins)
    this.#encoder = new Encoder(options.clock)
    this.#server = createServer({
      maxHeaderSize: MAX_HEAD_BYTES,
      headersTimeout: HEAD_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      // One timer a connection, `timeout` below: with this one, too, Node makes two more for each request.
      keepAliveTimeout: 0,
      // Node would answer a request without Host by an empty 400; we do not use Host.
      requireHostHeader: false,
    })
    this.#server.maxConnections = options.connections
    this.#server.timeout = IDLE_MS
    // Beyond its own limit Node drops headers in silence; ours refuses.
    this.#server.maxHeadersCount = 0
    this.#connections = new AddressCount(options.connectionsPerAddress)
    const write: WriteBytes = (connection, reply, cors) => this.#writeBytes(connection, reply, cors)
    this.#server.on('connection', socket => {
      const network = networkOf(socket.remoteAddress ?? 'local')
      if (!this.#connections.hasRoom(network)) return void socket.destroy()
      this.#open.set(socket, new Connection(socket, network, this.#connections, write))
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

  /**
   * Takes no more connections, answers what was asked, and resolves when the last connection has ended.
   * @param endReaders Ends the streams and the held polls: to Node, which has let go of their requests, they are idle.
   */
  close(endReaders: () => void): Promise<void> {
    this.#isClosing = true
    endReaders()
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    this.#server.closeIdleConnections()
    return closed
  }

  #serve(request: IncomingMessage, response: ServerResponse, refused?: Problem): void {
    const { socket } = request
    const connection = this.#open.get(socket)
    // A request on a connection that is a stream already: there is no place for its answer. One behind so many others:
    // Node would parse on for as long as nobody reads, and keep 5 MB for 64 KiB of requests.
    if (!connection || connection.stream || connection.waiting >= MAX_PIPELINED) return void socket.destroy()
    connection.held?.release()
    connection.waiting++
    connection.response = response
    // We take no other protocol (RFC 9110 §7.8), but Node's parser stops behind the request that offers one.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false
    let reply: Reply | Promise<Reply>
    try {
      reply = refused ? problemReply(refused) : this.#answer(request, response, connection.network)
    } catch (error) {
      reply = this.#problemReply(error)
    }
    if (!(reply instanceof Promise)) return this.#write(request, response, connection, reply)
    reply
      .catch(error => this.#problemReply(error))
      .then(reply => this.#write(request, response, connection, reply))
      .catch(error => socket.destroy(error))
  }

  #answer(message: IncomingMessage, response: ServerResponse, network: string): Reply | Promise<Reply> {
    const { router, authenticator } = this.#options
    // Each costs memory that Node's count of bytes leaves out.
    if (message.rawHeaders.length > 2 * MAX_HEADERS)
      throw new Problem('head-too-large', `A request has at most ${MAX_HEADERS} headers.`)
    const { path, query } = parseTarget(message.url ?? '/')
    if (isPreflight(message)) return { status: 204, headers: preflightHeaders(router.allowed(path)) }
    const route = router.find(message.method ?? '', path)
    const request = new Request(message, query, network)
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

  #write(request: IncomingMessage, response: ServerResponse, connection: Connection, reply: Reply): void {
    if ('open' in reply) this.#openStream(request, response, connection, reply)
    else if ('hold' in reply) this.#hold(request, response, connection, reply)
    else this.#writeWhole(request, response, connection, reply)
  }

  /**
   * Most answers go to the socket as bytes that were encoded once: `response.end` would check, join and copy the head of
   * each anew, a third of what a small GET takes. Node is told that its response has finished. What is not plain, Node
   * writes.
   */
  #writeWhole(request: IncomingMessage, response: ServerResponse, connection: Connection, reply: WholeReply): void {
    if (response.destroyed) return
    const cors = this.#cors.headers(request)
    if (this.#isPlain(request, response)) {
      this.#writeBytes(connection, reply, cors)
      if (connection.response === response) connection.response = undefined
      letGo(response)
      return
    }
    const { status, headers, body } = reply
    if (this.#isClosing) response.shouldKeepAlive = false
    response.on('finish', connection.answered)
    response.writeHead(status, [...COMMON, ...cors, ...headers, ...contentLength(body)])
    response.end(request.method === 'HEAD' ? undefined : body)
  }

  /** Whether its turn has come, it has been read, and neither it nor the connection needs anything else. */
  #isPlain(request: IncomingMessage, response: ServerResponse): boolean {
    return (
      response.socket === request.socket &&
      response.shouldKeepAlive &&
      !this.#isClosing &&
      request.method !== 'HEAD' &&
      isRead(request)
    )
  }

  #writeBytes(connection: Connection, reply: WholeReply, cors: readonly string[]): void {
    const { socket } = connection
    const [first, second] = this.#encoder.whole(reply, cors, this.#isClosing)
    if (!first) return
    if (second) {
      socket.cork()
      socket.write(first)
    }
    socket.write(second ?? first, connection.answered)
    if (second) socket.uncork()
    // Not left half-open to a client that never closes its side.
    if (this.#isClosing) socket.end(() => socket.destroy())
  }

  /**
   * A poll that waits needs neither its request nor its response any more: 5 KB, which each collection of garbage would
   * find alive. So nothing that waits refers to them, as a closure made here would.
   */
  #hold(request: IncomingMessage, response: ServerResponse, connection: Connection, reply: HeldReply): void {
    if (this.#isPlain(request, response)) {
      connection.response = undefined
      connection.cors = this.#cors.headers(request)
      connection.held = reply.hold(connection)
      letGo(response)
    } else
      connection.held = reply.hold({
        answer: later => {
          connection.held = undefined
          this.#writeWhole(request, response, connection, wholeOf(later))
        },
      })
  }

  /**
   * Answers with a body that ends with the connection (RFC 9112 §6.3), written to the socket itself: `response.write`
   * would frame and copy each event again for each client.
   */
  #openStream(request: IncomingMessage, response: ServerResponse, connection: Connection, reply: StreamReply): void {
    const { socket } = request
    if (response.socket !== socket) {
      const problem = new Problem('bad-request', 'A stream cannot be pipelined behind another request.')
      return this.#writeWhole(request, response, connection, problemReply(problem))
    }
    const cors = this.#cors.headers(request)
    if (request.method === 'HEAD') {
      response.writeHead(200, [...NOSNIFF, ...cors, ...reply.headers, ...CLOSE]).end()
      return
    }
    connection.response = undefined
    letGo(response)
    socket.setTimeout(0)
    socket.write(`${this.#encoder.head(200, NOSNIFF, cors, reply.headers, CLOSE)}${reply.preamble}`)
    connection.stream = reply.open(socket)
    // Later: what called this is the parser.
    if (isRead(request)) setImmediate(leaveHttp, connection)
  }

  /** Node's parser or its timer gives up on a connection, and leaves the answer to us. */
  #refuseConnection(error: NodeJS.ErrnoException, socket: Duplex): void {
    const connection = this.#open.get(socket)
    connection?.held?.release()
    const { response, stream } = connection ?? {}
    if (error.code === 'ECONNRESET' || !socket.writable || stream) return void socket.destroy()
    if (response && !(response.writableFinished && response.req.complete)) {
      // What is refused came behind a request that is whole: the answer to that one is the last.
      if (response.req.complete && !response.headersSent) {
        response.shouldKeepAlive = false
        return
      }
      // Answered in part, or before its body was there, or not its turn: this would be taken for another's answer.
      if (response.headersSent || response.socket !== socket) return void socket.destroy()
    }
    socket.end(
      Buffer.concat(this.#encoder.whole(problemReply(connectionProblem(error)), [], true)),
      // Not left half-open to a client that never closes its side.
      () => socket.destroy(),
    )
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

/** Node lets go of a request and its response when that has finished, and goes on to the next one of the connection. */
function letGo(response: ServerResponse): void {
  response.emit('finish')
}

/**
 * Node keeps the parser of a connection, and listeners of its own, until that has closed: of 10,000 streams 7.5 KiB of
 * 11.7 each on Node 24. A stream has nothing left to be parsed, so HTTP is told that it has closed; what the client sends ends it.
 */
function leaveHttp({ socket, ended }: Connection): void {
  // Paused, it needs Node's listeners to be read again: answers before it are not all taken yet.
  if (socket.destroyed || socket.isPaused()) return
  socket.off('close', ended)
  socket.emit('close')
  socket.removeAllListeners()
  socket.on('close', ended).on('error', destroy).on('data', destroy).on('end', destroy).on('timeout', destroy)
}

function destroy(this: Socket): void {
  this.destroy()
}

function wholeOf(reply: WholeReply | Problem): WholeReply {
  return reply instanceof Problem ? problemReply(reply) : reply
}

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

function isRead(request: IncomingMessage): boolean {
  return request.complete || !hasBody(request)
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
