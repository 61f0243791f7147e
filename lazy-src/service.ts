import { Files } from '../hal/files/files.ts'
import type { System } from '../hal/os/system.ts'
import { registry } from '../hal/registry.ts'
import { Journal } from '../hal/transaction/journal.ts'
import { Transactions } from '../hal/transaction/transaction.ts'
import { keyRoutes } from './api/api-key.ts'
import { eventRoutes } from './api/events.ts'
import { systemRoutes } from './api/system.ts'
import { ApiKeyStore } from './auth/api-key.ts'
import { Authenticator } from './auth/authenticator.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import { EventLog } from './events/event-log.ts'
import { Readers } from './events/readers.ts'
import { Resync } from './events/resync.ts'
import { openRoutes } from './http/openapi.ts'
import { Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import { MAX_KEPT_BYTES } from './limits.ts'
import type { Log } from './log.ts'
import { SystemStore } from './system/store.ts'

/** What the service takes from outside: everything that a test would have otherwise. */
export interface Surroundings {
  readonly system: System
  readonly clock: Clock
  readonly log: Log
  /** 0 to 1. */
  readonly random: () => number
  /** A UUID that was never used before. */
  readonly newId: () => string
  readonly version: string
  /** When the program was built, milliseconds since 1970. */
  readonly builtAt: number
}

export interface Service {
  /** Where it listens, as a URL. */
  readonly address: string
  /** How it fares, in a line. */
  readonly status: string
  /** Answers what is held, ends what is open, finishes what is being written, and resolves when all of that is done. */
  close(): Promise<void>
}

/** Puts the rooms together, and serves. */
export async function startService(config: Config, surroundings: Surroundings): Promise<Service> {
  const { limits } = config
  const { system, clock, log, random, newId, version, builtAt } = surroundings
  const settings = registry(system)

  const state = new Files(config.stateDir)
  const keys = await ApiKeyStore.open(state, log)
  const authenticator = new Authenticator(keys.current, {
    clock,
    log,
    builtAt,
    leewayS: limits.leewayS,
  })
  const events = new EventLog({
    maxEvents: limits.events,
    maxBytes: MAX_KEPT_BYTES,
    newId,
  })
  const transactions = new Transactions(system, settings, new Journal(state))
  const store = new SystemStore({ system, settings, transactions, events, log })
  const readers = new Readers(events, {
    limits,
    refusalNow: (credential, now) => authenticator.refusalNow(credential, now),
    clock,
    moreToCome: () => store.isBusy,
  })
  keys.onReplaced(key => {
    authenticator.replaceKey(key)
    readers.endRefused()
  })
  const undone = await store.start()
  const resync = new Resync(events, () => store.json, undone)

  const routes = [
    ...systemRoutes({ store, events, settings, authenticator, log }),
    ...eventRoutes({
      log: events,
      readers,
      resync,
      authenticator,
      random,
      limits,
    }),
    ...keyRoutes(keys, authenticator),
  ]
  const router = new Router([...routes, ...openRoutes(version, routes)])
  const { origins } = config
  const server = new HttpServer({
    router,
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
      await store.stop()
      await closed
    },
  }
}
