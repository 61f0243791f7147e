import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Clock } from '../clock.ts'
import type { Origins } from '../config.ts'
import type { Problem } from '../problem.ts'
import { isLeftUnread, isRead } from './body.ts'
import type { Connection } from './connection.ts'
import { Cors } from './cors.ts'
import { CLOSE, commonHeaders, contentLength, Encoder } from './encoder.ts'
import { lingeringClose } from './lingering-close.ts'
import { detachResponse, pauseReading } from './node-internals.ts'
import { type HeldReply, problemReply, type Reply, type StreamReply, type WholeReply, wholeOf } from './reply.ts'

const NOSNIFF = ['X-Content-Type-Options', 'nosniff']

/** Writes replies to their connections. Only a stream, once open, writes by itself. */
export class Writer {
  readonly #encoder: Encoder
  readonly #cors: Cors
  #isClosing = false

  constructor(clock: Clock, origins: Origins) {
    this.#encoder = new Encoder(clock)
    this.#cors = new Cors(origins)
  }

  /** Makes every response from now on the last one of its connection. */
  close(): void {
    this.#isClosing = true
  }

  write(connection: Connection, message: IncomingMessage, response: ServerResponse, reply: Reply): void {
    connection.operation.duration.observe((performance.now() - connection.began) / 1000)
    if ('open' in reply) this.#openStream(connection, message, response, reply)
    else if ('hold' in reply) this.#hold(connection, message, response, reply)
    else this.#writeWhole(connection, message, response, reply)
    connection.incoming = undefined
  }

  /** Writes a response directly to the socket, in place of one that Node considers sent. */
  writeBytes(connection: Connection, reply: WholeReply, cors: readonly string[]): void {
    const { socket, sent, operation } = connection
    operation.answered(reply.status)
    const [first, second] = this.#encoder.whole(reply, cors, this.#isClosing)
    if (!first) return
    if (second) {
      socket.cork()
      socket.write(first)
    }
    socket.write(second ?? first, sent)
    if (second) socket.uncork()
    if (this.#isClosing) lingeringClose(socket)
  }

  /** Answers a connection that cannot be parsed any further with a problem, and ends it. */
  writeLast(socket: Duplex, problem: Problem): void {
    lingeringClose(socket, Buffer.concat(this.#encoder.whole(problemReply(problem), [], true)))
  }

  /**
   * Writes most responses to the socket as bytes that were encoded once, and tells Node that its response is sent:
   * `response.end` would check, join and copy the head of each of them again, a third of the time of a small GET. Node
   * writes the other responses.
   */
  #writeWhole(connection: Connection, message: IncomingMessage, response: ServerResponse, reply: WholeReply): void {
    if (response.destroyed) return
    const { status, headers, body } = reply
    if (headers.includes('Connection')) response.shouldKeepAlive = false
    const cors = this.#cors.headers(message)
    if (this.#isPlain(message, response)) {
      this.writeBytes(connection, reply, cors)
      connection.response = undefined
      detachResponse(response)
      return
    }
    connection.operation.answered(status)
    if (isLeftUnread(message) || (connection.incoming && !isRead(message))) {
      if (response.socket === message.socket && message.method !== 'HEAD')
        return this.#writeUnread(connection.socket, reply, cors)
      response.shouldKeepAlive = false
    }
    if (this.#isClosing) response.shouldKeepAlive = false
    response.on('finish', connection.sent)
    response.writeHead(status, [...commonHeaders(reply), ...cors, ...headers, ...contentLength(body)])
    response.end(message.method === 'HEAD' ? undefined : body)
  }

  /** Reports whether it is the response's turn, its request has been read, and the connection continues after it. */
  #isPlain(message: IncomingMessage, response: ServerResponse): boolean {
    return (
      response.socket === message.socket &&
      response.shouldKeepAlive &&
      !this.#isClosing &&
      message.method !== 'HEAD' &&
      isRead(message)
    )
  }

  /** Answers a request whose rest is not read. */
  #writeUnread(socket: Socket, reply: WholeReply, cors: readonly string[]): void {
    pauseReading(socket)
    lingeringClose(socket, Buffer.concat(this.#encoder.whole(reply, cors, true)))
  }

  /**
   * Holds a poll. It needs neither its request nor its response while it waits: 5 KB, which each garbage collection would
   * find alive. So nothing that waits refers to them, as a closure made here would.
   */
  #hold(connection: Connection, message: IncomingMessage, response: ServerResponse, reply: HeldReply): void {
    if (this.#isPlain(message, response)) {
      connection.response = undefined
      connection.cors = this.#cors.headers(message)
      connection.held = reply.hold(connection)
      detachResponse(response)
    } else
      connection.held = reply.hold({
        answer: later => {
          connection.held = undefined
          this.#writeWhole(connection, message, response, wholeOf(later))
        },
      })
  }

  /**
   * Answers with a body that ends with the connection (RFC 9112 §6.3), written directly to the socket: `response.write`
   * would frame and copy each event again for each client.
   */
  #openStream(connection: Connection, message: IncomingMessage, response: ServerResponse, reply: StreamReply): void {
    const { socket } = connection
    const cors = this.#cors.headers(message)
    connection.operation.answered(200)
    if (message.method === 'HEAD') {
      response.on('finish', connection.sent)
      response.writeHead(200, [...NOSNIFF, ...cors, ...reply.headers, ...CLOSE]).end()
      return
    }
    connection.response = undefined
    detachResponse(response)
    socket.setTimeout(0)
    socket.write(`${this.#encoder.head(200, NOSNIFF, cors, reply.headers, CLOSE)}${reply.preamble}`)
    connection.stream = reply.open(socket)
  }
}
