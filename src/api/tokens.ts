import * as Type from 'typebox/type'
import type { ApiKeyStore } from '../auth/api-key.ts'
import { RefusedCredential } from '../auth/challenge.ts'
import { ROLES } from '../auth/grants.ts'
import { issueToken, parseDuration, SUBJECT } from '../auth/token.ts'
import { type Clock, LAST_SECOND, rfc3339 } from '../clock.ts'
import { json } from '../http/reply.ts'
import type { Route } from '../http/route.ts'
import { MAX_SUBJECT_LENGTH } from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import { refusal } from '../validate.ts'

export interface TokenRoutesOptions {
  readonly keys: ApiKeyStore
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970. A clock that is earlier has not been set. */
  readonly builtAt: number
  readonly log: Log
}

const RequestSchema = Type.Object(
  {
    roles: Type.Array(Type.Enum(ROLES), { minItems: 1, description: 'One or more roles.' }),
    expiresIn: Type.Optional(
      Type.String({
        description:
          'A duration such as 90s, 15m, 8h or 30d, at least 1s. Without it, the token is valid until the key is replaced.',
        maxLength: 10,
        pattern: '^(?!0+[smhd])[0-9]{1,9}[smhd]$',
      }),
    ),
    subject: Type.Optional(
      Type.String({
        description: `Name of the holder, for the log: 1 to ${MAX_SUBJECT_LENGTH} characters, no control characters.`,
        maxLength: MAX_SUBJECT_LENGTH,
        pattern: SUBJECT,
      }),
    ),
  },
  { $id: 'TokenRequest', additionalProperties: false },
)

/** The route that makes tokens, so that clients need no cryptography. Nothing is stored. */
export function tokenRoutes({ keys, clock, builtAt, log }: TokenRoutesOptions): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/tokens',
      needs: 'api-key',
      body: { accepts: ['application/json'], schema: RequestSchema },
      handle: ({ body, address }) => {
        const { expiresIn, subject, ...rest } = body as Type.Static<typeof RequestSchema>
        const roles = [...new Set(rest.roles)]
        const now = clock.now()
        if (expiresIn !== undefined && now < builtAt)
          throw new Problem('conflict', 'The clock of this device is not set: set it, or leave out expiresIn.')
        const expiresInMs = expiresIn === undefined ? undefined : parseDuration(expiresIn)
        const { current } = keys
        if (current === undefined) throw new RefusedCredential('key unreadable')
        const { token, exp } = issueToken(current, { roles, expiresInMs, subject }, now)
        if (exp !== undefined && exp > LAST_SECOND)
          throw refusal('invalid-body', [{ pointer: '/expiresIn', detail: 'must end before the year 10000' }])
        const expiresAt = exp === undefined ? undefined : rfc3339(exp * 1000)
        const whose = subject === undefined ? '' : ` for ${subject}`
        log(
          'notice',
          `${address} made a token${whose} with ${roles.join(', ')}, valid until ${expiresAt ?? 'the key is replaced'}`,
        )
        return { ...json(Buffer.from(JSON.stringify({ token, expiresAt }))), status: 201 }
      },
      docs: {
        operationId: 'createToken',
        summary: 'Make a token with limited rights',
        description: 'The device does not store tokens. To revoke one, replace the API key, which revokes all of them.',
        answers: {
          201: {
            description: 'The token, and its expiry if it has one.',
            content: {
              'application/json': Type.Object(
                { token: Type.String(), expiresAt: Type.Optional(Type.String({ format: 'date-time' })) },
                { $id: 'Token' },
              ),
            },
          },
          409: { description: 'The clock of the device is not set, so the expiry cannot be calculated.' },
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'A value was rejected; `errors` says which, and what would be accepted.' },
        },
      },
    },
  ]
}
