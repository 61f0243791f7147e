import * as Type from 'typebox/type'
import { reasonOf } from '../../hal/errors.ts'
import { isTemporary } from '../../hal/os/data-partition.ts'
import type { System } from '../../hal/os/system.ts'
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
          'had before is refused. If omitted, the device generates a key.',
      }),
    ),
    removeIssuers: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether to also remove the issuers added by `PUT /issuers/{name}`: whoever held a leaked key may have added one ' +
          'to keep access.',
      }),
    ),
  },
  { $id: 'ApiKeyRequest', additionalProperties: false },
)

export interface KeyRoutesOptions {
  readonly keys: ApiKeyStore
  readonly issuers: Issuers
  readonly authenticator: Authenticator
  readonly system: System
  readonly log: Log
}

/** The route that replaces the API key. Every holder of the key can replace it. */
export function keyRoutes({ keys, issuers, authenticator, system, log }: KeyRoutesOptions): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/api-key',
      needs: 'api-key',
      body: { accepts: ['application/json'], schema: RequestSchema, isOptional: true },
      handle: async ({ body, address }, credential) => {
        const { apiKey: chosen, removeIssuers = false } = (body ?? {}) as Type.Static<typeof RequestSchema>
        const mayStill = () => authenticator.recheck(credential)
        const removed: string[] = []
        const remove = async (precondition: () => void) => {
          for (const name of await issuers.removeOwn(precondition)) {
            removed.push(name)
            log('warning', `${address} removed the issuer ${name}, with the API key`)
          }
        }
        try {
          if (chosen !== undefined) await keys.requireUsable(chosen)
          const before = keys.current
          // Nobody would have kept the old one.
          if (chosen !== before && (await isTemporary(system)))
            throw new Problem(
              'conflict',
              'The data partition could not be mounted, so a restart would bring the old key back. Restart the device, or replace its card.',
            )
          if (removeIssuers) await remove(mayStill)
          // Of two concurrent requests, the second holds a key that has been replaced: it must not get the new one.
          const apiKey = await keys.replace(chosen, mayStill)
          if (apiKey !== before) log('notice', `${address} replaced the API key`)
          // The old key could add issuers until now. The new one is in force, so a failure does not fail the request: the
          // response names the issuers that are left.
          if (removeIssuers)
            await remove(() => undefined).catch(error =>
              log('error', `issuers could not be removed with the API key: ${reasonOf(error)}`),
            )
          return json(Buffer.from(JSON.stringify({ apiKey, issuers: issuers.all.map(({ name }) => name) })))
        } catch (error) {
          if (error instanceof Problem) throw error
          if (error instanceof RefusedKey)
            throw refusal('invalid-body', [{ pointer: '/apiKey', detail: error.message }])
          const also = removed.length > 0 ? ` These issuers are removed: ${removed.join(', ')}.` : ''
          throw systemProblem(
            `The change could not be stored: ${reasonOf(error)}. The old key stays in force.${also}`,
            error,
          )
        }
      },
      docs: {
        operationId: 'replaceApiKey',
        summary: 'Replace the API key',
        description:
          'The old key is refused from then on, and so is every token made from it. Sending the current key changes nothing, ' +
          'so a client that chooses the new key can store it first, and repeat the request if the response is lost. Issuers ' +
          'stay, unless `removeIssuers` is true.',
        answers: {
          200: {
            description: 'The key in force. It is durable.',
            content: {
              'application/json': Type.Object(
                {
                  apiKey: Type.String({ minLength: 22, maxLength: 128 }),
                  issuers: Type.Array(Type.String(), {
                    description: 'The names of the remaining issuers, whose tokens stay valid.',
                  }),
                },
                { $id: 'ApiKey' },
              ),
            },
          },
          409: {
            description: 'A restart would bring the old key back, because the data partition could not be mounted.',
          },
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'The key was rejected; `errors` says why.' },
          500: {
            description: 'The key could not be stored; the old one stays in force.',
          },
          507: { description: 'No space left on the device; the old key stays in force.' },
        },
      },
    },
  ]
}
