import * as Type from 'typebox/type'
import { reasonOf } from '../../hal/errors.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { ROLES } from '../auth/grants.ts'
import {
  ALGORITHMS,
  type GivenIssuer,
  ISSUER_NAME,
  type Issuer,
  IssuerRequest,
  publicKeyIn,
  SOURCES,
  WRONG_KEY,
} from '../auth/issuer.ts'
import { type Issuers, TooManyIssuers } from '../auth/issuers.ts'
import { json } from '../http/reply.ts'
import type { ParameterDocs, Route } from '../http/route.ts'
import { MAX_ISSUERS } from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem, systemProblem } from '../problem.ts'
import { refusal } from '../validate.ts'
import { callerOf } from './caller.ts'

export interface IssuerRoutesOptions {
  readonly issuers: Issuers
  readonly authenticator: Authenticator
  readonly log: Log
}

const Name = Type.String({ pattern: ISSUER_NAME.source })
const NameParameter: ParameterDocs = {
  in: 'path',
  name: 'name',
  schema: Name,
  description: 'The name of the issuer, which its tokens carry as `kid`: 1 to 32 characters of a-z, 0-9 and -.',
}

const IssuerObject = Type.Object(
  {
    name: Name,
    algorithm: Type.Enum([...ALGORITHMS], { description: 'The `alg` of its tokens, which depends on its key.' }),
    roles: Type.Array(Type.Enum(ROLES), { description: 'The most that its tokens can grant.' }),
    maxAgeS: Type.Integer({ description: 'The longest lifetime of its tokens, in seconds from `iat` to `exp`.' }),
    source: Type.Enum([...SOURCES], {
      description: 'Where the issuer comes from: the image of the device, its card, or a client of this API.',
    }),
  },
  { $id: 'Issuer' },
)

const REFUSED = {
  500: { description: 'The system refused the change; nothing has changed.' },
  507: { description: 'No space left on the device; nothing has changed.' },
}

/** Routes for issuers: third parties whose tokens the device accepts besides its own. */
export function issuerRoutes({ issuers, authenticator, log }: IssuerRoutesOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/issuers',
      needs: 'admin:r',
      handle: () => json(Buffer.from(JSON.stringify({ issuers: issuers.all.map(shown) }))),
      docs: {
        operationId: 'getIssuers',
        summary: 'List the issuers',
        description: 'An issuer is a third party whose tokens the device accepts, verified with a public key.',
        answers: {
          200: {
            description: 'The issuers in force, in alphabetical order.',
            content: { 'application/json': Type.Object({ issuers: Type.Array(IssuerObject) }, { $id: 'Issuers' }) },
          },
        },
      },
    },
    {
      method: 'PUT',
      path: '/issuers/{name}',
      needs: 'api-key',
      body: { accepts: ['application/json'], schema: IssuerRequest },
      handle: async (request, credential) => {
        const name = request.parameter('name')
        const given = request.body as GivenIssuer
        if (!ISSUER_NAME.test(name)) throw refusal('invalid-body', [WRONG_NAME])
        if (!publicKeyIn(given.publicKey)) throw refusal('invalid-body', [{ pointer: '/publicKey', detail: WRONG_KEY }])
        const isKnown = await orProblem(() => issuers.put(name, given, () => authenticator.recheck(credential)))
        const issuer = issuers.get(name)
        // Another request may have removed the file at the same moment.
        if (!issuer) throw new Problem('conflict', 'The issuer was removed again at the same moment.')
        const { algorithm, roles } = issuer
        log('warning', `${callerOf(request, credential)} put the issuer ${name}: ${algorithm}, ${roles.join(', ')}`)
        return { ...json(Buffer.from(JSON.stringify(shown(issuer)))), status: isKnown ? 200 : 201 }
      },
      docs: {
        operationId: 'putIssuer',
        summary: 'Add or replace an issuer',
        description:
          'The device accepts the tokens of this issuer from now on. Replacing the key ends the streams of tokens that were ' +
          'signed with the old one.',
        parameters: [NameParameter],
        answers: {
          200: { description: 'The replaced issuer.', content: { 'application/json': IssuerObject } },
          201: { description: 'The added issuer.', content: { 'application/json': IssuerObject } },
          409: { description: `There are ${MAX_ISSUERS} issuers already.` },
          413: { description: 'The body is too large.' },
          415: { description: 'Not JSON.', headers: ['Accept'] },
          422: { description: 'A value was rejected; `errors` says which, and what would be accepted.' },
          ...REFUSED,
        },
      },
    },
    {
      method: 'DELETE',
      path: '/issuers/{name}',
      needs: 'api-key',
      handle: async (request, credential) => {
        const name = request.parameter('name')
        const isRemoved = await orProblem(() => issuers.remove(name, () => authenticator.recheck(credential)))
        if (!isRemoved) throw new Problem('not-found', 'There is no issuer of this name.')
        log('warning', `${callerOf(request, credential)} removed the issuer ${name}`)
        return { status: 204, headers: [] }
      },
      docs: {
        operationId: 'deleteIssuer',
        summary: 'Remove an issuer',
        description:
          'The device rejects its tokens from now on, and ends their streams. A factory reset restores an issuer of the image.',
        parameters: [NameParameter],
        answers: {
          204: { description: 'The issuer was removed.' },
          404: { description: 'No issuer has this name.' },
          ...REFUSED,
        },
      },
    },
  ]
}

const WRONG_NAME = { pointer: '', detail: 'the name in the path must be 1 to 32 characters of a-z, 0-9 and -' }

function shown({ name, algorithm, roles, maxAgeS, source }: Issuer): Type.Static<typeof IssuerObject> {
  return { name, algorithm, roles: [...roles], maxAgeS, source }
}

/** Runs `change`. @throws {Problem} in place of its errors. */
async function orProblem<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change()
  } catch (error) {
    if (error instanceof Problem) throw error
    if (error instanceof TooManyIssuers)
      throw new Problem('conflict', `There are ${MAX_ISSUERS} issuers already. Remove one first.`)
    throw systemProblem(`The issuer could not be stored or removed: ${reasonOf(error)}. Nothing has changed.`, error)
  }
}
