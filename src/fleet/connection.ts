import type { X509Certificate } from 'node:crypto'
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { pinOf } from '../../hal/format/certificate.ts'
import { CommandError } from '../cli/failure.ts'
import type { Endpoint, Proof } from './fleet-file.ts'

/** How a device proves its identity, with the authority's certificates if it has one. */
export type Trust = Exclude<Proof, { kind: 'ca' }> | { readonly kind: 'ca'; readonly certificates: string }

/** Milliseconds that a device has to accept a connection. */
export const CONNECT_MS = 5_000

/**
 * Connects to a device. When this resolves, the device has proved its identity. Nothing was sent to it before, above all no
 * credential.
 * @param shown Called with the certificate that proved it, which Node returns only once.
 * @throws {CommandError} if the device did not prove its identity; errors of the system as they are.
 */
export function open(
  { host, port }: Endpoint,
  trust: Trust,
  signal: AbortSignal,
  shown?: (certificate: X509Certificate) => void,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = trust.kind === 'none' ? connect({ host, port }) : tlsSocket({ host, port }, trust)
    const settle = (error?: Error) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
      if (!error) return resolve(socket)
      socket.destroy()
      reject(error)
    }
    const timer = setTimeout(() => settle(new CommandError(`no connection within ${CONNECT_MS / 1000} s`)), CONNECT_MS)
    const stop = () => settle(signal.reason)
    signal.addEventListener('abort', stop)
    socket
      .once('error', error => settle(error))
      .once('close', () => settle(new CommandError('it closes the connection')))
    if (trust.kind === 'none') socket.once('connect', () => settle())
    else
      socket.once('secureConnect', () => {
        const certificate = (socket as TLSSocket).getPeerX509Certificate()
        const why = mismatch(certificate, trust)
        if (!why && certificate) shown?.(certificate)
        settle(why)
      })
  })
}

function tlsSocket({ host, port }: Endpoint, trust: Trust): TLSSocket {
  return connectTls({
    host,
    port,
    // A name, not an address (RFC 6066 section 3).
    servername: isIP(host) === 0 ? host : '',
    ...(trust.kind === 'ca' && { ca: trust.certificates }),
    // A pinned certificate is the device's own: `mismatch` compares it, and no authority has signed it.
    rejectUnauthorized: trust.kind === 'ca',
  })
}

/** The device has shown another certificate: it is another device, or has a new key. */
export class Mismatch extends CommandError {}

/** Why a device is not the expected one; undefined if it is. */
function mismatch(certificate: X509Certificate | undefined, trust: Trust): Error | undefined {
  if (!certificate) return new CommandError('it shows no certificate')
  if (trust.kind === 'fingerprint' && certificate.fingerprint256 !== trust.fingerprint)
    return new Mismatch(`its certificate has another fingerprint: ${certificate.fingerprint256}`)
  if (trust.kind !== 'pin') return undefined
  const pin = pinOf(certificate.publicKey)
  return pin === trust.pin ? undefined : new Mismatch(`its certificate has another pin: sha256//${pin}`)
}
