import * as Type from 'typebox/type'
import { openApi } from '../http/openapi.ts'
import { json, type WholeReply } from '../http/reply.ts'
import type { AnyRoute } from '../http/route.ts'

const HEALTHY = json(Buffer.from('{"status":"ok"}'))

/**
 * Routes that need no credential: the health check and the OpenAPI document.
 * @param others All other routes, which the document also describes.
 */
export function metaRoutes(version: string, others: readonly AnyRoute[]): readonly AnyRoute[] {
  let document: WholeReply | undefined
  const routes: readonly AnyRoute[] = [
    {
      method: 'GET',
      path: '/health',
      needs: 'nothing',
      handle: () => HEALTHY,
      docs: {
        operationId: 'getHealth',
        summary: 'Check that the service is up',
        answers: {
          200: {
            description: 'The service is up.',
            content: { 'application/json': Type.Object({ status: Type.Literal('ok') }, { $id: 'Health' }) },
          },
        },
      },
    },
    {
      method: 'GET',
      path: '/openapi.json',
      needs: 'nothing',
      handle: () => {
        document ??= json(Buffer.from(JSON.stringify(openApi(version, [...others, ...routes]))))
        return document
      },
      docs: {
        operationId: 'getOpenApi',
        summary: 'Read this document',
        answers: {
          200: {
            description: 'The OpenAPI 3.1 document.',
            content: { 'application/json': Type.Object({}, { additionalProperties: true }) },
          },
        },
      },
    },
  ]
  return routes
}
