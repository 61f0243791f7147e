import * as Type from 'typebox/type'
import { isNoSpace, reasonOf } from '../../hal/errors.ts'
import type { ApiKeyStore } from '../auth/api-key.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { RefusedKey } from '../auth/key-file.ts'
import { json } from '../http/reply.ts'
import type { Route } from '../http/route.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
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
  },
  { $id: 'ApiKeyRequest', additionalProperties: false },
)

/** The API key. Anybody who has it can replace it. */
export function keyRoutes(keys: ApiKeyStore, authenticator: Authenticator, log: Log): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/api-key',
      needs: 'api-key',
      body: { accepts: ['application/json'], schema: RequestSchema, isOptional: true },
      handle: async ({ body, address }, credential) => {
        const { apiKey: chosen } = (body ?? {}) as Type.Static<typeof RequestSchema>
        try {
          const before = keys.current
          // Of two requests at once, the second has a key that is replaced by then: it must not get the new one.
          const apiKey = await keys.replace(chosen, () => authenticator.recheck(credential))
          if (apiKey !== before) log('notice', `${address} replaced the API key`)
          return json(Buffer.from(JSON.stringify({ apiKey })))
        } catch (error) {
          if (error instanceof Problem) throw error
          if (error instanceof RefusedKey)
            throw refusal('invalid-body', [{ pointer: '/apiKey', detail: error.message }])
          throw new Problem(
            isNoSpace(error) ? 'no-space' : 'system-refused',
            `The new key could not be stored: ${reasonOf(error)}. The old one stays in force.`,
            { cause: error },
          )
        }
      },
      docs: {
        operationId: 'replaceApiKey',
        summary: 'Replace the API key',
        description:
          'The old key is then refused, and so is every token made from it. Sending the key in force changes nothing, so a ' +
          'client that chooses the new key can keep it first, and ask again if the answer is lost.',
        answers: {
          200: {
            description: 'The key in force; it is durable.',
            content: {
              'application/json': Type.Object(
                { apiKey: Type.String({ minLength: 22, maxLength: 128 }) },
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
