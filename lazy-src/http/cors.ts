/** Cross-origin requests (the Fetch standard, "CORS protocol"). No cookie is ever used, so any origin may ask. */
import type { IncomingMessage } from 'node:http'

/** Origins whose pages may read answers: `*`, or a list of serialized origins (`https://panel.example`). */
export type Origins = '*' | readonly string[]

const EXPOSED = [
  'Access-Control-Expose-Headers',
  'ETag, Confirm-Within, Preference-Applied, Retry-After, WWW-Authenticate',
]
const ANY = ['Access-Control-Allow-Origin', '*', ...EXPOSED]
const VARY = ['Vary', 'Origin']
/** Seconds that a browser may remember a preflight. */
const MAX_AGE_S = 600

/** The headers for answers, by origin: the same array each time, so that an answer for many is encoded once. */
export class Cors {
  readonly #listed: ReadonlyMap<string, readonly string[]> | undefined

  constructor(origins: Origins) {
    if (origins !== '*')
      this.#listed = new Map(
        origins.map(origin => [origin, [...VARY, 'Access-Control-Allow-Origin', origin, ...EXPOSED]]),
      )
  }

  /** With a list, an answer differs by origin, and says so to caches. */
  headers({ headers: { origin } }: IncomingMessage): readonly string[] {
    if (!this.#listed) return ANY
    return (origin !== undefined && this.#listed.get(origin)) || VARY
  }
}

export function isPreflight(request: IncomingMessage): boolean {
  const { headers } = request
  return (
    request.method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}

/** What a preflight is answered with, beside those. */
export function preflightHeaders(methods: string): readonly string[] {
  return [
    ...['Access-Control-Allow-Methods', methods],
    ...['Access-Control-Allow-Headers', 'Authorization, Content-Type, If-Match, If-None-Match, Last-Event-ID, Prefer'],
    ...['Access-Control-Max-Age', String(MAX_AGE_S)],
  ]
}
