/** Cross-origin requests (the Fetch standard, "CORS protocol"). No cookie is ever used, so any origin may ask. */
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
/** Seconds that a browser may remember a preflight. */
const MAX_AGE_S = 600

/** The CORS headers of answers. Each origin gets the same array every time, so that a shared answer is encoded once. */
export class Cors {
  readonly #listed: ReadonlyMap<string, readonly string[]> | undefined

  constructor(origins: Origins) {
    if (origins !== '*')
      this.#listed = new Map(
        origins.map(origin => [origin, [...VARY, 'Access-Control-Allow-Origin', origin, ...EXPOSED]]),
      )
  }

  /** With a list, answers differ by origin, and `Vary` says so to caches. */
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

/** Headers that the answer to a preflight has in addition. */
export function preflightHeaders(methods: string): readonly string[] {
  return [
    ...['Access-Control-Allow-Methods', methods],
    ...['Access-Control-Allow-Headers', ALLOWED.join(', ')],
    ...['Access-Control-Max-Age', String(MAX_AGE_S)],
  ]
}
