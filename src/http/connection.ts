import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { AddressCount } from '../address-count.ts'
import {
  HEAD_TIMEOUT_MS,
  MAX_DEFERRED,
  MAX_HEAD_BYTES,
  MAX_UNSENT_ANSWERS,
  MAX_UNSENT_BYTES,
  REQUEST_TIMEOUT_MS,
} from '../limits.ts'
import { Problem } from '../problem.ts'
import type { Client } from './address.ts'
import type { IncomingBody } from './incoming-body.ts'
import { lingeringClose } from './lingering-close.ts'
import { afterLastResponse, parserError, pauseReading, resumeReading, stopsParser } from './node-internals.ts'
import type { Operation } from './operation.ts'
import type { Asker, Pipeline } from './pipeline.ts'
import { type Answerer, type Cancelable, type Held, type Reply, type WholeReply, wholeOf } from './reply.ts'
import type { Writer } from './writer.ts'

interface Exchange {
  readonly message: IncomingMessage
  readonly response: ServerResponse
}

/** State shared by all connections of a server. */
export interface ConnectionContext {
  readonly pipeline: Pipeline
  readonly writer: Writer
  /** Counts the connections of each client, up to a limit. */
  readonly places: AddressCount
  /** Open connections. */
  readonly connections: Map<Duplex, Connection>
  /** The operation under which unrouted requests are counted. */
  readonly unrouted: Operation
  /** Number of requests waiting for their turn, on all connections together. */
  deferred: number
}

/**
 * The state of one connection.
 *
 * Pipelined requests (RFC 9112 §9.3.2) are answered one at a time: the next one begins once the response to the one before
 * has been written, and only while the client reads its responses. Requests that were parsed too early wait here, and no
 * more are read from the socket.
 */
export class Connection implements Asker, Answerer {
  readonly socket: Socket
  readonly address: string
  readonly network: string
  operation: Operation
  incoming: IncomingBody | undefined
  /** When the current request began, in milliseconds of the monotonic clock. */
  began = 0
  /** The response to the current request, or to the last one if Node wrote that response. */
  response: ServerResponse | undefined
  /** The poll that waits on this connection. */
  held: Held | undefined
  /** CORS headers for the response to that poll. */
  cors: readonly string[] = []
  /** Set once the connection has become an event stream. Nothing else is sent on it. */
  stream: Cancelable | undefined
  readonly #context: ConnectionContext
  /** Number of requests whose responses the kernel has not taken yet. */
  #unsent = 0
  /** Requests waiting for their turn; undefined if there are none. */
  #deferred: Exchange[] | undefined

  constructor(socket: Socket, { address, network }: Client, context: ConnectionContext) {
    this.socket = socket
    this.address = address
    this.network = network
    this.#context = context
    this.operation = context.unrouted
    context.places.enter(network)
    socket.on('close', this.ended)
    afterLastResponse(socket, lingeringClose)
  }

  /** Called when the kernel has taken a response. */
  readonly sent = (): void => {
    this.#unsent--
    if (this.#deferred) this.#advance()
  }

  readonly ended = (): void => {
    this.#context.connections.delete(this.socket)
    this.#context.places.leave(this.network)
    this.#context.deferred -= this.#deferred?.length ?? 0
    this.#deferred = undefined
    this.held?.cancel()
    this.stream?.cancel()
  }

  /** Whether the client has connected but not sent anything yet, as browsers do. */
  get isUnused(): boolean {
    return this.socket.bytesRead === 0
  }

  /** Whether the client has yet to read answers, and none is being made. */
  get isSending(): boolean {
    const isAnswering = this.stream || this.#deferred || (this.response && !this.response.writableEnded)
    return !isAnswering && this.socket.writableLength > 0
  }

  /** Takes a request whose head has been parsed. */
  receive(message: IncomingMessage, response: ServerResponse): void {
    // No response can follow a stream.
    if (this.stream) return void this.socket.destroy()
    // Nor can one follow the last response, and what the client still sends is left unread.
    if (!this.socket.writable) return pauseReading(this.socket)
    // Responses are sent in the order of their requests, so a request after a held poll ends the wait.
    this.held?.release()
    if (!this.#deferred && this.#isReady()) this.#begin(message, response)
    else this.#defer({ message, response })
  }

  /** Answers the held poll. */
  answer(reply: WholeReply | Problem): void {
    this.held = undefined
    this.#context.writer.writeBytes(this, wholeOf(reply), this.cors)
  }

  /** Ends the connection after a parse error or a timeout, with a problem if one can be sent. */
  refuse(error: NodeJS.ErrnoException): void {
    const reason = parserError(error)
    // Node counts from the head, but a streamed body has its own limits.
    if (reason === 'timeout' && this.incoming) return
    this.held?.release()
    const { socket } = this
    if (reason === 'reset' || this.stream || (reason === 'timeout' && !socket.writable)) return void socket.destroy()
    // The rest of a request that is refused must not be carried out.
    pauseReading(socket)
    if (!socket.writable) return
    const last = this.#deferred?.at(-1)?.response ?? this.response
    // Nothing follows the last response of a connection.
    if (last?.headersSent && !last.shouldKeepAlive) return
    if (last && !(last.writableFinished && last.req.complete)) {
      // The error follows a complete request, whose response is then the last.
      if (last.req.complete && !last.headersSent) {
        last.shouldKeepAlive = false
        return
      }
      // The error is in a request that was already answered, or whose turn has not come: a problem would be read as the
      // response to another request.
      if (last.headersSent || last.socket !== socket) return void socket.destroy()
    }
    const problem = connectionProblem(reason)
    this.#context.unrouted.answered(problem.status)
    this.#context.writer.writeLast(socket, problem)
  }

  #isReady(): boolean {
    const { response } = this
    return (
      // Node lets go of a response a moment after it is finished, and only then is it the next one's turn.
      (response === undefined || (response.writableFinished && response.socket === null)) &&
      this.#unsent < MAX_UNSENT_ANSWERS &&
      this.socket.writableLength <= MAX_UNSENT_BYTES
    )
  }

  #begin(message: IncomingMessage, response: ServerResponse): void {
    const { pipeline, writer, unrouted } = this.#context
    this.operation = unrouted
    this.incoming = undefined
    this.began = performance.now()
    this.response = response
    this.#unsent++
    if (stopsParser(message)) response.shouldKeepAlive = false
    try {
      const reply = pipeline.answer(message, response, this)
      if (reply instanceof Promise) this.#writeLater(message, response, reply)
      else writer.write(this, message, response, reply)
    } catch (error) {
      this.#fail(error)
    }
  }

  async #writeLater(message: IncomingMessage, response: ServerResponse, reply: Promise<Reply>): Promise<void> {
    try {
      const answer = await reply
      // The client has disconnected, and nothing would end what is kept open for it.
      if (this.socket.destroyed && ('open' in answer || 'hold' in answer)) return
      this.#context.writer.write(this, message, response, answer)
      this.#advance()
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Ends this connection alone: whatever is wrong with it must not end the others. */
  #fail(error: unknown): void {
    this.socket.destroy(error instanceof Error ? error : undefined)
  }

  #defer(exchange: Exchange): void {
    // One chunk of tiny requests becomes 2,500 requests and 4 MB, so their number is limited across all connections.
    if (this.#context.deferred >= MAX_DEFERRED) return void this.socket.destroy()
    this.#context.deferred++
    this.#deferred ??= []
    this.#deferred.push(exchange)
    pauseReading(this.socket)
  }

  /** Begins waiting requests for as long as the client reads the responses. */
  #advance(): void {
    // After the last response of the connection, do not begin requests that could not be answered.
    for (let next = this.#deferred?.[0]; next && this.socket.writable; next = this.#deferred?.[0]) {
      if (this.stream) return void this.socket.destroy()
      this.held?.release()
      // Node resumes reading whenever the socket has drained.
      if (!this.#isReady()) return pauseReading(this.socket)
      this.#deferred?.shift()
      this.#context.deferred--
      this.#begin(next.message, next.response)
    }
    if (!this.#deferred || !this.socket.writable) return
    this.#deferred = undefined
    resumeReading(this.socket)
  }
}

function connectionProblem(reason: 'head-too-large' | 'timeout' | 'not-http'): Problem {
  if (reason === 'head-too-large')
    return new Problem('head-too-large', `The head of a request must not exceed ${MAX_HEAD_BYTES} bytes.`)
  if (reason === 'timeout')
    return new Problem(
      'request-timeout',
      `The head of a request must arrive within ${HEAD_TIMEOUT_MS / 1000} s, all of it within ${REQUEST_TIMEOUT_MS / 1000} s.`,
    )
  return new Problem('bad-request', 'This is not an HTTP/1.1 request.')
}
