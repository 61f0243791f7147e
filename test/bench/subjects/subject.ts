import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { JsonObject } from '../../../src/json.ts'
import { pinned, SERVER_CORE } from '../cores.ts'
import { type Launch, Server } from '../server.ts'
import { requestText } from '../wire.ts'

/** A measured server: the service as it ships, or an alternative. */
export interface Subject {
  readonly name: string
  /** The Debian packages that it lacks. */
  readonly missing?: string | undefined
  /** @param env Added to the environment by a scenario. */
  start(env?: NodeJS.ProcessEnv): Promise<Server>
  /** A credential; each `sub` gets another one. */
  token(sub?: string): string
  /** A request that publishes an event. In it load.c replaces `########` with the event's number. */
  publish(change?: JsonObject): string
  /** The head of a request that follows events, without the empty line at its end. */
  subscribe(kind: Kind, path?: string): string
}

export type Kind = 'stream' | 'poll'

/** The files that a run makes. */
export const OUT = resolve('build/out/bench')
/** A folder on the disk that the service writes to. */
export const DISK = join(OUT, 'disk')
/** The Node that devices have. */
const SHIPPED = resolve(`test/bench/node_modules/node-${process.arch}/bin/node`)
/** For the service and its peers. */
export const NODE = process.env.NODE ?? (existsSync(SHIPPED) ? SHIPPED : process.execPath)
/** Node keeps compiled code: the unit gives the service such a folder, and the peers get theirs. */
export const COMPILE_CACHE = `${OUT}/compiled`

export const SYSTEM = '/api/v1/system'
export const EVENTS = '/api/v1/events'
/** The number's place in a published event. */
export const NUMBER = 'bench-########'
const CHANGE: JsonObject = { deviceName: NUMBER }

/** Starts a server on its core. */
export function startPinned(launch: Launch): Promise<Server> {
  return Server.start({ ...launch, argv: pinned(SERVER_CORE, launch.argv) })
}

export function patchRequest(token: string, change: JsonObject = CHANGE): string {
  return requestText({ method: 'PATCH', path: SYSTEM, token, body: JSON.stringify(change) })
}

export function subscription(token: string, kind: Kind, path = EVENTS): string {
  const accept = kind === 'stream' ? 'text/event-stream' : 'application/json'
  return requestText({ path, token, headers: [`Accept: ${accept}`] }).replace(/\r\n$/, '')
}
