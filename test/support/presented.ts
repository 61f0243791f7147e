import type { X509Certificate } from 'node:crypto'
import { connect } from 'node:tls'

/** An emulator may take a connection for a machine that is restarting. */
const ANSWER_MS = 10_000

/** Returns the certificate that the server at port 443 presents, whoever signed it; undefined if none answers. */
export function presented(host: string): Promise<X509Certificate | undefined> {
  return new Promise(resolve => {
    const socket = connect({ host, port: 443, rejectUnauthorized: false, timeout: ANSWER_MS })
    socket.once('secureConnect', () => {
      resolve(socket.getPeerX509Certificate())
      socket.destroy()
    })
    socket.once('timeout', () => socket.destroy())
    socket.once('error', () => resolve(undefined))
    socket.once('close', () => resolve(undefined))
  })
}
