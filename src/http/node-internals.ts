/**
 * Everything that leans on the insides of node:http and node:net, so that a release of Node means auditing one file.
 *
 * Read against lib/_http_server.js, lib/_http_incoming.js and lib/net.js of Node 20.20, 22.20, 24.21 and 26.10, and run
 * on each of them by test/interop/node-versions.test.ts.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Tells Node that a response has been sent, after its bytes were written to the socket directly.
 *
 * Relies on: `parserOnIncoming` registers `resOnFinish` for 'finish', which takes the request off Node's queue, discards
 * the unread rest of its body, detaches the response from the socket, and gives the socket to the next response.
 */
export function detachResponse(response: ServerResponse): void {
  response.emit('finish')
}

/**
 * Stops reading requests. The chunk that the parser has in hand, at most 64 KiB, is still parsed.
 *
 * Relies on: 'pause' stops the reading of a socket that the parser consumes (`onSocketPause`); while `_paused` is set,
 * neither a request that is parsed (`readStart`) nor a 'resume' on its way (`onSocketResume`) starts it again.
 */
export function pauseReading(socket: Socket & { _paused?: boolean }): void {
  socket._paused = true
  socket.pause()
}

/**
 * Undoes `pauseReading`.
 *
 * Relies on: `socketOnDrain` resumes the parser and the socket if `_paused` is set. Nothing else listens for 'drain'.
 * Node calls it by itself, too, whenever the socket has drained.
 */
export function resumeReading(socket: Socket): void {
  socket.emit('drain')
}

/**
 * Whether a connection must end with the answer to this request. No other protocol is offered here (RFC 9110 §7.8), but
 * llhttp stops after a request with `Upgrade`, and Node drops the rest of the chunk.
 */
export function stopsParser(message: IncomingMessage): boolean {
  return message.headers.upgrade !== undefined
}

/** The reason of a 'clientError', from the codes of llhttp and of `checkConnections`. */
export function parserError({ code }: NodeJS.ErrnoException): 'reset' | 'head-too-large' | 'timeout' | 'not-http' {
  if (code === 'ECONNRESET') return 'reset'
  if (code === 'HPE_HEADER_OVERFLOW') return 'head-too-large'
  return code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'timeout' : 'not-http'
}
