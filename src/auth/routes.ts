import * as Type from 'typebox/type'
import { reasonOf } from '../../hal/errors.ts'
import { json } from '../http/reply.ts'
import type { Route } from '../http/router.ts'
import { Problem } from '../problem.ts'
import type { ApiKeyStore } from './api-key.ts'

/** The API key: replaced by whoever has it. */
export function keyRoutes(keys: ApiKeyStore): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/api/v1/api-key',
      needs: 'api-key',
      handle: async () => {
        try {
          return json(Buffer.from(JSON.stringify({ apiKey: await keys.rotate() })))
        } catch (error) {
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
