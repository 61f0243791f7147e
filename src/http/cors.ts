/** Cross-origin requests (the Fetch standard, "CORS protocol"). No cookies are used, so any origin may be allowed. */
import type { IncomingMessage } from 'node:http'
import type { Origins } from '../config.ts'

const EXPOSED = [
  'Access-Control-Expose-Headers',
  'ETag, Confirm-Within, Preference-Applied, Retry-After, Upload-Offset, WWW-Authenticate',
]
const ALLOWED = [
  ...['Authorization', 'Content-Range', 'Content-Type'],
  ...['If-Match', 'If-None-Match', 'Last-Event-ID', 'Prefer'],
]
const ANY = ['Access-Control-Allow-Origin', '*', ...EXPOSED]
const VARY = ['Vary', 'Origin']
/** Seconds for which a browser may cache a preflight. */
const MAX_AGE_S = 600

/** The CORS headers of responses. Each origin always gets the same array, so that a shared response is encoded once. */
export class Cors {
  readonly #listed: ReadonlyMap<string, readonly string[]> | undefined

  constructor(origins: Origins) {
    if (origins !== '*')
      this.#listed = new Map(
        origins.map(origin => [origin, [...VARY, 'Access-Control-Allow-Origin', origin, ...EXPOSED]]),
      )
  }

  /** Returns the headers for a request. With a list of origins, responses differ by origin, so they carry `Vary`. */
  headers(message: IncomingMessage): readonly string[] {
    if (!this.#listed) return ANY
    const { origin } = message.headers
    return (origin !== undefined && this.#listed.get(origin)) || VARY
  }
}

export function isPreflight(message: IncomingMessage): boolean {
  return (
    message.method === 'OPTIONS' &&
    message.headers.origin !== undefined &&
    message.headers['access-control-request-method'] !== undefined
  )
}

/** Returns the additional headers of the response to a preflight. */
export function preflightHeaders(methods: string): readonly string[] {
  return [
    ...['Access-Control-Allow-Methods', methods],
    ...['Access-Control-Allow-Headers', ALLOWED.join(', ')],
    ...['Access-Control-Max-Age', String(MAX_AGE_S)],
  ]
}
