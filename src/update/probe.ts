import { request } from 'node:http'
import { createConnection } from 'node:net'
import type { Address } from '../config.ts'

/** Milliseconds for an answer. A small board that has just started is busy. */
const ANSWER_MS = 10_000
/** Costs receiverd little, and needs a credential. */
const PATH = '/api/v1/status'

/** How the API is asked. */
export interface Door {
  readonly address: Address
  /** Whether a server in front answers by TLS. Its certificate may be the owner's, for any name. */
  readonly isTls: boolean
}

/** The status of the API's answer; undefined if there is none. @param token Not sent through a server in front. */
export async function statusAt({ address, isTls }: Door, token?: string): Promise<number | undefined> {
  // Loaded only where it is asked for, as in hal/os/certificate.ts.
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
