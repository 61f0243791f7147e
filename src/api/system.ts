import * as Type from 'typebox/type'
import { isWritable, type Setting } from '../../hal/setting.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import {
  checkPreconditions,
  formatEtag,
  IfNoneMatch,
  matchesStrongly,
  notModified,
  parseEtags,
  requireEtags,
} from '../http/conditional.ts'
import { patchOf } from '../http/patch-schema.ts'
import { json, type WholeReply } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { ParameterDocs, Route, RouteDocs } from '../http/route.ts'
import { toJsonLine } from '../json.ts'
import { MAX_CONFIRM_S, MIN_CONFIRM_S } from '../limits.ts'
import type { Log } from '../log.ts'
import type { SystemStore } from '../system/store.ts'
import { REVERT_REASONS } from '../system/trial.ts'
import { callerOf } from './caller.ts'

export interface SystemRoutesOptions {
  readonly store: SystemStore
  readonly settings: readonly Setting[]
  readonly authenticator: Authenticator
  readonly log: Log
}

const PATH = '/system'
const PATCH_TYPES = ['application/merge-patch+json', 'application/json']
const PATCH_DESCRIPTION = 'Any properties of the configuration. Read-only ones must have their current value.'
/** The store checks its members against the settings that the device has. */
const PatchSchema = Type.Object({}, { additionalProperties: true })

const RevertedObject = Type.Object(
  {
    reason: Type.Enum([...REVERT_REASONS]),
    properties: Type.Array(Type.String(), { description: 'The properties that were undone.' }),
    notUndone: Type.Array(Type.String(), { description: 'The properties whose old values could not be restored.' }),
  },
  { $id: 'Reverted' },
)

const TrialMatch: ParameterDocs = {
  in: 'header',
  name: 'If-Match',
  schema: Type.String(),
  description: 'The ETag of the response to the change. 412 if another change is waiting.',
}

/** Routes that read the whole configuration, change parts of it, and confirm or undo a change on trial. */
export function systemRoutes({ store, settings, authenticator, log }: SystemRoutesOptions): readonly Route[] {
  let whole: { readonly id: string; readonly reply: WholeReply } | undefined
  const current = (): WholeReply => {
    const id = store.topic.latestId
    if (whole?.id !== id)
      whole = {
        id,
        reply: json(Buffer.from(store.json), ['ETag', formatEtag(id)]),
      }
    return whole.reply
  }

  /** Runs before the body is read, and again once nothing can change the configuration in between. */
  const precondition = (request: Request): void => checkPreconditions(request, store.topic.latestId)

  return [
    {
      method: 'GET',
      path: PATH,
      needs: 'admin:r',
      handle: request => notModified(request, store.topic.latestId) ?? current(),
      docs: readDocs(settings),
    },
    {
      method: 'PATCH',
      path: PATH,
      needs: 'admin:w',
      body: {
        accepts: PATCH_TYPES,
        schema: PatchSchema,
        documented: patchOf({ ...configurationSchema(settings), description: PATCH_DESCRIPTION }),
        invalid: 'invalid-configuration',
        precondition,
      },
      handle: async (request, credential) => {
        const confirm = request.integerParameter('confirmWithin', MIN_CONFIRM_S, MAX_CONFIRM_S)
        const inTurn = () => {
          // The key may have been replaced while the request waited for its turn.
          authenticator.recheck(credential)
          precondition(request)
        }
        const { body = null } = request
        if (request.switchParameter('validateOnly')) {
          const changes = await store.preview(body, inTurn)
          return json(Buffer.from(toJsonLine({ changes })), ['ETag', formatEtag(store.topic.latestId)])
        }
        const { written, confirmWithinS } = await store.patch(body, inTurn, confirm)
        if (written.length > 0) log('notice', `${callerOf(request, credential)} changed ${written.join(', ')}`)
        if (confirmWithinS === undefined) return current()
        const reply = current()
        return { ...reply, headers: [...reply.headers, 'Confirm-Within', String(confirmWithinS)] }
      },
      docs: patchDocs(settings),
    },
    {
      method: 'POST',
      path: `${PATH}/confirm`,
      needs: 'admin:w',
      handle: async (request, credential) => {
        await store.confirm(() => authenticator.recheck(credential), trialMeant(request))
        return current()
      },
      docs: confirmDocs(settings),
    },
    {
      method: 'DELETE',
      path: `${PATH}/confirm`,
      needs: 'admin:w',
      handle: async (request, credential) => {
        await store.cancel(() => authenticator.recheck(credential), trialMeant(request))
        log('notice', `${callerOf(request, credential)} undid the change that awaited its confirmation`)
        return current()
      },
      docs: cancelDocs(settings),
    },
  ]
}

/** Returns a test for the change on trial that `If-Match` names by its ETag; undefined if it may be any change. */
function trialMeant(request: Request): ((id: string) => boolean) | undefined {
  const header = request.header('if-match')
  if (header === undefined) return undefined
  requireEtags(request, 'If-Match')
  // Any change on trial.
  if (parseEtags(header) === '*') return undefined
  return id => matchesStrongly(header, id)
}

function readDocs(settings: readonly Setting[]): RouteDocs {
  return {
    operationId: 'getSystem',
    summary: 'Read the configuration',
    parameters: [IfNoneMatch],
    answers: {
      200: {
        description: 'The configuration. A setting that the device lacks is absent.',
        content: { 'application/json': configurationSchema(settings) },
        headers: ['ETag'],
      },
      304: {
        description: 'Nothing has changed since that ETag.',
        headers: ['ETag'],
      },
    },
  }
}

function patchDocs(settings: readonly Setting[]): RouteDocs {
  return {
    operationId: 'patchSystem',
    summary: 'Change the configuration',
    description: 'A JSON Merge Patch (RFC 7396). Either the whole patch is applied and durable, or nothing is.',
    parameters: [
      {
        in: 'header',
        name: 'If-Match',
        schema: Type.String(),
        description: 'The ETag of the state on which the change is based. 412 if it is stale.',
      },
      {
        in: 'header',
        name: 'If-None-Match',
        schema: Type.String(),
        description: '412 if one of these ETags is current, and always for `*`.',
      },
      {
        in: 'query',
        name: 'confirmWithin',
        schema: Type.Integer({ minimum: MIN_CONFIRM_S, maximum: MAX_CONFIRM_S }),
        description:
          'Undo the change after this many seconds unless it is confirmed. For changes that may cut the client off from ' +
          'the device.',
      },
      {
        in: 'query',
        name: 'validateOnly',
        schema: Type.Boolean({ default: false }),
        description:
          'Change nothing, and return only `changes`: each property that would change, with its whole new value.',
      },
    ],
    answers: {
      200: {
        description: 'The configuration as read back from the system.',
        content: { 'application/json': patchedSchema(settings) },
        headers: ['ETag'],
        sometimes: ['Confirm-Within'],
      },
      400: { description: 'Not JSON, a precondition names no ETag, or a parameter is out of range.' },
      409: { description: 'Another change is waiting for confirmation.', headers: ['Retry-After'] },
      412: {
        description: 'The configuration has changed since that ETag, or If-None-Match names its state.',
        headers: ['ETag'],
      },
      413: { description: 'The body is too large.' },
      415: {
        description: 'The media type is not that of a patch.',
        headers: ['Accept-Patch'],
      },
      422: {
        description: 'A value was rejected; `errors` says which, and what would be accepted.',
      },
      500: {
        description: 'The system refused a write; nothing has changed unless `detail` says otherwise.',
      },
      503: {
        description: 'Too many changes are already waiting.',
        headers: ['Retry-After'],
      },
      507: { description: 'No space left on the device; nothing has changed.' },
    },
  }
}

function confirmDocs(settings: readonly Setting[]): RouteDocs {
  return {
    operationId: 'confirmSystem',
    summary: 'Keep a change that was made with confirmWithin',
    parameters: [TrialMatch],
    answers: {
      ...trialAnswers(settings, 'kept'),
      500: { description: 'The system refused to keep the change; `detail` says what happened to it.' },
      507: { description: 'No space left on the device; the change was undone.' },
    },
  }
}

function cancelDocs(settings: readonly Setting[]): RouteDocs {
  return {
    operationId: 'cancelSystem',
    summary: 'Undo a change that was made with confirmWithin',
    parameters: [TrialMatch],
    answers: trialAnswers(settings, 'undone'),
  }
}

function trialAnswers(settings: readonly Setting[], outcome: string): RouteDocs['answers'] {
  return {
    200: {
      description: `The change was ${outcome}. The body is the configuration.`,
      content: { 'application/json': configurationSchema(settings) },
      headers: ['ETag'],
    },
    409: { description: 'No change is waiting for confirmation: it was already confirmed or undone.' },
    412: { description: 'Another change is waiting for confirmation.', headers: ['ETag'] },
  }
}

/** The events of the topic: the schema of the data, by event name. */
export function systemEvents(settings: readonly Setting[]): Readonly<Record<string, Type.TSchema>> {
  return { 'system.changed': configurationSchema(settings), 'system.reverted': RevertedObject }
}

/** Returns one schema for both kinds of response, so that generated clients keep a single type for the configuration. */
function patchedSchema(settings: readonly Setting[]) {
  const system = configurationSchema(settings)
  return Type.Object(
    { ...system.properties, changes: Type.Optional(system) },
    { $id: 'PatchedSystem', additionalProperties: false },
  )
}

/** Returns the schema of the configuration. The settings in a saved file are checked against it, too. */
export function configurationSchema(settings: readonly Setting[]) {
  const properties = settings.map(setting => {
    const { name, schema } = setting
    const $id = name.charAt(0).toUpperCase() + name.slice(1)
    return [name, Type.Optional(isWritable(setting) ? { ...schema, $id } : { ...schema, $id, readOnly: true })]
  })
  return Type.Object(Object.fromEntries(properties), { $id: 'System', additionalProperties: false })
}
