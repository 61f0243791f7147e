import type { WholeReply } from '../http/reply.ts'
import type { OpenRoute } from '../http/route.ts'
import type { Page } from './built-page.ts'

/** Scripts, styles and requests to this device alone, nothing inline, and no frame around it (CSP Level 3). */
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

/** The Device Management page and its files. They hold no data, so they need no credential. */
export function pageRoutes({ html, assets }: Page): readonly OpenRoute[] {
  return [
    file('/', 'getPage', () => ({ status: 200, headers: HTML_HEADERS, body: Buffer.from(html()) })),
    ...assets.map(({ name, type, text }) =>
      file(`/assets/${name}`, 'getAsset', () => ({
        status: 200,
        headers: ['Content-Type', type],
        body: Buffer.from(text()),
        isImmutable: true,
      })),
    ),
  ]
}

/** Made when it is first asked for, and then kept, so that a page which nobody opens takes no memory. */
function file(path: string, operationId: string, make: () => WholeReply): OpenRoute {
  let reply: WholeReply | undefined
  return {
    method: 'GET',
    path,
    needs: 'nothing',
    handle: () => {
      reply ??= make()
      return reply
    },
    docs: { operationId, summary: 'Read a file of the page', answers: {} },
  }
}
