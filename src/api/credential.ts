import * as Type from 'typebox/type'
import { ALL_GRANTS } from '../auth/grants.ts'
import { LAST_SECOND, rfc3339 } from '../clock.ts'
import { json } from '../http/reply.ts'
import type { Route } from '../http/route.ts'

const CredentialObject = Type.Object(
  {
    kind: Type.Enum(['api-key', 'token']),
    grants: Type.Array(Type.Enum([...ALL_GRANTS]), { description: 'The grants of the credential, sorted.' }),
    subject: Type.Optional(Type.String({ description: 'The name of the holder, if the token has one.' })),
    expiresAt: Type.Optional(Type.String({ format: 'date-time', description: 'When the token expires, if it does.' })),
    deviceName: Type.Optional(Type.String({ description: 'The name of this device.' })),
  },
  { $id: 'Credential' },
)

/** The route that tells clients what their credential grants, so that they need not find out by trial and error. */
export function credentialRoutes(deviceName: () => string | undefined): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/credential',
      needs: 'credential',
      handle: (_, { isApiKey, grants, sub, exp }) => {
        const name = deviceName()
        const body: Type.Static<typeof CredentialObject> = {
          kind: isApiKey ? 'api-key' : 'token',
          grants: [...grants].sort(),
          ...(sub !== undefined && { subject: sub }),
          ...(exp !== undefined && exp <= LAST_SECOND && { expiresAt: rfc3339(exp * 1000) }),
          ...(name && { deviceName: name }),
        }
        return json(Buffer.from(JSON.stringify(body)))
      },
      docs: {
        operationId: 'getCredential',
        summary: 'Read what the credential grants',
        description: 'Available to every valid credential, even one that grants nothing.',
        answers: {
          200: { description: 'The credential.', content: { 'application/json': CredentialObject } },
        },
      },
    },
  ]
}
