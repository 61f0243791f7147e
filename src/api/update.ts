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

/** The events of the topic: the schema of the data, by event name. */
export const UPDATE_EVENTS: Readonly<Record<string, Type.TSchema>> = { 'update.changed': UpdateState }

const InstallRequest = Type.Object(
  {
    restart: Type.Optional(
      Type.Enum([...RESTARTS], {
        description:
          'When the device restarts into the new version: at once, in the configured window, or by hand. Defaults to the ' +
          'window if one is set, and otherwise to by hand.',
      }),
    ),
    allowOlder: Type.Optional(
      Type.Boolean({ default: false, description: 'Whether the bundle may be older than the running version.' }),
    ),
  },
  { $id: 'InstallRequest', additionalProperties: false },
)

/** Answers a request that started something whose progress the state reports. */
export function accepted({ current }: Update): Reply {
  return { ...json(Buffer.from(current.json)), status: 202 }
}

export function acceptedDocs(description: string): AnswerDocs {
  return { description: `${description} The body is the update state.`, content: { 'application/json': UpdateState } }
}

/** Routes that report, install and roll back a firmware update. */
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
        summary: 'Read the running version and the progress of an update',
        parameters: [IfNoneMatch],
        answers: {
          200: { description: 'The update state.', content: { 'application/json': UpdateState }, headers: ['ETag'] },
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
        // The key may have been replaced while the body was being received.
        authenticator.recheck(credential)
        await update.install((request.body ?? {}) as InstallOptions, callerOf(request, credential))
        return accepted(update)
      },
      docs: {
        operationId: 'installUpdate',
        summary: 'Install the received bundle',
        description:
          'Installs the bundle into the other system while this one keeps running. That takes some minutes, and the restart ' +
          'about two. The new version is then on trial for up to five minutes: unless everything works, the device returns to ' +
          'the old version by itself, with all settings.',
        answers: {
          202: acceptedDocs('The bundle is being installed.'),
          409: {
            description:
              'No bundle is present, or another update operation is in progress. With the type ' +
              '`urn:receiverd:problem:bundle-older`, the bundle is older than the running version.',
          },
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'The body or the bundle was rejected; the type says why.' },
          500: { description: 'The system refused to install the bundle.' },
          507: { description: 'No space left on the device.' },
        },
      },
    },
    {
      method: 'DELETE',
      path: '/update/install',
      needs: 'admin:w',
      handle: async (request, credential) => {
        await update.discard(callerOf(request, credential))
        return { status: 204, headers: [] }
      },
      docs: {
        operationId: 'discardUpdate',
        summary: 'Discard the version that waits for the restart',
        description:
          'Keeps the new version from starting. The version that runs stays, and a pending restart is canceled.',
        answers: {
          204: { description: 'The version was discarded.' },
          409: { description: 'No installed version waits for the restart, or the restart has begun.' },
          500: { description: 'The system refused to discard the version.' },
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
        summary: 'Return to the other system',
        description:
          'The device restarts at once, which takes about two minutes and ends all mirroring. Settings are kept. If the ' +
          'version that runs now is on trial, that ends, and you cannot return to it. Otherwise you can, and the other one is ' +
          'on trial for up to five minutes: unless everything works, the device comes back by itself.',
        answers: {
          202: acceptedDocs('The device restarts.'),
          409: { description: 'The other system is not known to work, or another update operation is in progress.' },
          500: { description: 'The system refused the rollback.' },
          507: { description: 'No space left on the device.' },
        },
      },
    },
  ]
}
