/**
 * Everything that depends on the internals of node:http and node:net, so that a new Node release means auditing one file.
 *
 * Verified against lib/_http_server.js, lib/_http_incoming.js and lib/net.js of Node 20.20, 22.20, 24.21 and 26.10, and
 * tested on each of them by test/interop/node-versions.test.ts.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Tells Node that a response has been sent, after its bytes were written directly to the socket.
 *
 * Relies on: `parserOnIncoming` registers `resOnFinish` for 'finish', which takes the request off Node's queue, discards
 * the unread rest of its body, detaches the response from the socket, and assigns the socket to the next response.
 */
export function detachResponse(response: ServerResponse): void {
  response.emit('finish')
}

/**
 * Stops reading requests. The chunk that the parser is working on, at most 64 KiB, is still parsed.
 *
 * Relies on: 'pause' stops reading from a socket that the parser consumes (`onSocketPause`); while `_paused` is set,
 * neither a parsed request (`readStart`) nor a pending 'resume' (`onSocketResume`) restarts it.
 */
export function pauseReading(socket: Socket & { _paused?: boolean }): void {
  socket._paused = true
  socket.pause()
}

/**
 * Undoes `pauseReading`.
 *
 * Relies on: `socketOnDrain` resumes the parser and the socket if `_paused` is set, and nothing else listens for 'drain'.
 * Node also calls it by itself whenever the socket has drained.
 */
export function resumeReading(socket: Socket): void {
  socket.emit('drain')
}

/**
 * Sets how a connection ends after its last response. Node would close it as soon as the kernel has taken the response.
 *
 * Relies on: `resOnFinish` calls `socket.destroySoon`, and no other part of a server does.
 */
export function afterLastResponse(socket: Socket, end: (socket: Socket) => void): void {
  socket.destroySoon = () => end(socket)
}

/**
 * Reports whether a connection must end with the response to this request. No other protocol is offered here (RFC 9110
 * §7.8), but llhttp stops after a request with `Upgrade`, and Node drops the rest of the chunk.
 */
export function stopsParser(message: IncomingMessage): boolean {
  return message.headers.upgrade !== undefined
}

/** Returns the reason of a 'clientError', from the codes of llhttp and of `checkConnections`. */
export function parserError({ code }: NodeJS.ErrnoException): 'reset' | 'head-too-large' | 'timeout' | 'not-http' {
  if (code === 'ECONNRESET') return 'reset'
  if (code === 'HPE_HEADER_OVERFLOW') return 'head-too-large'
  return code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'timeout' : 'not-http'
}

let nowhere: InstanceType<typeof MessagePort> | undefined

/**
 * Frees the memory of a body chunk that is no longer needed. The memory is outside V8's heap, so a collection would come
 * only after 15 MB of such chunks.
 *
 * Relies on: each chunk has its own memory (`Buffer::Copy` in node_http_parser.cc), and anything transferred to a port
 * whose other end is closed is gone (WHATWG HTML §9.5.4).
 */
export function freeChunk({ buffer, length }: Buffer): void {
  if (!(buffer instanceof ArrayBuffer) || buffer.byteLength !== length) return
  nowhere ??= portToNowhere()
  nowhere.postMessage(undefined, [buffer])
}

function portToNowhere(): InstanceType<typeof MessagePort> {
  const { port1, port2 } = new MessageChannel()
  port2.close()
  return port1
}
