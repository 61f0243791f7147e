import * as Type from 'typebox/type'
import { json, type WholeReply } from './reply.ts'
import type { AnyRoute, ParameterDocs, RouteDocs } from './router.ts'

const PROBLEM_TYPE = 'application/problem+json'

/** RFC 9457, as every error is answered. */
const ProblemSchema = Type.Object({
  type: Type.String({ format: 'uri' }),
  title: Type.String(),
  status: Type.Integer(),
  detail: Type.String(),
  errors: Type.Optional(
    Type.Array(
      Type.Object({
        pointer: Type.String({
          description: 'RFC 6901 pointer into the body.',
        }),
        detail: Type.String(),
      }),
    ),
  ),
})

/** What needs no credential: that the service is there, and what it offers. */
export function openRoutes(version: string, others: readonly AnyRoute[]): readonly AnyRoute[] {
  let document: WholeReply | undefined
  const routes: readonly AnyRoute[] = [
    {
      method: 'GET',
      path: '/api/v1/health',
      needs: 'nothing',
      handle: () => HEALTHY,
      docs: {
        summary: 'Whether the service is up',
        answers: {
          200: {
            description: 'It is.',
            content: {
              'application/json': Type.Object({ status: Type.Literal('ok') }),
            },
          },
        },
      },
    },
    {
      method: 'GET',
      path: '/api/v1/openapi.json',
      needs: 'nothing',
      handle: () => {
        document ??= json(Buffer.from(JSON.stringify(openApi(version, [...others, ...routes]))))
        return document
      },
      docs: {
        summary: 'This document',
        answers: {
          200: {
            description: 'OpenAPI 3.1.',
            content: { 'application/json': Type.Object({}) },
          },
        },
      },
    },
  ]
  return routes
}

const HEALTHY = json(Buffer.from('{"status":"ok"}'))

/** The OpenAPI 3.1 document of routes: made from the same schemas that check their bodies. */
export function openApi(version: string, routes: readonly AnyRoute[]): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    paths[route.path] ??= {}
    Object.assign(paths[route.path] ?? {}, {
      [route.method.toLowerCase()]: operation(route),
    })
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'receiverd',
      version,
      description: 'Device management of a screen-mirroring receiver.',
    },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }, { basic: [] }, { query: [] }],
    paths,
    components: {
      schemas: { Problem: ProblemSchema },
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'The API key, or a JWT (HS256) made from it.',
        },
        basic: {
          type: 'http',
          scheme: 'basic',
          description: 'The same as the password of any user.',
        },
        query: {
          type: 'apiKey',
          in: 'query',
          name: 'apiKey',
          description: 'The same, where headers cannot be set.',
        },
      },
    },
  }
}

function operation(route: AnyRoute): object {
  const { docs, needs } = route
  const answers: RouteDocs['answers'] = needs === 'nothing' ? docs.answers : { ...CREDENTIAL_ANSWERS, ...docs.answers }
  return {
    summary: docs.summary,
    description: [docs.description, grantText(needs)].filter(text => text !== undefined).join(' '),
    ...(needs === 'nothing' && { security: [] }),
    ...(docs.parameters && { parameters: docs.parameters.map(parameter) }),
    ...('body' in route &&
      route.body && {
        requestBody: {
          required: true,
          content: contentOf(route.body.accepts, route.body.schema),
        },
      }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => [status, response(Number(status), answer)]),
      ),
      default: response(500, { description: 'Any other error.' }),
    },
  }
}

const CREDENTIAL_ANSWERS: RouteDocs['answers'] = {
  400: { description: 'Two credentials that contradict each other.' },
  401: {
    description: 'No credential, or one that does not hold.',
    headers: ['WWW-Authenticate'],
  },
  403: {
    description: 'A credential without the grant.',
    headers: ['WWW-Authenticate'],
  },
}

function grantText(needs: AnyRoute['needs']): string {
  if (needs === 'nothing') return 'Needs no credential.'
  return needs === 'api-key' ? 'Needs the API key itself.' : `Needs the grant \`${needs}\`.`
}

function parameter({ name, in: place, description, schema }: ParameterDocs): object {
  return { name, in: place, description, schema }
}

function response(
  status: number,
  { description, content, headers = [], sometimes = [] }: RouteDocs['answers'][number],
): object {
  const header = (name: string) => [name, { required: headers.includes(name), schema: { type: 'string' } }]
  return {
    description,
    headers: Object.fromEntries([...headers, ...sometimes].map(header)),
    ...(content && {
      content: Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema }])),
    }),
    ...(status >= 400 && {
      content: {
        [PROBLEM_TYPE]: { schema: { $ref: '#/components/schemas/Problem' } },
      },
    }),
  }
}

function contentOf(types: readonly string[], schema: object): object {
  return Object.fromEntries(types.map(type => [type, { schema }]))
}
