import * as Type from 'typebox/type'
import type { Authenticator } from '../auth/authenticator.ts'
import { formatEtag, IfNoneMatch, notModified } from '../http/conditional.ts'
import { json, type Reply } from '../http/reply.ts'
import type { AnswerDocs, Route } from '../http/route.ts'
import { UpdateState } from '../update/state.ts'
import { type InstallOptions, RESTARTS, type Update } from '../update/update.ts'
import { callerOf } from './caller.ts'

export interface UpdateRoutesOptions {
  readonly update: Update
  readonly authenticator: Authenticator
}

/** The events of the topic, by name: the schema of the data of each. */
export const UPDATE_EVENTS: Readonly<Record<string, Type.TSchema>> = { 'update.changed': UpdateState }

const InstallRequest = Type.Object(
  {
    restart: Type.Optional(
      Type.Enum([...RESTARTS], {
        description:
          'When the device restarts into it: at once, in the window of the configuration, or by hand. By default in the ' +
          'window if one is set, and otherwise by hand.',
      }),
    ),
    allowOlder: Type.Optional(
      Type.Boolean({ default: false, description: 'Whether it may be older than the version that runs.' }),
    ),
  },
  { $id: 'InstallRequest', additionalProperties: false },
)

/** The answer to what has begun and is followed by the state. */
export function accepted({ current }: Update): Reply {
  return { ...json(Buffer.from(current.json)), status: 202 }
}

export function acceptedDocs(description: string): AnswerDocs {
  return { description: `${description} The body is the state.`, content: { 'application/json': UpdateState } }
}

/** The update of the firmware: followed, installed, and undone. */
export function updateRoutes({ update, authenticator }: UpdateRoutesOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/update',
      needs: 'admin:r',
      handle: request => {
        const { id, json: body } = update.current
        return notModified(request, id) ?? json(Buffer.from(body), ['ETag', formatEtag(id)])
      },
      docs: {
        operationId: 'getUpdate',
        summary: 'Read what runs, and how far an update is',
        parameters: [IfNoneMatch],
        answers: {
          200: { description: 'The state.', content: { 'application/json': UpdateState }, headers: ['ETag'] },
          304: { description: 'Nothing has changed since that ETag.', headers: ['ETag'] },
        },
      },
    },
    {
      method: 'POST',
      path: '/update/install',
      needs: 'admin:w',
      body: { accepts: ['application/json'], schema: InstallRequest, isOptional: true },
      handle: async (request, credential) => {
        // The key may have been replaced while the body came in.
        authenticator.recheck(credential)
        await update.install((request.body ?? {}) as InstallOptions, callerOf(request, credential))
        return accepted(update)
      },
      docs: {
        operationId: 'installUpdate',
        summary: 'Install the bundle that was received',
        description:
          'It is installed into the other system, while this one goes on. That takes some minutes, and the restart about two. After ' +
          'that it is on trial for up to five minutes: unless everything works, the device goes back by itself, with all settings.',
        answers: {
          202: acceptedDocs('It is being installed.'),
          409: {
            description:
              'There is no bundle, or something else is being done. With the type `urn:receiverd:problem:bundle-older`, it ' +
              'is older than the version that runs.',
          },
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'The body or the bundle is refused; the type says why.' },
          500: { description: 'The system refused to install it.' },
          507: { description: 'No space left on the device.' },
        },
      },
    },
    {
      method: 'POST',
      path: '/update/rollback',
      needs: 'admin:w',
      handle: async (request, credential) => {
        await update.rollback(callerOf(request, credential))
        return accepted(update)
      },
      docs: {
        operationId: 'rollBackUpdate',
        summary: 'Go back to the other system',
        description:
          'The device restarts at once, which takes about two minutes, and mirroring ends. Settings stay as they are, and so does ' +
          'the version that runs now: you can return to it, unless it is on trial.',
        answers: {
          202: acceptedDocs('The device restarts.'),
          409: { description: 'The other system is not good, or something else is being done.' },
          500: { description: 'The system refused it.' },
          507: { description: 'No space left on the device.' },
        },
      },
    },
  ]
}
