import * as Type from 'typebox/type'
import type { Authenticator, Credential } from '../auth/authenticator.ts'
import { formatEtag, IfNoneMatch, notModified } from '../http/conditional.ts'
import { json } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { AnswerDocs, Route } from '../http/route.ts'
import { UUID } from '../http/uuid.ts'
import { DECISION_MS } from '../limits.ts'
import { Problem } from '../problem.ts'
import { MAX_ADDRESS, MAX_DEVICE_ID, MAX_MODEL, MAX_NAME, PROTOCOL } from '../sessions/session.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { callerOf } from './caller.ts'

export interface SessionRoutesOptions {
  readonly sessions: Sessions
  readonly authenticator: Authenticator
}

const text = (maxLength: number, description: string) => Type.String({ maxLength, description })

const SessionObject = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    protocol: Type.String({ pattern: PROTOCOL, description: 'Mirroring protocol, such as `airplay`.' }),
    state: Type.Enum(['pending', 'admitted', 'active'], {
      description:
        '`pending`: asks for admission. `admitted`: allowed in, but not connected yet; some devices must try again. ' +
        '`active`: is mirroring.',
    }),
    name: text(MAX_NAME, 'The name that the device gives itself: display it as plain text only.'),
    model: text(MAX_MODEL, 'Such as `iPhone15,2`; empty if unknown, as are `deviceId` and `address`.'),
    deviceId: text(MAX_DEVICE_ID, 'The ID that the device reports. A device can claim any ID.'),
    address: text(MAX_ADDRESS, 'IP address of the device.'),
    since: Type.String({ format: 'date-time', description: 'When the session entered its current state.' }),
    deadline: Type.Optional(
      Type.String({
        format: 'date-time',
        description:
          'When a pending session is denied if nobody decides, or an admitted one ends if its device does not connect.',
      }),
    ),
  },
  { $id: 'Session' },
)

const SessionsObject = Type.Object(
  { sessions: Type.Array(SessionObject, { description: 'Oldest first.' }) },
  { $id: 'Sessions' },
)

/** The events of the topic: the schema of the data, by event name. */
export const SESSION_EVENTS: Readonly<Record<string, Type.TSchema>> = { 'sessions.changed': SessionsObject }

const GONE: AnswerDocs = { description: 'No such session; it may have ended.' }
const LATE: AnswerDocs = {
  description: `The mirroring program did not carry out the decision within ${DECISION_MS / 1000} s. It may still do so: check /sessions.`,
}

/** Routes that list, admit and end the sessions of devices that mirror or ask to. */
export function sessionRoutes({ sessions, authenticator }: SessionRoutesOptions): readonly Route[] {
  const who = (request: Request, credential: Credential) => {
    // The key may have been replaced while the request waited.
    authenticator.recheck(credential)
    return callerOf(request, credential)
  }
  return [
    {
      method: 'GET',
      path: '/sessions',
      needs: 'moderator:r',
      handle: request => {
        const { id, json: body } = sessions.current
        return notModified(request, id) ?? json(Buffer.from(body), ['ETag', formatEtag(id)])
      },
      docs: {
        operationId: 'getSessions',
        summary: 'List the devices that mirror or ask to',
        parameters: [IfNoneMatch],
        answers: {
          200: { description: 'All sessions.', content: { 'application/json': SessionsObject }, headers: ['ETag'] },
          304: { description: 'The sessions have not changed since that ETag.', headers: ['ETag'] },
        },
      },
    },
    {
      method: 'POST',
      path: '/sessions/{id}/admit',
      needs: 'moderator:w',
      handle: async (request, credential) => {
        const id = request.parameter('id')
        const session = await sessions.admit(id, replacedBy(request), who(request, credential))
        return json(Buffer.from(JSON.stringify(session)))
      },
      docs: {
        operationId: 'admitSession',
        summary: 'Let a device in',
        description:
          'Has no effect on a session that was already admitted. Where only one device can mirror at a time, the active ' +
          'session ends.',
        parameters: [
          {
            in: 'query',
            name: 'replace',
            schema: Type.Union([Type.Enum(['true', 'false']), Type.String({ format: 'uuid' })]),
            description:
              'An ID: end only that session; 409 if another one is in the way. `false`: end no session. `true`, the default: ' +
              'end whichever session is active.',
          },
        ],
        answers: {
          200: { description: 'The session.', content: { 'application/json': SessionObject } },
          404: GONE,
          409: {
            description:
              'A different decision was being carried out at that moment, or another device is mirroring: then the type ' +
              'is `urn:receiverd:problem:in-the-way`, and `session` is the ID of its session.',
          },
          504: LATE,
        },
      },
    },
    {
      method: 'DELETE',
      path: '/sessions/{id}',
      needs: 'moderator:w',
      handle: async (request, credential) => {
        await sessions.end(request.parameter('id'), who(request, credential))
        return { status: 204, headers: [] }
      },
      docs: {
        operationId: 'endSession',
        summary: 'Deny a device, or end its session',
        answers: {
          204: { description: 'The session has ended.' },
          404: GONE,
          409: { description: 'A different decision was being carried out at that moment.' },
          504: LATE,
        },
      },
    },
  ]
}

/** @throws {Problem} 400 */
function replacedBy(request: Request): boolean | string {
  const value = request.queryParameter('replace')
  if (value === undefined || value === 'true') return true
  if (value === 'false') return false
  if (UUID.test(value)) return value.toLowerCase()
  throw new Problem('bad-request', 'The query parameter replace must be true, false, or the ID of a session.')
}
