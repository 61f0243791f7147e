import type { X509Certificate } from 'node:crypto'
import { ADDRCONFIG, type LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { connect, isIP, type LookupFunction, type Socket, type TcpNetConnectOpts } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { pinOf } from '../../hal/format/certificate.ts'
import { CommandError } from '../cli/failure.ts'
import type { Endpoint, Proof } from './fleet-file.ts'

/** How a device proves its identity, with the authority's certificates if it has one. */
export type Trust = Exclude<Proof, { kind: 'ca' }> | { readonly kind: 'ca'; readonly certificates: string }

/** Milliseconds for the look-up of a name. */
const LOOKUP_MS = 5_000
/** Milliseconds that a device has to accept a connection. */
export const CONNECT_MS = 5_000

/**
 * Connects to a device. When this resolves, the device has proved its identity. Nothing was sent to it before, above all no
 * credential.
 * @param shown Called with the certificate that proved it, which Node returns only once.
 * @throws {CommandError} if the device did not prove its identity; errors of the system as they are.
 */
export async function open(
  { host, port }: Endpoint,
  trust: Trust,
  signal: AbortSignal,
  shown?: (certificate: X509Certificate) => void,
): Promise<Socket> {
  const late = `the name ${host} is not resolved within ${LOOKUP_MS / 1000} s`
  const addresses = await inTime(lookUp(host), LOOKUP_MS, late, signal)
  const place = {
    host,
    port,
    // With it, Node asks for all addresses.
    autoSelectFamily: true,
    lookup: ((_host, _options, found) => found(null, addresses)) satisfies LookupFunction,
  } satisfies TcpNetConnectOpts
  const socket = trust.kind === 'none' ? connect(place) : tlsSocket(place, trust)
  try {
    await inTime(proved(socket, trust, shown), CONNECT_MS, `no connection within ${CONNECT_MS / 1000} s`, signal)
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  }
}

/** Look-ups under way, by name. The system cannot end one, so there is only one for each name. */
const lookUps = new Map<string, Promise<LookupAddress[]>>()

function lookUp(host: string): Promise<LookupAddress[]> {
  const pending = lookUps.get(host)
  if (pending) return pending
  const begun = lookup(host, { all: true, hints: ADDRCONFIG }).finally(() => lookUps.delete(host))
  lookUps.set(host, begun)
  return begun
}

/** Settles as `result` does, or fails before: with `late` after `ms`, or with the reason of the signal. */
async function inTime<T>(result: Promise<T>, ms: number, late: string, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  let timer: NodeJS.Timeout | undefined
  let stop = () => {}
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new CommandError(late)), ms)
    stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop)
  })
  try {
    return await Promise.race([result, over])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

/** Resolves when the device has proved its identity. */
function proved(socket: Socket, trust: Trust, shown?: (certificate: X509Certificate) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    socket
      .once('error', reject)
      .once('close', () => reject(new CommandError('it closes the connection')))
      .once(trust.kind === 'none' ? 'connect' : 'secureConnect', () => {
        if (trust.kind === 'none') return resolve()
        const certificate = (socket as TLSSocket).getPeerX509Certificate()
        const why = mismatch(certificate, trust)
        if (why) return reject(why)
        if (certificate) shown?.(certificate)
        resolve()
      })
  })
}

function tlsSocket(place: TcpNetConnectOpts, trust: Trust): TLSSocket {
  const { host = '' } = place
  return connectTls({
    ...place,
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
