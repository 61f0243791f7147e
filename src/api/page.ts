import { gunzipSync, gzipSync } from 'node:zlib'
import type { WholeReply } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { OpenRoute } from '../http/route.ts'
import type { Asset, Page } from './built-page.ts'

/** Allows scripts, styles and requests from and to this device only, nothing inline, and no framing (CSP Level 3). */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

const HTML_HEADERS = [
  ...['Content-Type', 'text/html; charset=utf-8'],
  ...['Content-Security-Policy', POLICY],
  ...['Referrer-Policy', 'no-referrer'],
  ...['Cross-Origin-Opener-Policy', 'same-origin'],
]

const VARY = ['Vary', 'Accept-Encoding']

/** Routes of the Device Management page and its files. They hold no data, so they need no credential. */
export function pageRoutes({ html, assets }: Page): readonly OpenRoute[] {
  const compressed = once(() => gzipSync(html(), { level: 9 }))
  const plain = once(() => Buffer.from(html()))
  return [route('/', 'getPage', inEither(HTML_HEADERS, compressed, plain)), ...assets.map(assetRoute)]
}

function assetRoute({ name, type, gzip }: Asset): OpenRoute {
  const compressed = once(() => Buffer.from(gzip(), 'base64'))
  const plain = once(() => gunzipSync(compressed()))
  const handle = inEither(['Content-Type', type], compressed, plain)
  return route(`/assets/${name}`, 'getAsset', request => ({ ...handle(request), isImmutable: true }))
}

/** Answers with the plain body, or with the compressed one if the client accepts gzip. */
function inEither(headers: readonly string[], compressed: () => Buffer, plain: () => Buffer) {
  return (request: Request): WholeReply =>
    acceptsGzip(request.header('accept-encoding'))
      ? { status: 200, headers: [...headers, ...VARY, 'Content-Encoding', 'gzip'], body: compressed() }
      : { status: 200, headers: [...headers, ...VARY], body: plain() }
}

/** Reports whether a client accepts gzip (RFC 9110, section 12.5.3). Without the header, it might not support it. */
function acceptsGzip(accepted = ''): boolean {
  const codings = accepted.split(',').map(coding => coding.trim().toLowerCase())
  const found = codings.find(coding => /^(?:x-)?gzip\b/.test(coding)) ?? codings.find(coding => coding.startsWith('*'))
  return found !== undefined && !/;\s*q=0(?:\.0*)?$/.test(found)
}

/** Calls `make` on first use and keeps the result, so that a page that nobody opens takes no memory. */
function once(make: () => Buffer): () => Buffer {
  let made: Buffer | undefined
  return () => {
    made ??= make()
    return made
  }
}

function route(path: string, operationId: string, handle: OpenRoute['handle']): OpenRoute {
  return {
    method: 'GET',
    path,
    needs: 'nothing',
    handle,
    docs: { operationId, summary: 'Read a file of the page', answers: {} },
  }
}
