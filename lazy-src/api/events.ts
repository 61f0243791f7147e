import * as Type from 'typebox/type'
import type { Authenticator, Credential } from '../auth/authenticator.ts'
import { pollCursor, streamCursor } from '../events/cursor.ts'
import { CONTENT_TYPE, type EventLog } from '../events/event-log.ts'
import { HeldPoll, PollAnswers } from '../events/long-poll.ts'
import type { Reader, Readers } from '../events/readers.ts'
import type { Resync } from '../events/resync.ts'
import { preamble, StreamReader } from '../events/stream.ts'
import { formatEtag, preferredWait, prefersEventStream } from '../http/conditional.ts'
import { json, type Reply, type StreamReply, withHeaders } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { Route, RouteDocs } from '../http/router.ts'
import { type Limits, MAX_HOLD_S } from '../limits.ts'

export interface EventRoutesOptions {
  readonly log: EventLog
  readonly readers: Readers
  readonly resync: Resync
  readonly authenticator: Authenticator
  /** 0 to 1. */
  readonly random: () => number
  readonly limits: Pick<Limits, 'holdS' | 'stallS'>
}

/** `X-Accel-Buffering` is nginx's word for not holding a stream back; `no-transform` says it to any proxy. */
const STREAM_HEADERS = [
  ...['Content-Type', 'text/event-stream'],
  ...['Cache-Control', 'no-store, no-transform'],
  ...['X-Accel-Buffering', 'no'],
]
const NO_EVENTS = Buffer.from('[]')
const NO_HEADERS: readonly string[] = []

/** The events as a stream or by long polling. */
export function eventRoutes(options: EventRoutesOptions): readonly Route[] {
  const { log, readers, resync, authenticator, random, limits } = options
  const streams = { log, resync, stallMs: limits.stallS * 1000, leave: (reader: Reader) => readers.remove(reader) }
  const polls = { log, answers: new PollAnswers(log, resync), authenticator, readers }

  const openStream = (request: Request, credential: Credential): StreamReply => {
    const named = streamCursor(request, log)
    const cursor = named === 'none' ? log.head : named
    const { network } = request
    readers.requireRoom(network)
    return {
      headers: STREAM_HEADERS,
      preamble: preamble(random(), cursor === 'unknown' ? undefined : log.idAt(cursor)),
      open: socket => {
        const reader = new StreamReader(streams, socket, credential, network, cursor)
        readers.add(reader)
        reader.wake()
        return reader
      },
    }
  }

  const poll = (request: Request, credential: Credential): Reply => {
    const cursor = pollCursor(request, log)
    const wait = preferredWait(request.header('prefer'))
    const holdS = wait === undefined ? limits.holdS : Math.min(wait, MAX_HOLD_S)
    const applied = wait === undefined ? NO_HEADERS : ['Preference-Applied', `wait=${holdS}`]
    if (cursor === 'none') return json(NO_EVENTS, ['ETag', formatEtag(log.latestId), ...applied])
    if (cursor !== log.head || holdS === 0 || request.isHead) return withHeaders(polls.answers.after(cursor), applied)
    readers.requireRoom(request.network)
    return new HeldPoll(polls, request, credential, cursor, holdS * 1000, applied)
  }

  const handle = (request: Request, credential: Credential) =>
    prefersEventStream(request.header('accept')) ? openStream(request, credential) : poll(request, credential)
  return [{ method: 'GET', path: '/api/v1/events', needs: 'admin:r', handle, docs }]
}

const Uuid = Type.String({ format: 'uuid' })

const EventObject = Type.Object({
  contentType: Type.Literal(CONTENT_TYPE),
  event: Type.String({
    description: 'The type: `system.changed`, `system.reverted`, or `events.resync` where events were missed.',
  }),
  data: Type.Object(
    {},
    {
      description: 'For `system.changed` each changed property of the configuration with its whole value.',
    },
  ),
})

const docs: RouteDocs = {
  summary: 'Follow the changes of the configuration',
  description:
    'With `Accept: text/event-stream` a stream of Server-Sent Events, else a long poll. A cursor that the device does ' +
    'not hold (any more) is answered by `events.resync` and one `system.changed` with the whole configuration.',
  parameters: [
    {
      in: 'query',
      name: 'initialEventId',
      schema: Uuid,
      description: 'Go on after this event: an ETag without its quotes.',
    },
    {
      in: 'header',
      name: 'Last-Event-ID',
      schema: Uuid,
      description: 'The same for a stream that reconnects; wins over the query.',
    },
    {
      in: 'header',
      name: 'If-None-Match',
      schema: Type.String(),
      description: 'The same for a poll: the ETag of the last answer.',
    },
    {
      in: 'header',
      name: 'Prefer',
      schema: Type.String(),
      description: `\`wait=N\`: hold the poll for N seconds, at most ${MAX_HOLD_S} (RFC 7240).`,
    },
  ],
  answers: {
    200: {
      description: 'Events after the cursor, oldest first; with no cursor none, and the ETag to begin from.',
      content: {
        'application/json': Type.Array(EventObject),
        'text/event-stream': Type.String(),
      },
      sometimes: ['ETag', 'Preference-Applied'],
    },
    304: {
      description: 'Nothing has changed for as long as the poll was held.',
      headers: ['ETag'],
    },
    400: { description: 'A cursor that is not a UUID.' },
    429: {
      description: 'This address has all its streams and held polls.',
      headers: ['Retry-After'],
    },
    503: {
      description: 'All streams and held polls are taken.',
      headers: ['Retry-After'],
    },
  },
}
