import { createHash } from 'node:crypto'
import * as Type from 'typebox/type'
import type { Choices, Setting } from '../../hal/setting.ts'
import { formatEtag, IfNoneMatch, notModified } from '../http/conditional.ts'
import { json, type WholeReply } from '../http/reply.ts'
import type { Route } from '../http/route.ts'
import { CHOICES_MS } from '../limits.ts'
import type { SystemStore } from '../system/store.ts'

interface Known {
  readonly id: string
  readonly reply: WholeReply
}

const ChoicesObject = Type.Object(
  {},
  {
    $id: 'Choices',
    additionalProperties: true,
    description: 'By setting, in the shape of its value: a list in place of each string that has choices.',
  },
)

/** Values that the device accepts where a schema cannot list them, such as the names of its time zones. */
export function choiceRoutes(store: SystemStore, settings: readonly Setting[]): readonly Route[] {
  let known: { readonly at: number; readonly found: Promise<Known> } | undefined
  const current = (): Promise<Known> => {
    const at = performance.now()
    if (!known || at - known.at > CHOICES_MS) known = { at, found: findAll(store, settings) }
    return known.found
  }
  return [
    {
      method: 'GET',
      path: '/system/choices',
      needs: 'admin:r',
      handle: async request => {
        const { id, reply } = await current()
        return notModified(request, id) ?? reply
      },
      docs: {
        operationId: 'getSystemChoices',
        summary: 'Read the values that the device accepts',
        description: 'Values that a schema cannot list: time zones, locales, the modes of the monitors.',
        parameters: [IfNoneMatch],
        answers: {
          200: {
            description: 'The choices. A setting that has none, or that the device lacks, is absent.',
            content: { 'application/json': ChoicesObject },
            headers: ['ETag'],
          },
          304: { description: 'The choices have not changed since that ETag.', headers: ['ETag'] },
        },
      },
    },
  ]
}

async function findAll(store: SystemStore, settings: readonly Setting[]): Promise<Known> {
  const all: Record<string, Choices> = {}
  for (const setting of settings) {
    if (store.value(setting.name) === undefined) continue
    // Choices that cannot be read now are left out.
    const choices = await setting.choices?.().catch(() => undefined)
    if (choices) all[setting.name] = choices
  }
  const body = Buffer.from(JSON.stringify(all))
  const id = createHash('sha256').update(body).digest('base64url').slice(0, 22)
  return { id, reply: json(body, ['ETag', formatEtag(id)]) }
}
