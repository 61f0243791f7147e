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
    ssid: Type.String({ description: 'Chosen by a stranger: display it as plain text only.' }),
    signalDbm: Type.Integer({ description: 'Signal strength of the access point that is received best, in dBm.' }),
    security: Type.Enum([...SECURITIES], {
      description:
        'What joining takes: nothing, a password (psk, sae), or something that this device does not support.',
    }),
  },
  { $id: 'FoundNetwork' },
)

const ChoicesObject = Type.Object(
  {
    wifi: Type.Optional(
      Type.Object(
        { networks: Type.Array(FoundObject, { description: 'Strongest first.' }) },
        { description: 'Present with `scan=true`.' },
      ),
    ),
  },
  {
    $id: 'Choices',
    additionalProperties: true,
    description: 'By setting, in the shape of its value, with a list in place of each string that has choices.',
  },
)

const SCAN: ParameterDocs = {
  in: 'query',
  name: 'scan',
  schema: Type.Boolean(),
  description:
    'With `true`, also scan for Wi-Fi networks. This takes up to 10 seconds and needs the grant `admin:w`, because a scan ' +
    'disturbs mirroring. Requests within 15 seconds share one scan.',
}

/**
 * Routes that list the values that the device accepts where a schema cannot, such as the names of its time zones.
 * @param scan Scans for Wi-Fi networks.
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
          'Values that a schema cannot list: time zones, locales, monitor modes. Without a scan, this needs the grant `admin:r`.',
        parameters: [IfNoneMatch, SCAN],
        answers: {
          200: {
            description: 'The choices. A setting without choices, or that the device lacks, is absent.',
            content: { 'application/json': ChoicesObject },
            headers: ['ETag'],
          },
          400: { description: 'The query parameter `scan` is neither `true` nor `false`.' },
          500: { description: 'The adapter refused to look for networks.' },
          304: { description: 'The choices have not changed since that ETag.', headers: ['ETag'] },
        },
      },
    },
  ]
}

/** Reports whether the request asks for a scan. @throws {Problem} 400; 403 without the grant that this takes. */
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
    // Choices that cannot be read at the moment are left out.
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
