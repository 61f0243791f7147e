import { Files } from '../hal/files/files.ts'
import { removeStaleSocket } from '../hal/os/stale-socket.ts'
import type { System } from '../hal/os/system.ts'
import { registry } from '../hal/registry.ts'
import type { Setting } from '../hal/setting.ts'
import type { Moderation } from '../hal/settings/moderation.ts'
import { Journal } from '../hal/transaction/journal.ts'
import { Transactions } from '../hal/transaction/transaction.ts'
import { keyRoutes } from './api/api-key.ts'
import { engineRoutes } from './api/engines.ts'
import { eventRoute } from './api/events.ts'
import { metaRoutes } from './api/meta.ts'
import { sessionRoutes } from './api/sessions.ts'
import { systemRoutes } from './api/system.ts'
import { ApiKeyStore } from './auth/api-key.ts'
import { Authenticator } from './auth/authenticator.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import { Readers } from './events/readers.ts'
import { Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import { ENGINE_TIMEOUT_CHECK_MS, MAX_ENGINE_CONNECTIONS, MAX_KEPT_BYTES, TIMEOUT_CHECK_MS } from './limits.ts'
import type { Log } from './log.ts'
import type { Resource, Shared } from './resource.ts'
import { Sessions } from './sessions/sessions.ts'
import { SocketEngine } from './sessions/socket-engine.ts'
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

/** What the API consists of, beside the configuration, the API key, and what needs no credential. */
export const RESOURCES: readonly ((shared: Shared) => Resource)[] = [sessionsResource]

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
  const settings = registry(system)
  const transactions = new Transactions(system, settings, new Journal(state))
  const configuration = new SystemStore({ system, settings, transactions, ring, log })
  const shared: Shared = { configuration, authenticator, clock, ring, log }
  const resources = [systemResource(shared, settings), ...makers.map(make => make(shared))]
  for (const resource of resources) await resource.start()
  const routes = [
    ...resources.flatMap(({ topic, eventsPath, routes }) => [
      ...routes,
      eventRoute(eventsPath, topic, { readers, authenticator, random, limits }),
    ]),
    ...keyRoutes(keys, authenticator, log),
  ]
  const common = { authenticator, origins, clock, log }
  const server = new HttpServer({
    ...common,
    router: new Router([...routes, ...metaRoutes(version, routes)]),
    connections: limits.connections,
    connectionsPerAddress: Math.max(limits.connections / 4, 2 * limits.streamsPerAddress),
    timeoutCheckMs: TIMEOUT_CHECK_MS,
  })
  const engines = new HttpServer({
    ...common,
    router: new Router(
      resources.flatMap(({ engineRoutes = [] }) => engineRoutes),
      '',
    ),
    connections: MAX_ENGINE_CONNECTIONS,
    connectionsPerAddress: MAX_ENGINE_CONNECTIONS,
    timeoutCheckMs: ENGINE_TIMEOUT_CHECK_MS,
  })
  if (config.engines) {
    if ('path' in config.engines && config.engines.path) await removeStaleSocket(config.engines.path)
    await engines.listen(config.engines)
  }
  const address = await server.listen(config.listen)

  return {
    address,
    get status() {
      return `${address}, ${readers.size} streams and held polls`
    },
    async close() {
      const closed = [
        server.close(() => readers.close()),
        engines.close(() => {
          for (const resource of resources) resource.closeEngines?.()
        }),
      ]
      keys.stop()
      for (const resource of resources) await resource.stop()
      await Promise.all(closed)
    },
  }
}

function systemResource({ configuration, authenticator, log }: Shared, settings: readonly Setting[]): Resource {
  return {
    topic: configuration.topic,
    eventsPath: '/events',
    routes: systemRoutes({ store: configuration, settings, authenticator, log }),
    start: () => configuration.start(),
    stop: () => configuration.stop(),
  }
}

function sessionsResource({ configuration, authenticator, clock, ring, log }: Shared): Resource {
  const moderation = () => configuration.value('moderation') as Moderation
  const sessions = new Sessions({ ring, timeoutS: () => moderation().timeoutS, clock, log })
  const engine = new SocketEngine(sessions)
  const isModerated = () => moderation().approval === 'moderator'
  return {
    topic: sessions.topic,
    eventsPath: '/sessions/events',
    routes: sessionRoutes({ sessions, authenticator }),
    engineRoutes: engineRoutes(engine, isModerated),
    async start() {
      configuration.topic.log.onAppend(() => {
        if (!isModerated()) sessions.admitPending()
      })
    },
    closeEngines: () => engine.close(),
    async stop() {
      sessions.stop()
    },
  }
}
