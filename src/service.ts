import { Files } from '../hal/files/files.ts'
import type { System } from '../hal/os/system.ts'
import { registry } from '../hal/registry.ts'
import { Journal } from '../hal/transaction/journal.ts'
import { Transactions } from '../hal/transaction/transaction.ts'
import { keyRoutes } from './api/api-key.ts'
import { eventRoute } from './api/events.ts'
import { metaRoutes } from './api/meta.ts'
import { systemRoutes } from './api/system.ts'
import { ApiKeyStore } from './auth/api-key.ts'
import { Authenticator } from './auth/authenticator.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import { Readers } from './events/readers.ts'
import { Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import { MAX_KEPT_BYTES } from './limits.ts'
import type { Log } from './log.ts'
import type { Resource, Shared } from './resource.ts'
import { SystemStore } from './system/store.ts'

/** What the service takes from outside: everything that a test may replace. */
export interface Surroundings {
  readonly system: System
  readonly clock: Clock
  readonly log: Log
  /** Returns 0 to 1. */
  readonly random: () => number
  /** Returns a UUID that was never used before. */
  readonly newId: () => string
  readonly version: string
  /** When the program was built, in milliseconds since 1970. */
  readonly builtAt: number
}

export interface Service {
  /** Where it listens, as a URL. */
  readonly address: string
  /** One line for `systemctl status`. */
  readonly status: string
  /** Answers held polls, ends streams, finishes writes, and resolves when all of that is done. */
  close(): Promise<void>
}

/** What the API consists of, beside the API key and what needs no credential. */
export const RESOURCES: readonly ((shared: Shared) => Resource)[] = [systemResource]

/** Assembles the parts, and serves. */
export async function startService(config: Config, surroundings: Surroundings, makers = RESOURCES): Promise<Service> {
  const { limits, origins } = config
  const { system, clock, log, random, newId, version, builtAt } = surroundings

  const state = new Files(config.stateDir)
  const keys = await ApiKeyStore.open(state, log)
  const authenticator = new Authenticator(keys.current, { clock, log, builtAt, leewayS: limits.leewayS })
  const readers = new Readers({
    limits,
    refusalNow: (credential, now) => authenticator.refusalNow(credential, now),
    clock,
  })
  keys.onReplaced(key => {
    authenticator.replaceKey(key)
    readers.endRefused()
  })

  const ring = { maxEvents: limits.events, maxBytes: MAX_KEPT_BYTES, newId }
  const resources = makers.map(make => make({ system, state, authenticator, ring, log }))
  for (const resource of resources) await resource.start()
  const routes = [
    ...resources.flatMap(({ topic, eventsPath, routes }) => [
      ...routes,
      eventRoute(eventsPath, topic, { readers, authenticator, random, limits }),
    ]),
    ...keyRoutes(keys, authenticator, log),
  ]
  const server = new HttpServer({
    router: new Router([...routes, ...metaRoutes(version, routes)]),
    authenticator,
    origins,
    connections: limits.connections,
    connectionsPerAddress: Math.max(limits.connections / 4, 2 * limits.streamsPerAddress),
    clock,
    log,
  })
  const address = await server.listen(config.listen)

  return {
    address,
    get status() {
      return `${address}, ${readers.size} streams and held polls`
    },
    async close() {
      const closed = server.close(() => readers.close())
      keys.stop()
      for (const resource of resources) await resource.stop()
      await closed
    },
  }
}

function systemResource({ system, state, authenticator, ring, log }: Shared): Resource {
  const settings = registry(system)
  const transactions = new Transactions(system, settings, new Journal(state))
  const store = new SystemStore({ system, settings, transactions, ring, log })
  return {
    topic: store.topic,
    eventsPath: '/events',
    routes: systemRoutes({ store, settings, authenticator, log }),
    start: () => store.start(),
    stop: () => store.stop(),
  }
}
