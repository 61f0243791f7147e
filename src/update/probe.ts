import { request } from 'node:http'
import { createConnection } from 'node:net'
import type { Address } from '../config.ts'

/** Milliseconds to wait for an answer. A small board is busy just after its start. */
const ANSWER_MS = 10_000
/** A request that costs receiverd little, and needs a credential. */
const PATH = '/api/v1/status'

/** A way to reach the API. */
export interface Door {
  readonly address: Address
  /** Whether to go through the server in front, by TLS. Its certificate is not verified: an owner's own may be for any name. */
  readonly isTls: boolean
}

/** Returns the HTTP status of the API's answer; undefined without an answer. @param token Never send one through TLS here. */
export async function statusAt({ address, isTls }: Door, token?: string): Promise<number | undefined> {
  // Loaded only when needed, as in hal/os/certificate.ts.
  const tls = isTls ? await import('node:tls') : undefined
  const connect = () =>
    tls
      ? tls.connect({ ...address, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] })
      : createConnection(address)
  return new Promise(resolve => {
    const headers = { Host: address.host, ...(token !== undefined && { Authorization: `Bearer ${token}` }) }
    const asked = request({ path: PATH, headers, createConnection: connect, signal: AbortSignal.timeout(ANSWER_MS) })
      .on('error', () => resolve(undefined))
      .on('response', answer => {
        resolve(answer.statusCode)
        asked.destroy()
      })
    asked.end()
  })
}
