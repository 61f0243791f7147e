import * as Type from 'typebox/type'
import { tooLarge } from '../http/body.ts'
import { checkPreconditions, formatEtag, IfNoneMatch, notModified, requireEtags } from '../http/conditional.ts'
import { json } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { AnswerDocs, ParameterDocs, Route } from '../http/route.ts'
import { UPLOAD_STALL_MS, UPLOAD_TOTAL_MS } from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import type { BundleStore } from '../update/bundle-store.ts'
import { UpdateState } from '../update/state.ts'
import { callerOf } from './caller.ts'

export interface BundleRoutesOptions {
  readonly store: BundleStore
  /** Removes the bundle, and ends what brings it. @throws {Problem} 409 while it is installed. */
  readonly remove: () => Promise<void>
  readonly log: Log
  readonly maxBytes: number
  /** @throws {Problem} 409 if the device cannot be updated. */
  readonly requirePossible: () => void
  readonly stallMs?: number
  readonly totalMs?: number
}

/** The part of a whole that a body is (RFC 9110 §14.4, §14.5). */
interface Range {
  readonly start: number
  readonly total: number
}

const PATH = '/update/bundle'
const RANGE = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/i

const ReceivedObject = Type.Object(
  {
    bytes: Type.Integer({ minimum: 1, description: 'Of the whole bundle.' }),
    receivedBytes: Type.Integer({ minimum: 0, description: 'Of those, as many as have come.' }),
  },
  { $id: 'ReceivedBundle' },
)

const NOT_POSSIBLE: AnswerDocs = { description: 'This device cannot be updated this way.' }

/** The firmware bundle: sent, resumed, looked at, and removed. */
export function bundleRoutes(options: BundleRoutesOptions): readonly Route[] {
  const { store, requirePossible } = options
  return [
    putRoute(options),
    {
      method: 'GET',
      path: PATH,
      needs: 'admin:r',
      handle: request => {
        requirePossible()
        const { current } = store
        if (!current) throw new Problem('not-found', 'There is no bundle, and nothing of one.')
        const { etag, bytes, receivedBytes } = current
        return (
          notModified(request, etag) ??
          json(Buffer.from(JSON.stringify({ bytes, receivedBytes })), [
            ...['ETag', formatEtag(etag)],
            ...['Upload-Offset', String(receivedBytes)],
          ])
        )
      },
      docs: {
        operationId: 'getBundle',
        summary: 'Read how much of a firmware bundle has been received',
        parameters: [IfNoneMatch],
        answers: {
          200: {
            description: 'The bundle that is there, or what has come of one.',
            content: { 'application/json': ReceivedObject },
            headers: ['ETag', 'Upload-Offset'],
          },
          304: { description: 'It is still the same upload.', headers: ['ETag'] },
          404: { description: 'There is none.' },
          409: NOT_POSSIBLE,
        },
      },
    },
    {
      method: 'DELETE',
      path: PATH,
      needs: 'admin:w',
      handle: async (request, credential) => {
        requirePossible()
        await options.remove()
        options.log('notice', `${callerOf(request, credential)} removed the firmware bundle`)
        return { status: 204, headers: [] }
      },
      docs: {
        operationId: 'deleteBundle',
        summary: 'Remove the firmware bundle',
        description: 'An upload or a download that is under way ends.',
        answers: {
          204: { description: 'There is none any more.' },
          409: { description: 'It is being installed, or this device cannot be updated this way.' },
        },
      },
    },
  ]
}

const CONTENT_RANGE: ParameterDocs = {
  in: 'header',
  name: 'Content-Range',
  schema: Type.String({ examples: ['bytes 1000-1999/2000'] }),
  description:
    'To go on after a break: the rest of the bundle, from `Upload-Offset` to its last byte. Needs `If-Match`.',
}
const IF_MATCH: ParameterDocs = {
  in: 'header',
  name: 'If-Match',
  schema: Type.String(),
  description: 'The ETag of the upload that goes on.',
}

function putRoute({
  store,
  log,
  maxBytes,
  requirePossible,
  stallMs = UPLOAD_STALL_MS,
  totalMs = UPLOAD_TOTAL_MS,
}: BundleRoutesOptions): Route {
  return {
    method: 'PUT',
    path: PATH,
    needs: 'admin:w',
    body: {
      accepts: ['application/vnd.rauc.bundle', 'application/octet-stream'],
      maxBytes,
      stallMs,
      totalMs,
      precondition: request => {
        requirePossible()
        requireSameUpload(request, store.current?.etag)
      },
    },
    handle: async (request, credential) => {
      const { incoming } = request
      if (!incoming) throw new Error('the route takes a body as it arrives')
      const { start, total } = rangeOf(request, incoming.length)
      if (total > maxBytes) throw tooLarge(maxBytes)
      const says = await store.receive({ source: 'upload', bytes: total, offset: start, incoming })
      log('notice', `${callerOf(request, credential)} sent a firmware bundle of ${total} bytes`)
      return { ...json(Buffer.from(JSON.stringify(says)), etagOf(store)), status: 201 }
    },
    docs: {
      operationId: 'putBundle',
      summary: 'Send a firmware bundle',
      description:
        'It takes the place of the one that is there. A connection that breaks off loses nothing: `GET` says for an hour how ' +
        `much has come, and another \`PUT\` goes on there. It may take ${totalMs / 3_600_000} hours, and ` +
        `${stallMs / 1000} seconds without a byte.`,
      parameters: [CONTENT_RANGE, IF_MATCH],
      answers: {
        201: {
          description: 'It is whole, durable, and signed for this device. Nothing is installed yet.',
          content: { 'application/json': UpdateState.properties.bundle },
          headers: ['ETag'],
        },
        408: { description: 'It did not arrive in time. The part that has arrived is kept for an hour.' },
        409: {
          description:
            'Another bundle is received or installed, the upload does not go on at the offset of `Content-Range`, or this ' +
            'device cannot be updated this way.',
          sometimes: ['Upload-Offset', 'Retry-After'],
        },
        411: { description: 'There is no `Content-Length`.' },
        412: { description: 'Another upload has begun since that ETag.', sometimes: ['ETag'] },
        413: { description: 'The bundle is too large.' },
        415: { description: 'The media type is not one of those.', headers: ['Accept'] },
        422: {
          description:
            'The bundle is refused, and removed. The type ends in `bundle-signature`, `bundle-compatible`, `bundle-damaged` or ' +
            '`bundle-too-old`.',
        },
        428: { description: 'The upload goes on, and `If-Match` is missing.' },
        500: { description: 'The storage refused it.' },
        503: {
          description: 'The service is shutting down. The part that has arrived is kept for an hour.',
          headers: ['Retry-After'],
        },
        507: { description: 'The device has too little space for it.' },
      },
    },
  }
}

function etagOf({ current }: BundleStore): readonly string[] {
  return current ? ['ETag', formatEtag(current.etag)] : []
}

/** @throws {Problem} 428 for a part of an upload that is not named, 412 for another one */
function requireSameUpload(request: Request, etag: string | undefined): void {
  if (etag !== undefined) checkPreconditions(request, etag)
  else if (requireEtags(request, 'If-Match') !== undefined)
    throw new Problem('precondition-failed', 'There is no upload to go on with. Send the whole bundle.')
  const range = request.header('content-range')
  if (range !== undefined && !/^bytes 0-/i.test(range) && request.header('if-match') === undefined)
    throw new Problem('precondition-required', 'Send the ETag of the upload that goes on as If-Match.')
}

/** @throws {Problem} 400 unless the body reaches from some byte to the last. */
function rangeOf(request: Request, length: number): Range {
  const header = request.header('content-range')
  if (header === undefined) return { start: 0, total: length }
  const [, start, end, total] = (RANGE.exec(header) ?? []).map(Number)
  if (start === undefined || end === undefined || total === undefined)
    throw new Problem('bad-request', 'Content-Range must be as in “bytes 1000-1999/2000”.')
  if (end !== total - 1) throw new Problem('bad-request', 'Content-Range must reach the last byte of the bundle.')
  if (end - start + 1 !== length)
    throw new Problem('bad-request', 'Content-Range and Content-Length do not say the same.')
  return { start, total }
}
