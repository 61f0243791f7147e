import * as Type from 'typebox/type'
import { prefers } from '../http/conditional.ts'
import type { Route } from '../http/route.ts'
import { CONTENT_TYPES, expose, type Family } from '../metrics/exposition.ts'

/** The route that reads the metrics of the device and of the service, for Prometheus. */
export function metricsRoutes(families: () => Promise<readonly Family[]>): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/metrics',
      needs: 'admin:r',
      handle: async request => {
        const isOpen = prefers(request.header('accept'), 'application/openmetrics-text', 'text/plain')
        const format = isOpen ? 'openmetrics' : 'prometheus'
        const headers = ['Content-Type', CONTENT_TYPES[format]]
        return { status: 200, headers, body: Buffer.from(expose(await families(), format)) }
      },
      docs: {
        operationId: 'getMetrics',
        summary: 'Read the metrics of the device and of the service',
        description: 'Prometheus text format 0.0.4, or OpenMetrics 1.0 if `Accept` prefers it.',
        answers: {
          200: {
            description: 'The metrics.',
            content: { 'text/plain': Type.String(), 'application/openmetrics-text': Type.String() },
          },
        },
      },
    },
  ]
}
