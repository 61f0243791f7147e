import { createHash } from 'node:crypto'
import * as Type from 'typebox/type'
import { reasonOf } from '../../hal/errors.ts'
import { type FoundNetwork, SECURITIES } from '../../hal/format/wpa-cli.ts'
import type { Choices, Setting } from '../../hal/setting.ts'
import type { Credential } from '../auth/authenticator.ts'
import { insufficientScope } from '../auth/challenge.ts'
import { formatEtag, IfNoneMatch, notModified } from '../http/conditional.ts'
import { json, type WholeReply } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { ParameterDocs, Route } from '../http/route.ts'
import { CHOICES_MS, SCAN_SHARED_MS } from '../limits.ts'
import { Problem } from '../problem.ts'
import type { SystemStore } from '../system/store.ts'
import { sharedFor } from './shared-for.ts'

interface Known {
  readonly id: string
  readonly reply: WholeReply
}

const FoundObject = Type.Object(
  {
    ssid: Type.String({ description: 'As somebody else has chosen it: display it as plain text only.' }),
    signalDbm: Type.Integer({ description: 'Of the station that is received best.' }),
    security: Type.Enum([...SECURITIES], {
      description:
        'How to get in: by nothing, by a password (psk, sae), or in a way that this device cannot be set to.',
    }),
  },
  { $id: 'FoundNetwork' },
)

const ChoicesObject = Type.Object(
  {
    wifi: Type.Optional(
      Type.Object(
        { networks: Type.Array(FoundObject, { description: 'The strongest first.' }) },
        { description: 'With `scan=true`.' },
      ),
    ),
  },
  {
    $id: 'Choices',
    additionalProperties: true,
    description: 'By setting, in the shape of its value: a list in place of each string that has choices.',
  },
)

const SCAN: ParameterDocs = {
  in: 'query',
  name: 'scan',
  schema: Type.Boolean(),
  description:
    'With `true`, look for Wi-Fi networks as well. It needs the grant `admin:w`, because it disturbs mirroring, and takes up to 10 seconds. Requests of 15 seconds share one scan.',
}

/**
 * Values that the device accepts where a schema cannot list them, such as the names of its time zones.
 * @param scan Looks for Wi-Fi networks.
 */
export function choiceRoutes(
  store: SystemStore,
  settings: readonly Setting[],
  scan: () => Promise<readonly FoundNetwork[]>,
): readonly Route[] {
  const current = sharedFor(CHOICES_MS, async () => known(await findAll(store, settings)))
  const withNetworks = sharedFor(SCAN_SHARED_MS, async () => {
    const networks = await scan().catch(error => {
      throw new Problem('system-refused', `The system refused to look for networks: ${reasonOf(error)}.`)
    })
    return known({ ...(await findAll(store, settings)), wifi: { networks } })
  })
  return [
    {
      method: 'GET',
      path: '/system/choices',
      needs: ['admin:r', 'admin:w'],
      handle: async (request, credential) => {
        const isScan = scansIn(request, credential) && store.value('wifi') !== undefined
        const { id, reply } = await (isScan ? withNetworks() : current())
        return notModified(request, id) ?? reply
      },
      docs: {
        operationId: 'getSystemChoices',
        summary: 'Read the values that the device accepts',
        description:
          'Values that a schema cannot list: time zones, locales, the modes of the monitors. They need the grant `admin:r`.',
        parameters: [IfNoneMatch, SCAN],
        answers: {
          200: {
            description: 'The choices. A setting that has none, or that the device lacks, is absent.',
            content: { 'application/json': ChoicesObject },
            headers: ['ETag'],
          },
          400: { description: 'The parameter of the query is neither true nor false.' },
          500: { description: 'The adapter refused to look for networks.' },
          304: { description: 'The choices have not changed since that ETag.', headers: ['ETag'] },
        },
      },
    },
  ]
}

/** Whether it asks for a scan. @throws {Problem} 400, and 403 without the grant for what it asks for. */
function scansIn(request: Request, { grants }: Credential): boolean {
  const value = request.queryParameter('scan') ?? 'false'
  if (value !== 'true' && value !== 'false')
    throw new Problem('bad-request', 'The query parameter scan must be true or false.')
  const needed = value === 'true' ? 'admin:w' : 'admin:r'
  if (!grants.has(needed)) throw insufficientScope(`This needs the grant ${needed}.`, [needed])
  return value === 'true'
}

async function findAll(store: SystemStore, settings: readonly Setting[]): Promise<object> {
  const all: Record<string, Choices> = {}
  for (const setting of settings) {
    if (store.value(setting.name) === undefined) continue
    // Choices that cannot be read now are left out.
    const choices = await setting.choices?.().catch(() => undefined)
    if (choices) all[setting.name] = choices
  }
  return all
}

function known(all: object): Known {
  const body = Buffer.from(JSON.stringify(all))
  const id = createHash('sha256').update(body).digest('base64url').slice(0, 22)
  return { id, reply: json(body, ['ETag', formatEtag(id)]) }
}
