import * as Type from 'typebox/type'
import { NamedSchemas } from './named-schemas.ts'
import type { AnyRoute, BodyRules, ParameterDocs, RouteDocs, StreamRules } from './route.ts'
import { BASE_PATH } from './router.ts'

const PROBLEM_TYPE = 'application/problem+json'

/** The body of every error (RFC 9457). */
const ProblemSchema = Type.Object(
  {
    type: Type.String({ format: 'uri' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    session: Type.Optional(Type.String({ format: 'uuid', description: 'The session that is in the way.' })),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          pointer: Type.String({ description: 'RFC 6901 pointer into the body.' }),
          detail: Type.String(),
        }),
      ),
    ),
  },
  { $id: 'Problem' },
)

const CREDENTIAL_ANSWERS: RouteDocs['answers'] = {
  400: { description: 'The request is not valid HTTP, or has two different credentials.' },
  401: {
    description: 'The credential is missing or was refused.',
    headers: ['WWW-Authenticate'],
  },
}

/** `bearer` is last, because a popular client generator uses the last one. */
const SCHEMES = ['basic', 'query', 'bearer']

/** Returns the OpenAPI 3.1 document of the routes, generated from the schemas that validate their bodies. */
export function openApi(version: string, routes: readonly AnyRoute[]): object {
  const schemas = new NamedSchemas()
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const path = BASE_PATH + route.path
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, schemas) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'receiverd',
      version,
      description: 'Device management of a screen-mirroring receiver.',
    },
    servers: [{ url: '/' }],
    security: SCHEMES.map(scheme => ({ [scheme]: [] })),
    paths,
    components: {
      schemas: schemas.all,
      securitySchemes: {
        basic: {
          type: 'http',
          scheme: 'basic',
          description: 'The credential as the password of any user.',
        },
        query: {
          type: 'apiKey',
          in: 'query',
          name: 'apiKey',
          description: 'The credential as a query parameter, for clients that cannot set headers.',
        },
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'The API key, or a JWT (HS256) made from it.',
        },
      },
    },
  }
}

function operation(route: AnyRoute, schemas: NamedSchemas): object {
  const { docs, needs, body } = route
  const answers: RouteDocs['answers'] =
    needs === 'nothing' ? docs.answers : { ...CREDENTIAL_ANSWERS, ...notGranted(needs), ...docs.answers }
  const parameters = [...pathParameters(route), ...(docs.parameters ?? [])]
  return {
    operationId: docs.operationId,
    summary: docs.summary,
    ...(docs.description !== undefined && { description: docs.description }),
    security: security(needs),
    ...(docs.operation && { 'x-operation': docs.operation }),
    ...(parameters.length > 0 && { parameters: parameters.map(docs => parameter(docs, schemas)) }),
    ...(body && {
      requestBody: {
        required: !('isOptional' in body && body.isOptional),
        content: contentOf(
          body.accepts.map(type => [type, bodySchema(body)]),
          schemas,
        ),
      },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => [status, response(Number(status), answer, schemas)]),
      ),
      default: response(500, { description: 'Any other error.' }, schemas),
    },
  }
}

function bodySchema(body: BodyRules | StreamRules): Type.TSchema {
  if ('maxBytes' in body) return Type.String({ format: 'binary' })
  return body.documented ?? body.schema
}

/** Returns the alternatives, one per scheme and grant. The grants stand where OpenAPI 3.1 has names of roles (§4.8.30). */
function security(needs: AnyRoute['needs']): readonly object[] {
  if (needs === 'nothing') return []
  if (needs === 'credential') return SCHEMES.map(scheme => ({ [scheme]: [] }))
  return SCHEMES.flatMap(scheme => [needs].flat().map(grant => ({ [scheme]: [grant] })))
}

function notGranted(needs: Exclude<AnyRoute['needs'], 'nothing'>): RouteDocs['answers'] {
  if (needs === 'credential') return {}
  const grants = [needs].flat().map(grant => `\`${grant}\``)
  const reason = needs === 'api-key' ? 'is not the API key itself' : `does not grant ${grants.join(' or ')}`
  return { 403: { description: `The credential ${reason}.`, headers: ['WWW-Authenticate'] } }
}

/** Returns the parameters of a route's path that its docs do not describe. */
function pathParameters({ path, docs }: AnyRoute): readonly ParameterDocs[] {
  return Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => name)
    .filter(name => !docs.parameters?.some(other => other.in === 'path' && other.name === name))
    .map(name => ({ name, in: 'path', description: `\`${name}\` of the path.`, schema: Type.String() }))
}

function parameter({ name, in: place, description, schema }: ParameterDocs, schemas: NamedSchemas): object {
  return {
    name,
    in: place,
    description,
    ...(place === 'path' && { required: true }),
    schema: schemas.reference(schema),
  }
}

function response(
  status: number,
  { description, content, headers = [], sometimes = [] }: RouteDocs['answers'][number],
  schemas: NamedSchemas,
): object {
  const header = (name: string) => [name, { required: headers.includes(name), schema: { type: 'string' } }]
  const body = status >= 400 ? { [PROBLEM_TYPE]: ProblemSchema } : content
  return {
    description,
    headers: Object.fromEntries([...headers, ...sometimes].map(header)),
    ...(body && { content: contentOf(Object.entries(body), schemas) }),
  }
}

function contentOf(schemaByType: readonly (readonly [type: string, schema: unknown])[], schemas: NamedSchemas): object {
  return Object.fromEntries(schemaByType.map(([type, schema]) => [type, { schema: schemas.reference(schema) }]))
}
