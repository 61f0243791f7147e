import * as Type from 'typebox/type'
import type { Device } from '../../hal/engine.ts'
import type { OpenRoute } from '../http/route.ts'
import { MAX_ADDRESS, MAX_DEVICE_ID, MAX_MODEL, MAX_NAME, PROTOCOL } from '../sessions/session.ts'
import type { SocketEngine } from '../sessions/socket-engine.ts'

/** Texts may be longer than the part that is kept: engines pass on whatever devices send. */
const text = (kept: number) => Type.Optional(Type.String({ maxLength: 8 * kept }))

const AskSchema = Type.Object(
  {
    protocol: Type.String({
      description: '1 to 32 lower-case letters, digits and hyphens, such as miracast',
      maxLength: 32,
      pattern: PROTOCOL,
    }),
    name: text(MAX_NAME),
    model: text(MAX_MODEL),
    deviceId: text(MAX_DEVICE_ID),
    address: text(MAX_ADDRESS),
    state: Type.Optional(
      Type.Enum(['pending', 'active'], {
        description: '`active`: the device is already mirroring, and was admitted before.',
      }),
    ),
    // Identify a session that continues. Ignored unless valid.
    id: Type.Optional(Type.Unknown()),
    since: Type.Optional(Type.Unknown()),
  },
  { additionalProperties: false },
)

/**
 * The route on the engines' socket.
 * @param isModerated Reports whether devices need admission.
 */
export function engineRoutes(engine: SocketEngine, isModerated: () => boolean): readonly OpenRoute[] {
  return [
    {
      method: 'POST',
      path: '/sessions',
      needs: 'nothing',
      // The second type is what `curl -d` sends by default.
      body: { accepts: ['application/json', 'application/x-www-form-urlencoded'], schema: AskSchema },
      handle: request => {
        const { state, id, since, ...device } = request.body as Type.Static<typeof AskSchema>
        const mustAsk = state !== 'active' && isModerated()
        const former = state === 'active' ? { id, since } : {}
        return engine.open({ ...UNKNOWN, ...device }, mustAsk ? 'pending' : 'active', former)
      },
      docs: { operationId: 'openSession', summary: 'Ask for a session', answers: {} },
    },
  ]
}

const UNKNOWN: Omit<Device, 'protocol'> = { name: '', model: '', deviceId: '', address: '' }
