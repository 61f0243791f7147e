import * as Type from 'typebox/type'
import type { Engine } from '../../hal/engine.ts'
import { reasonOf } from '../../hal/errors.ts'
import { type LogQuery, type LogRecord, readJournal } from '../../hal/os/journald.ts'
import { loggingUnits } from '../../hal/os/receiver.ts'
import type { System } from '../../hal/os/system.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import { prefers } from '../http/conditional.ts'
import { json, type WholeReply } from '../http/reply.ts'
import type { Request } from '../http/request.ts'
import type { Route } from '../http/route.ts'
import { MAX_LOG_BYTES, MAX_LOG_LINES, MAX_UNREAD_BYTES, MAX_WAITING_LOGS } from '../limits.ts'
import { printable } from '../log.ts'
import { Problem } from '../problem.ts'
import { busy, Turns } from './turns.ts'

const DEFAULT_LINES = 200
const BUSY = 'Too many clients are reading the log.'
const MAX_PRIORITY = 7
/** The priorities of syslog(3), as named by journalctl(1). */
const PRIORITIES = ['emerg', 'alert', 'crit', 'err', 'warning', 'notice', 'info', 'debug'] as const
/** The escape sequences by which programs color their output (ECMA-48 §8.3.117). */
const COLOURS = /\x1b\[[0-9;]*m/g

const RecordObject = Type.Object(
  {
    time: Type.String({ format: 'date-time' }),
    unit: Type.String({ description: 'The unit that logged the record, or that the record is about.' }),
    priority: Type.Integer({ minimum: 0, maximum: MAX_PRIORITY, description: 'From 0 (emergency) to 7 (debug).' }),
    message: Type.String({
      description:
        'May contain text from strangers, such as the names of their devices: display it as plain text only.',
    }),
  },
  { $id: 'LogRecord' },
)

export interface LogsOptions {
  readonly system: System
  readonly engines: readonly Engine[]
  readonly authenticator: Authenticator
  /** Returns the bytes of responses that clients have not read yet. */
  readonly unreadBytes: () => number
}

/** The route that reads the log of this service and of the mirroring programs. */
export function logRoutes({ system, engines, authenticator, unreadBytes }: LogsOptions): readonly Route[] {
  const units = loggingUnits(engines)
  const turns = new Turns(MAX_WAITING_LOGS, authenticator, BUSY)
  return [
    {
      method: 'GET',
      path: '/logs',
      needs: 'admin:r',
      handle: (request, credential) => {
        const query = queryOf(request, units)
        const isText = prefers(request.header('accept'), 'text/plain', 'application/json')
        return turns.run(credential, () => {
          if (unreadBytes() > MAX_UNREAD_BYTES) throw busy(BUSY)
          return read(system, engines, query, isText)
        })
      },
      docs: {
        operationId: 'getLogs',
        summary: 'Read the log',
        description:
          'The journal of this service and of the mirroring programs, oldest first. With `Accept: text/plain`, one line per ' +
          `record. An AirPlay PIN is shown as \`****\`. The response has at most ${MAX_LOG_BYTES / 1024} KiB; ` +
          'if that is not enough, the oldest records are left out.',
        parameters: [
          {
            in: 'query',
            name: 'lines',
            schema: Type.Integer({ minimum: 1, maximum: MAX_LOG_LINES }),
            description: `Number of latest records to return. Default: ${DEFAULT_LINES}.`,
          },
          {
            in: 'query',
            name: 'unit',
            schema: Type.Enum([...units]),
            description: 'Return only records of this unit. Default: all units.',
          },
          {
            in: 'query',
            name: 'priority',
            schema: Type.Integer({ minimum: 0, maximum: MAX_PRIORITY }),
            description:
              'Return only records of this priority or more urgent, from 0 (emergency) to 7 (debug). Default: all.',
          },
        ],
        answers: {
          200: {
            description: 'The records, oldest first.',
            content: { 'application/json': Type.Array(RecordObject), 'text/plain': Type.String() },
          },
          400: { description: 'A query parameter is not valid.' },
          409: { description: 'The device keeps no journal, or the service runs on another root.' },
          503: { description: BUSY, headers: ['Retry-After'] },
        },
      },
    },
  ]
}

/** @throws {Problem} 400 */
function queryOf(request: Request, units: readonly string[]): LogQuery {
  const name = request.queryParameter('unit')
  const unit = units.find(known => known === name)
  if (name !== undefined && !unit)
    throw new Problem('bad-request', `The query parameter unit must be one of ${units.join(', ')}.`)
  return {
    units,
    unit,
    lines: request.integerParameter('lines', 1, MAX_LOG_LINES) ?? DEFAULT_LINES,
    priority: request.integerParameter('priority', 0, MAX_PRIORITY),
  }
}

async function read(system: System, engines: readonly Engine[], query: LogQuery, isText: boolean): Promise<WholeReply> {
  const format = isText ? textLine : jsonObject
  const newestFirst: string[] = []
  // Accounts for the brackets of the array.
  let size = 2
  try {
    await readJournal(system, query, record => {
      const text = format(record, linesOf(record.message, engines))
      size += Buffer.byteLength(text) + 1
      if (size > MAX_LOG_BYTES) return false
      newestFirst.push(text)
      return true
    })
  } catch (error) {
    throw new Problem('conflict', `The log cannot be read: ${reasonOf(error)}.`, { cause: error })
  }
  const records = newestFirst.reverse()
  if (!isText) return json(Buffer.from(`[${records.join()}]`))
  const body = records.map(line => `${line}\n`).join('')
  return { status: 200, headers: ['Content-Type', 'text/plain; charset=utf-8'], body: Buffer.from(body) }
}

function jsonObject({ time, unit, priority }: LogRecord, lines: readonly string[]): string {
  return JSON.stringify({ time: timeText(time), unit, priority, message: lines.join('\n') })
}

function textLine({ time, unit, priority }: LogRecord, lines: readonly string[]): string {
  return `${timeText(time)} ${unit} ${PRIORITIES[priority]}: ${lines.join(' ')}`
}

/** Splits a message into lines, without PINs or characters that control a terminal or reorder the text. */
function linesOf(message: string, engines: readonly Engine[]): readonly string[] {
  return message
    .replace(COLOURS, '')
    .replaceAll('\t', ' ')
    .trimEnd()
    .split(/\r?\n/)
    .map(line => engines.reduce((text, engine) => engine.withoutPin(text), printable(line)))
}

function timeText(microseconds: number): string {
  return new Date(microseconds / 1000).toISOString()
}
