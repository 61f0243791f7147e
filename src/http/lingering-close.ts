import type { Duplex } from 'node:stream'
import { LINGER_MS } from '../limits.ts'

/**
 * Ends a connection with its last response, in stages (RFC 9112 §9.6): a connection that is closed with bytes unread is
 * reset, and a reset can make the client lose a response that it has not read yet. A client that closes its side, as most
 * do, ends the wait.
 */
export function lingeringClose(socket: Duplex, bytes?: Buffer): void {
  socket.end(bytes, () => {
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('close', () => clearTimeout(timer))
  })
}
