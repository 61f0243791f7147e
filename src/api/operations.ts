import * as Type from 'typebox/type'
import { errorCode, HalError, reasonOf } from '../../hal/errors.ts'
import type { Led } from '../../hal/os/led.ts'
import { reboot } from '../../hal/os/reboot.ts'
import { restartReceiver } from '../../hal/os/receiver.ts'
import type { Screen } from '../../hal/os/screen.ts'
import type { System } from '../../hal/os/system.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { json } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { AnswerDocs, OperationDocs, ParameterDocs, Route, RouteDocs } from '../http/route.ts'
import { IDENTIFY_MS, MAX_WAITING_OPERATIONS } from '../limits.ts'
import type { Log } from '../log.ts'
import { namePicture } from '../presence/picture.ts'
import { Problem, systemProblem } from '../problem.ts'
import type { SystemStore } from '../system/store.ts'
import { callerOf } from './caller.ts'
import type { Surroundings } from './surroundings.ts'
import { Turns } from './turns.ts'

export interface OperationRoutesOptions {
  readonly system: System
  /** The units that mirror, in the order in which they are started. */
  readonly mirroring: readonly string[]
  readonly configuration: SystemStore
  readonly led: Led
  readonly screen: Screen
  readonly authenticator: Authenticator
  readonly log: Log
  readonly orderReset: Surroundings['orderReset']
  readonly reset: Surroundings['reset']
  /** @throws {Problem} 409 while a factory reset is not allowed. */
  readonly requireResettable: () => void
}

interface Operation extends OperationDocs {
  readonly name: string
  readonly needs: Route['needs']
  /** Resolves once the operation is certain to happen. Rejects if it will not. */
  readonly begin: (request: Request) => Promise<void>
  readonly parameters?: RouteDocs['parameters']
  readonly operationId: string
  /** The effect in a word or two, as on a button. */
  readonly summary: string
  /** The effect in full sentences, for people and for clients. */
  readonly description: string
  /** When the device refuses the operation, other than because of another root. */
  readonly conflict?: string
}

/** Operations that an administrator starts on the device. */
export function operationRoutes(options: OperationRoutesOptions): readonly Route[] {
  const { system, authenticator, log } = options
  const turns = new Turns(MAX_WAITING_OPERATIONS, authenticator, 'Too many operations are under way.')
  return operationsOf(options).map(
    ({ name, needs, begin, conflict, confirm, destructive, parameters = [], ...docs }) => ({
      method: 'POST',
      path: `/operations/${name}`,
      needs,
      handle: async (request, credential) => {
        if (!system.isRunning)
          throw new Problem(
            'conflict',
            'Not possible here: this is not the running system, only the files of one (--root).',
          )
        await turns.run(credential, async () => {
          await begin(request).catch(error => {
            throw refused(name, error)
          })
          log('notice', `${callerOf(request, credential)} started the operation ${name}`)
        })
        return { ...json(Buffer.from(JSON.stringify({ operation: name }))), status: 202 }
      },
      docs: { ...docs, parameters, operation: { confirm, destructive }, answers: answers(name, conflict) },
    }),
  )
}

function operationsOf({
  system,
  mirroring,
  configuration,
  led,
  screen,
  orderReset,
  reset,
  requireResettable,
}: OperationRoutesOptions): readonly Operation[] {
  return [
    {
      name: 'reboot',
      needs: 'admin:w',
      begin: () => reboot(system),
      operationId: 'reboot',
      summary: 'Reboot',
      description: 'Restarts the device. All sessions and event streams end. This takes about a minute.',
      confirm: true,
      destructive: false,
    },
    {
      name: 'restart-receiver',
      needs: 'admin:w',
      async begin() {
        if (!(await restartReceiver(system, mirroring)))
          throw new Problem('conflict', `None of these runs on this device: ${mirroring.join(', ')}.`)
      },
      operationId: 'restartReceiver',
      summary: 'Restart mirroring',
      description: 'Restarts the mirroring programs, unless they are stopped. All sessions end.',
      confirm: true,
      destructive: false,
      conflict: 'no mirroring program runs',
    },
    {
      name: 'identify',
      needs: 'admin:w',
      async begin() {
        const name = configuration.value('deviceName') ?? ''
        const isShown = await orAbsent(screen.identify(namePicture(name)))
        const blinks = await orAbsent(led.blink(IDENTIFY_MS))
        if (!isShown && !blinks) throw new HalError('ABSENT', 'the device has neither a screen nor an LED of its own')
      },
      operationId: 'identify',
      summary: 'Identify',
      description: `Shows the name of the device on its screen and blinks its LED for ${IDENTIFY_MS / 1000} seconds.`,
      confirm: false,
      destructive: false,
      conflict: 'the device has neither a screen nor an LED',
    },
    {
      name: 'factory-reset',
      needs: 'api-key',
      async begin(request) {
        const forgets = forgetsCard(request)
        requireResettable()
        await orderReset(forgets)
        reset()
      },
      parameters: [FORGET_CARD],
      operationId: 'factoryReset',
      summary: 'Factory reset',
      description:
        'Restores all settings to their state as delivered, or to those on its card (receiver.txt), and removes any TLS key of ' +
        'yours. The device restarts with a new API key, or with the one that it was given. Tokens and links made with the old ' +
        'key stop working. Set the device up again from its screen, or with “receiverd key show”. A power cut does not stop ' +
        'the reset.',
      confirm: true,
      destructive: true,
      conflict: 'an update is being installed or waits for the restart, or the version that runs is on trial',
    },
  ]
}

const FORGET_CARD: ParameterDocs = {
  in: 'query',
  name: 'card',
  schema: Type.Enum(['forget']),
  description: 'Also remove the settings and the API key that came from its card, for a device that changes hands.',
}

/** @throws {Problem} 400 */
function forgetsCard(request: Request): boolean {
  const value = request.queryParameter('card')
  if (value === undefined || value === 'forget') return value !== undefined
  throw new Problem('bad-request', 'The query parameter card must be forget, or be left out.')
}

/** Resolves with whether the device has the hardware that this needs. */
async function orAbsent(done: Promise<void>): Promise<boolean> {
  try {
    await done
    return true
  } catch (error) {
    if (errorCode(error) === 'ABSENT') return false
    throw error
  }
}

function refused(name: string, error: unknown): Problem {
  if (error instanceof Problem) return error
  const reason = reasonOf(error)
  if (errorCode(error) === 'ABSENT') return new Problem('conflict', `The operation is not possible: ${reason}.`)
  return systemProblem(`The system refused ${name}: ${reason}.`, error)
}

function answers(name: string, conflict: string | undefined): Readonly<Record<number, AnswerDocs>> {
  const also = conflict === undefined ? '' : `, or ${conflict}`
  return {
    202: {
      description: 'Accepted; the device will carry it out.',
      content: { 'application/json': Type.Object({ operation: Type.Literal(name) }) },
    },
    409: { description: `The service does not run on the device itself, but on another root${also}.` },
    500: { description: 'The system refused the operation.' },
    503: { description: 'Too many operations are under way.', headers: ['Retry-After'] },
    507: { description: 'No space left on the device; the operation was not started.' },
  }
}
