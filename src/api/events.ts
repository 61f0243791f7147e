import * as Type from 'typebox/type'
import type { Authenticator, Credential } from '../auth/authenticator.ts'
import { pollCursor, streamCursor } from '../events/cursor.ts'
import { CONTENT_TYPE } from '../events/event-log.ts'
import { HeldPoll, PollAnswers } from '../events/long-poll.ts'
import type { Reader } from '../events/reader.ts'
import type { Readers } from '../events/readers.ts'
import { preamble, StreamReader } from '../events/stream.ts'
import type { Topic } from '../events/topic.ts'
import { formatEtag, preferredWait, prefers } from '../http/conditional.ts'
import { json, type Reply, type StreamReply, withHeaders } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { Route, RouteDocs } from '../http/route.ts'
import { type Limits, MAX_HOLD_S } from '../limits.ts'

/** Options that the event routes of all topics share. */
export interface EventRouteOptions {
  readonly readers: Readers
  readonly authenticator: Authenticator
  /** Returns a number from 0 to 1. */
  readonly random: () => number
  readonly limits: Pick<Limits, 'holdS' | 'stallS'>
}

/** `X-Accel-Buffering` tells nginx not to buffer the stream; `no-transform` tells all other proxies. */
const STREAM_HEADERS = [
  ...['Content-Type', 'text/event-stream'],
  ...['Cache-Control', 'no-store, no-transform'],
  ...['X-Accel-Buffering', 'no'],
]
const NO_EVENTS = Buffer.from('[]')
const NO_HEADERS: readonly string[] = []

/** The route for the events of a topic, as a stream or by long polling. */
export function eventRoute(path: string, topic: Topic, event: Type.TSchema, options: EventRouteOptions): Route {
  const { readers, authenticator, random, limits } = options
  const { log } = topic
  const streams = { topic, stallMs: limits.stallS * 1000, leave: (reader: Reader) => readers.remove(reader) }
  const polls = { topic, answers: new PollAnswers(topic), authenticator, readers }

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
    prefers(request.header('accept'), 'text/event-stream', CONTENT_TYPE)
      ? openStream(request, credential)
      : poll(request, credential)
  return { method: 'GET', path, needs: topic.grant, handle, docs: docsFor(topic.name, path, event) }
}

const Uuid = Type.String({ format: 'uuid' })

const ResyncObject = Type.Object(
  { reason: Type.Literal('unknown') },
  {
    $id: 'Resync',
    description: 'The device does not know the cursor, or no longer does; the next event carries the whole state.',
  },
)

/**
 * Returns the schema of an event of any topic, as a poll returns it.
 * @param events The schema of the data, by event name.
 */
export function eventSchema(events: Readonly<Record<string, Type.TSchema>>): Type.TSchema {
  const kinds = Object.entries({ ...events, 'events.resync': ResyncObject }).map(([name, data]) =>
    Type.Object({
      id: Type.Optional(
        Type.String({
          format: 'uuid',
          description: 'Absent for `events.resync`, and for a `system.reverted` that follows it.',
        }),
      ),
      contentType: Type.Literal(CONTENT_TYPE),
      event: Type.Literal(name),
      data,
    }),
  )
  return Type.Union(kinds, { $id: 'Event' })
}

function docsFor(name: string, path: string, event: Type.TSchema): RouteDocs {
  return {
    operationId: `get${path.replace(/\/([a-z])/g, (_, first: string) => first.toUpperCase())}`,
    summary: `Follow the changes of /${name}`,
    description:
      `With \`Accept: text/event-stream\` this is a stream of Server-Sent Events, otherwise a long poll. If the device does ` +
      `not know the cursor, or no longer does, it sends \`events.resync\`, then one \`${name}.changed\` with the whole state. ` +
      'The last event of a stream that the device ends is `events.closed`, with `{"reason": …}`: `expired`, `not yet ' +
      'valid`, `key replaced`, `issuer removed`, `issuer changed`, `not for this device`, `clock not set` or `shutting down`.',
    parameters: [
      {
        in: 'query',
        name: 'initialEventId',
        schema: Uuid,
        description:
          'Resume after this event: an ETag without its quotes. 00000000-0000-0000-0000-000000000000 starts from everything.',
      },
      {
        in: 'header',
        name: 'Last-Event-ID',
        schema: Uuid,
        description: 'The same, for a stream that reconnects. Takes precedence over the query parameter.',
      },
      {
        in: 'header',
        name: 'If-None-Match',
        schema: Type.String(),
        description: 'The same, for a poll: the ETag of the last response.',
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
        description:
          'The events after the cursor, oldest first. Without a cursor: no events, and the ETag to start from.',
        content: {
          'application/json': Type.Array(event),
          'text/event-stream': Type.String(),
        },
        sometimes: ['ETag', 'Preference-Applied'],
      },
      304: {
        description: 'Nothing changed while the poll was held.',
        headers: ['ETag'],
      },
      400: { description: 'The cursor is not a UUID.' },
      429: {
        description: 'This address has reached its limit of streams and held polls.',
        headers: ['Retry-After'],
      },
      503: {
        description: 'The device has reached its limit of streams and held polls.',
        headers: ['Retry-After'],
      },
    },
  }
}
