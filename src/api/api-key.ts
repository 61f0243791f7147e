import * as Type from 'typebox/type'
import { reasonOf } from '../../hal/errors.ts'
import type { ApiKeyStore } from '../auth/api-key.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { Issuers } from '../auth/issuers.ts'
import { RefusedKey } from '../auth/key-file.ts'
import { json } from '../http/reply.ts'
import type { Route } from '../http/route.ts'
import type { Log } from '../log.ts'
import { Problem, systemProblem } from '../problem.ts'
import { refusal } from '../validate.ts'

const RequestSchema = Type.Object(
  {
    apiKey: Type.Optional(
      Type.String({
        description:
          'The new key: 22 to 128 characters of A-Z, a-z, 0-9 and ._~-, at least 12 of them different. A key that the device ' +
          'had before is refused. Without it, the device makes one.',
      }),
    ),
    removeIssuers: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether to remove the issuers that were put there by `PUT /issuers/{name}`: whoever held a key that has leaked may ' +
          'have left one behind.',
      }),
    ),
  },
  { $id: 'ApiKeyRequest', additionalProperties: false },
)

export interface KeyRoutesOptions {
  readonly keys: ApiKeyStore
  readonly issuers: Issuers
  readonly authenticator: Authenticator
  readonly log: Log
}

/** The API key. Anybody who has it can replace it. */
export function keyRoutes({ keys, issuers, authenticator, log }: KeyRoutesOptions): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/api-key',
      needs: 'api-key',
      body: { accepts: ['application/json'], schema: RequestSchema, isOptional: true },
      handle: async ({ body, address }, credential) => {
        const { apiKey: chosen, removeIssuers = false } = (body ?? {}) as Type.Static<typeof RequestSchema>
        const mayStill = () => authenticator.recheck(credential)
        try {
          if (chosen !== undefined) await keys.requireUsable(chosen)
          const before = keys.current
          const removed = removeIssuers ? await issuers.removeOwn(mayStill) : []
          // Of two requests at once, the second has a key that is replaced by then: it must not get the new one.
          const apiKey = await keys.replace(chosen, mayStill)
          if (apiKey !== before) log('notice', `${address} replaced the API key`)
          if (removeIssuers) removed.push(...(await removeLate(issuers, log)))
          for (const name of removed) log('warning', `${address} removed the issuer ${name}, with the API key`)
          return json(Buffer.from(JSON.stringify({ apiKey, issuers: issuers.all.map(({ name }) => name) })))
        } catch (error) {
          if (error instanceof Problem) throw error
          if (error instanceof RefusedKey)
            throw refusal('invalid-body', [{ pointer: '/apiKey', detail: error.message }])
          throw systemProblem(`The change could not be stored: ${reasonOf(error)}. The old key stays in force.`, error)
        }
      },
      docs: {
        operationId: 'replaceApiKey',
        summary: 'Replace the API key',
        description:
          'The old key is then refused, and so is every token made from it. Sending the key in force changes nothing, so a ' +
          'client that chooses the new key can keep it first, and ask again if the answer is lost. Issuers stay, unless ' +
          '`removeIssuers` is true.',
        answers: {
          200: {
            description: 'The key in force; it is durable.',
            content: {
              'application/json': Type.Object(
                {
                  apiKey: Type.String({ minLength: 22, maxLength: 128 }),
                  issuers: Type.Array(Type.String(), {
                    description: 'The names of the issuers that stay: their tokens are as valid as before.',
                  }),
                },
                { $id: 'ApiKey' },
              ),
            },
          },
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'The key is refused; `errors` says why.' },
          500: {
            description: 'The key could not be stored; the old one stays in force.',
          },
          507: { description: 'No space left on the device; the old key stays in force.' },
        },
      },
    },
  ]
}

/**
 * Removes issuers that were put there between the first removal and the new key; the old key can put none any more. The key
 * is in force, so a failure is not an answer: the answer names those that are left.
 */
async function removeLate(issuers: Issuers, log: Log): Promise<readonly string[]> {
  try {
    return await issuers.removeOwn(() => undefined)
  } catch (error) {
    log('error', `issuers could not be removed with the API key: ${reasonOf(error)}`)
    return []
  }
}
