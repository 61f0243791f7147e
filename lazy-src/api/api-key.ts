import * as Type from 'typebox/type'
import { reasonOf } from '../../hal/errors.ts'
import type { ApiKeyStore } from '../auth/api-key.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { json } from '../http/reply.ts'
import type { Route } from '../http/router.ts'
import { Problem } from '../problem.ts'

/** The API key: replaced by whoever has it. */
export function keyRoutes(keys: ApiKeyStore, authenticator: Authenticator): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/api/v1/api-key',
      needs: 'api-key',
      handle: async (_request, credential) => {
        try {
          // Of two that ask at once, the second asks with a key that is replaced: the new one is not for it.
          const apiKey = await keys.rotate(() => authenticator.recheck(credential))
          return json(Buffer.from(JSON.stringify({ apiKey })))
        } catch (error) {
          if (error instanceof Problem) throw error
          throw new Problem(
            'system-refused',
            `No new key could be stored: ${reasonOf(error)}. The old one stays in force.`,
            { cause: error },
          )
        }
      },
      docs: {
        summary: 'Generate a new API key',
        description: 'Takes the API key itself. The old key and every token made from it are refused from then on.',
        answers: {
          200: {
            description: 'The new key, durable and in force.',
            content: {
              'application/json': Type.Object({
                apiKey: Type.String({ minLength: 43, maxLength: 43 }),
              }),
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
