/** Where a client stopped, as the client reports it: a UUID from an ETag, from a stream's `id:`, or from `initialEventId`. */
import { notEtags, parseEtags } from '../http/conditional.ts'
import type { Request } from '../http/request.ts'
import { UUID } from '../http/uuid.ts'
import { Problem } from '../problem.ts'
import type { EventLog, Position } from './event-log.ts'

/** A position in the log; `unknown` for an id that the log does not hold; `none` if the client names no id. */
export type Cursor = Position | 'unknown' | 'none'

/** Returns the cursor of a stream: `Last-Event-ID`, which a client sends when it reconnects, or else the query. */
export function streamCursor(request: Request, log: EventLog): Cursor {
  const header = request.header('last-event-id')?.trim()
  return header ? locate(header, 'Last-Event-ID', log) : queryCursor(request, log)
}

/** Returns the cursor of a poll: the newest id in `If-None-Match` that the log holds, or else the query. */
export function pollCursor(request: Request, log: EventLog): Cursor {
  const header = request.header('if-none-match')?.trim()
  if (!header) return queryCursor(request, log)
  const etags = parseEtags(header)
  if (etags === '*') return log.head
  if (etags === undefined) throw notEtags('If-None-Match')
  const known = etags
    .map(({ tag }) => locate(tag, 'An ETag of If-None-Match', log))
    .filter(cursor => cursor !== 'unknown')
  return known.length === 0 ? 'unknown' : Math.max(...known)
}

function queryCursor(request: Request, log: EventLog): Cursor {
  const id = request.queryParameter('initialEventId')
  return id === undefined ? 'none' : locate(id, 'initialEventId', log)
}

function locate(id: string, where: string, log: EventLog): Position | 'unknown' {
  if (!UUID.test(id)) throw notAnId(where)
  return log.positionOf(id.toLowerCase()) ?? 'unknown'
}

function notAnId(where: string): Problem {
  return new Problem('bad-request', `${where} must be the UUID of an event, as in an ETag or in the id of an event.`)
}
