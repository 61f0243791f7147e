/** Cross-origin requests (the Fetch standard, "CORS protocol"). No cookie is ever used, so any origin may ask. */
import type { IncomingMessage } from 'node:http'

/** Origins whose pages may read answers: `*`, or a list of serialized origins (`https://panel.example`). */
export type Origins = '*' | readonly string[]

const EXPOSED = [
  'Access-Control-Expose-Headers',
  'ETag, Confirm-Within, Preference-Applied, Retry-After, WWW-Authenticate',
]
const ANY = ['Access-Control-Allow-Origin', '*', ...EXPOSED]
/** Seconds that a browser may remember a preflight. */
const MAX_AGE_S = 600

/** The headers for an answer. With a list, an answer differs by origin, and says so to caches. */
export function corsHeaders(request: IncomingMessage, origins: Origins): readonly string[] {
  if (origins === '*') return ANY
  const { origin } = request.headers
  const allowed = origin !== undefined && origins.includes(origin)
  return allowed ? ['Vary', 'Origin', 'Access-Control-Allow-Origin', origin, ...EXPOSED] : ['Vary', 'Origin']
}

export function isPreflight(request: IncomingMessage): boolean {
  const { headers } = request
  return (
    request.method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  )
}

/** What a preflight is answered with, beside `corsHeaders`. */
export function preflightHeaders(methods: string): readonly string[] {
  return [
    ...['Access-Control-Allow-Methods', methods],
    ...['Access-Control-Allow-Headers', 'Authorization, Content-Type, If-Match, If-None-Match, Last-Event-ID, Prefer'],
    ...['Access-Control-Max-Age', String(MAX_AGE_S)],
  ]
}
