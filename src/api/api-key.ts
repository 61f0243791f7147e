import * as Type from 'typebox/type'
import { reasonOf } from '../../hal/errors.ts'
import type { ApiKeyStore } from '../auth/api-key.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { json } from '../http/reply.ts'
import type { Route } from '../http/route.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'

/** The API key: whoever has it can replace it. */
export function keyRoutes(keys: ApiKeyStore, authenticator: Authenticator, log: Log): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/api-key',
      needs: 'api-key',
      handle: async ({ address }, credential) => {
        try {
          // Of two requests at once, the second has a key that is replaced by then: it must not get the new one.
          const apiKey = await keys.rotate(() => authenticator.recheck(credential))
          log('notice', `${address} replaced the API key`)
          return json(Buffer.from(JSON.stringify({ apiKey })))
        } catch (error) {
          if (error instanceof Problem) throw error
          throw new Problem(
            'system-refused',
            `The new key could not be stored: ${reasonOf(error)}. The old one stays in force.`,
            { cause: error },
          )
        }
      },
      docs: {
        operationId: 'replaceApiKey',
        summary: 'Generate a new API key',
        description: 'From then on the old key is refused, and so is every token made from it.',
        answers: {
          200: {
            description: 'The new key, durable and in force.',
            content: {
              'application/json': Type.Object(
                { apiKey: Type.String({ minLength: 43, maxLength: 43 }) },
                { $id: 'ApiKey' },
              ),
            },
          },
          500: {
            description: 'The key could not be stored; the old one stays in force.',
          },
        },
      },
    },
  ]
}
