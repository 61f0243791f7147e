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
  /**
   * Removes the bundle, and cancels any transfer that is bringing it in.
   * @param precondition Called whenever another bundle may have come in between; throws if this one must not be removed.
   * @throws {Problem} 409 while it is being installed.
   */
  readonly remove: (precondition: () => void) => Promise<void>
  readonly log: Log
  readonly maxBytes: number
  /** @throws {Problem} 409 if the device cannot be updated. */
  readonly requirePossible: () => void
  readonly stallMs?: number
  readonly totalMs?: number
}

/** The byte range that a body covers, and the total size (RFC 9110 §14.4, §14.5). */
interface Range {
  readonly start: number
  readonly total: number
}

const PATH = '/update/bundle'
const RANGE = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/i

const ReceivedObject = Type.Object(
  {
    bytes: Type.Integer({ minimum: 1, description: 'Size of the whole bundle in bytes.' }),
    receivedBytes: Type.Integer({ minimum: 0, description: 'Bytes received so far.' }),
  },
  { $id: 'ReceivedBundle' },
)

const NOT_POSSIBLE: AnswerDocs = { description: 'This device cannot be updated this way.' }

/** Routes that upload, resume, inspect and remove the firmware bundle. */
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
        if (!current) throw new Problem('not-found', 'No bundle is present, not even in part.')
        const { etag, bytes, receivedBytes } = current
        return (
          // Until then, the same ETag stands for fewer bytes.
          (receivedBytes === bytes ? notModified(request, etag) : undefined) ??
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
            description: 'The bundle, or the part of it received so far.',
            content: { 'application/json': ReceivedObject },
            headers: ['ETag', 'Upload-Offset'],
          },
          304: { description: 'The upload is still the one with that ETag, and complete.', headers: ['ETag'] },
          404: { description: 'No bundle is present.' },
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
        await options.remove(() => requireSame(request, store.current?.etag, 'No bundle is present.'))
        options.log('notice', `${callerOf(request, credential)} removed the firmware bundle`)
        return { status: 204, headers: [] }
      },
      docs: {
        operationId: 'deleteBundle',
        summary: 'Remove the firmware bundle',
        description: 'Ends an upload or a download in progress.',
        parameters: [{ ...IF_MATCH, description: 'The ETag of the bundle to remove.' }],
        answers: {
          204: { description: 'The bundle was removed.' },
          409: { description: 'The bundle is being installed, or this device cannot be updated this way.' },
          412: { description: 'The bundle is not the one with that ETag.', sometimes: ['ETag'] },
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
    'To resume an interrupted upload: the rest of the bundle, from `Upload-Offset` to its last byte. Needs `If-Match`.',
}
const IF_MATCH: ParameterDocs = {
  in: 'header',
  name: 'If-Match',
  schema: Type.String(),
  description: 'The ETag of the upload to resume.',
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
      if (!incoming) throw new Error('the route expects a streamed body')
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
        'Replaces the current bundle. A broken connection loses nothing: for an hour, `GET` reports how much was received, ' +
        `and another \`PUT\` resumes from there. An upload may take at most ${totalMs / 3_600_000} hours, and may stall for ` +
        `at most ${stallMs / 1000} seconds.`,
      parameters: [CONTENT_RANGE, IF_MATCH],
      answers: {
        201: {
          description: 'The bundle is complete, durable, and signed for this device. Nothing is installed yet.',
          content: { 'application/json': UpdateState.properties.bundle },
          headers: ['ETag'],
        },
        408: { description: 'The bundle did not arrive in time. The part that arrived is kept for an hour.' },
        409: {
          description:
            'Another bundle is being received or installed, the upload does not resume at the offset in `Content-Range`, or ' +
            'this device cannot be updated this way.',
          sometimes: ['Upload-Offset', 'Retry-After'],
        },
        411: { description: '`Content-Length` is missing.' },
        412: { description: 'Another upload has begun since that ETag.', sometimes: ['ETag'] },
        413: { description: 'The bundle is too large.' },
        415: { description: 'The media type is not supported.', headers: ['Accept'] },
        422: {
          description:
            'The bundle was rejected and removed. The type ends in `bundle-signature`, `bundle-compatible`, `bundle-damaged` ' +
            'or `bundle-too-old`.',
        },
        428: { description: 'The request resumes an upload, but `If-Match` is missing.' },
        500: { description: 'The bundle could not be written to storage.' },
        503: {
          description: 'The service is shutting down. The part that arrived is kept for an hour.',
          headers: ['Retry-After'],
        },
        507: { description: 'The device has too little free space for the bundle.' },
      },
    },
  }
}

function etagOf({ current }: BundleStore): readonly string[] {
  return current ? ['ETag', formatEtag(current.etag)] : []
}

/** @throws {Problem} 412 if the request names another upload, or if there is none. */
function requireSame(request: Request, etag: string | undefined, lacking: string): void {
  if (etag !== undefined) checkPreconditions(request, etag)
  else if (requireEtags(request, 'If-Match') !== undefined) throw new Problem('precondition-failed', lacking)
}

/** @throws {Problem} 428 if a partial upload does not name its ETag, 412 if it names another upload. */
function requireSameUpload(request: Request, etag: string | undefined): void {
  requireSame(request, etag, 'There is no upload to go on with. Send the whole bundle.')
  const range = request.header('content-range')
  if (range !== undefined && !/^bytes 0-/i.test(range) && request.header('if-match') === undefined)
    throw new Problem('precondition-required', 'Send the ETag of the upload that goes on as If-Match.')
}

/** @throws {Problem} 400 unless the body extends to the last byte of the bundle. */
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
