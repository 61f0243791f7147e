import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, Server as Listener, type Socket } from 'node:net'
import { AddressCount } from '../address-count.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { Clock } from '../clock.ts'
import type { Listen, Origins } from '../config.ts'
import {
  FIRST_REQUEST_MS,
  HEAD_TIMEOUT_MS,
  IDLE_MS,
  LAST_ANSWERS_MS,
  LISTEN_BACKLOG,
  MAX_HEAD_BYTES,
  REQUEST_TIMEOUT_MS,
} from '../limits.ts'
import type { Log } from '../log.ts'
import type { Counts } from '../metrics/counts.ts'
import { Problem } from '../problem.ts'
import { clientAt, hostAndPort } from './address.ts'
import { ClientWarnings } from './client-warnings.ts'
import { Connection, type ConnectionContext } from './connection.ts'
import { lingeringClose } from './lingering-close.ts'
import { Operation } from './operation.ts'
import { Pipeline } from './pipeline.ts'
import type { Router } from './router.ts'
import { Writer } from './writer.ts'

export interface HttpServerOptions {
  readonly router: Router
  readonly authenticator: Authenticator
  readonly origins: Origins
  readonly connections: number
  /** The limit for one client, so that no client can take all connections. */
  readonly connectionsPerAddress: number
  /** Milliseconds between checks for requests that take too long to arrive. */
  readonly timeoutCheckMs: number
  readonly clock: Clock
  readonly log: Log
  /** Whether requests come through a server in front, which names their client (X-Real-IP). */
  readonly isFronted?: boolean
}

/** Listens, and passes each request to its connection. */
export class HttpServer {
  readonly #log: Log
  readonly #router: Router
  readonly #maxConnections: number
  readonly #timeoutCheckMs: number
  /** One for each socket. */
  readonly #servers: Server[] = []
  readonly #writer: Writer
  readonly #warnings: ClientWarnings
  readonly #context: ConnectionContext

  constructor(options: HttpServerOptions) {
    const {
      router,
      authenticator,
      origins,
      connections,
      connectionsPerAddress,
      timeoutCheckMs,
      clock,
      log,
      isFronted = false,
    } = options
    this.#log = log
    this.#router = router
    this.#maxConnections = connections
    this.#timeoutCheckMs = timeoutCheckMs
    this.#writer = new Writer(clock, origins)
    this.#warnings = new ClientWarnings(log)
    this.#context = {
      pipeline: new Pipeline({ router, authenticator, warnings: this.#warnings, log, isFronted }),
      writer: this.#writer,
      places: new AddressCount(connectionsPerAddress),
      connections: new Map(),
      unrouted: new Operation('none', 'none'),
      deferred: 0,
    }
  }

  /** Number of open connections. */
  get connections(): number {
    return this.#context.places.total
  }

  /** Bytes of responses that clients have not read yet, beyond what the kernel buffers. Streams have their own limit. */
  get unreadBytes(): number {
    let bytes = 0
    for (const { socket, stream } of this.#context.connections.values()) if (!stream) bytes += socket.writableLength
    return bytes
  }

  /** Request outcomes by route; the last operation counts requests without a route. */
  get operations(): readonly Operation[] {
    return [...this.#router.operations, this.#context.unrouted]
  }

  /** Refused credentials, by reason. */
  get refusals(): Counts {
    return this.#context.pipeline.refusals
  }

  /** Listens there, too, and resolves with the address as a URL. */
  listen(where: Listen): Promise<string> {
    const server = this.#createServer()
    this.#servers.push(server)
    return new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen({ backlog: LISTEN_BACKLOG, ...where }, () => {
        server.off('error', reject)
        server.on('error', error => this.#log('error', `the listening socket failed: ${error.message}`))
        resolve(addressText(server.address()))
      })
    })
  }

  /**
   * Accepts no more connections, answers the requests that have arrived (those whose bodies are incomplete with a refusal),
   * and resolves once the last connection has ended.
   * @param endReaders Ends streams and held polls: Node considers them idle, because it has released their requests.
   */
  close(endReaders: () => void): Promise<unknown> {
    this.#writer.close()
    endReaders()
    const why = new Problem('unavailable', 'The service is shutting down.', { headers: ['Retry-After', '5'] })
    for (const { incoming } of this.#context.connections.values()) incoming?.end(why)
    const closed = Promise.all(
      // Not yet the method of node:http, which ends connections at once.
      this.#servers.map(server => new Promise<void>(resolve => Listener.prototype.close.call(server, () => resolve()))),
    )
    this.#endIdle()
    // Node counts connections as idle only after their first request, which may be in transit.
    const ahead = setTimeout(() => {
      // After a long turn of the event loop, timers run before bytes that have arrived are read: read those first.
      setImmediate(() => {
        for (const { isUnused, socket } of this.#context.connections.values()) if (isUnused) socket.destroy()
      })
    }, FIRST_REQUEST_MS)
    const late = setTimeout(this.#endAll, LAST_ANSWERS_MS)
    return closed.finally(() => {
      clearTimeout(ahead)
      clearTimeout(late)
    })
  }

  /** Ends connections without a request. Node would count those among them whose last answers are still being sent. */
  async #endIdle(): Promise<void> {
    const sending = () => [...this.#context.connections.values()].filter(({ isSending }) => isSending)
    // Meanwhile, others may be answered.
    for (let left = sending(); left.length > 0; left = sending())
      await Promise.all(
        left.map(({ socket }) => {
          if (!socket.writableEnded) lingeringClose(socket)
          return once(socket, 'close').catch(() => undefined)
        }),
      )
    this.#endAll()
  }

  readonly #endAll = (): void => {
    for (const server of this.#servers) server.close()
  }

  #createServer(): Server {
    const server = createHttpServer(this.#maxConnections, this.#timeoutCheckMs)
    server.on('connection', socket => this.#accept(socket))
    server.on('drop', data => this.#warn(data?.remoteAddress, this.#allTaken))
    const receive = (message: IncomingMessage, response: ServerResponse) => {
      const connection = this.#context.connections.get(message.socket)
      if (connection) connection.receive(message, response)
      else message.socket.destroy()
    }
    server.on('request', receive).on('checkContinue', receive).on('checkExpectation', receive)
    server.on('clientError', (error, socket) => {
      const connection = this.#context.connections.get(socket)
      if (connection) connection.refuse(error)
      else socket.destroy()
    })
    return server
  }

  #accept(socket: Socket): void {
    const client = clientAt(socket.remoteAddress)
    const { places, connections } = this.#context
    // Node has the same limit, but for each socket that it listens on.
    const isFull = places.total >= this.#maxConnections
    if (!isFull && places.hasRoom(client.network))
      return void connections.set(socket, new Connection(socket, client, this.#context))
    this.#warn(socket.remoteAddress, isFull ? this.#allTaken : 'all connections for one client are taken')
    socket.destroy()
  }

  get #allTaken(): string {
    return `all ${this.#maxConnections} connections are taken`
  }

  #warn(remoteAddress: string | undefined, reason: string): void {
    const { address, network } = clientAt(remoteAddress)
    this.#warnings.warn(network, `${address}: refused a connection: ${reason}`)
  }
}

function createHttpServer(connections: number, timeoutCheckMs: number): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEAD_BYTES,
    headersTimeout: HEAD_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: timeoutCheckMs,
    // `timeout` below takes one timer per connection; with this one as well, Node makes two more for each request.
    keepAliveTimeout: 0,
    // Node would answer a request without Host with an empty 400.
    requireHostHeader: false,
  })
  server.maxConnections = connections
  server.timeout = IDLE_MS
  // Beyond its own limit Node silently drops headers; the limit of the pipeline refuses the request.
  server.maxHeadersCount = 0
  return server
}

function addressText(address: AddressInfo | string | null): string {
  if (address === null || typeof address === 'string') return address ?? 'a socket of the service manager'
  return `http://${hostAndPort(address.address, address.port)}`
}
