import { enginesOf } from '../hal/engines/registry.ts'
import { Files } from '../hal/files/files.ts'
import { Announcement } from '../hal/os/announcement.ts'
import { CertificateFiles } from '../hal/os/certificate.ts'
import { Led } from '../hal/os/led.ts'
import { loggingUnits, mirroringUnits } from '../hal/os/receiver.ts'
import { Screen } from '../hal/os/screen.ts'
import { removeStaleSocket } from '../hal/os/stale-socket.ts'
import type { System } from '../hal/os/system.ts'
import { registry } from '../hal/registry.ts'
import type { Setting } from '../hal/setting.ts'
import { MODERATED } from '../hal/settings/moderation.ts'
import { Journal } from '../hal/transaction/journal.ts'
import { Originals } from '../hal/transaction/originals.ts'
import { Transactions } from '../hal/transaction/transaction.ts'
import { keyRoutes } from './api/api-key.ts'
import type { Page } from './api/built-page.ts'
import { choiceRoutes } from './api/choices.ts'
import { engineRoutes } from './api/engines.ts'
import { eventRoute } from './api/events.ts'
import { changeFamilies, eventFamilies, httpFamilies, processFamilies, sessionFamilies } from './api/families.ts'
import { logRoutes } from './api/logs.ts'
import { metaRoutes } from './api/meta.ts'
import { metricsRoutes } from './api/metrics.ts'
import { operationRoutes } from './api/operations.ts'
import { pageRoutes } from './api/page.ts'
import type { Resource, Shared } from './api/resource.ts'
import { sessionRoutes } from './api/sessions.ts'
import { statusRoutes } from './api/status.ts'
import { systemRoutes } from './api/system.ts'
import { tokenRoutes } from './api/tokens.ts'
import { ApiKeyStore, readCredential } from './auth/api-key.ts'
import { Authenticator } from './auth/authenticator.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import { Readers } from './events/readers.ts'
import { BASE_PATH, Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import { ENGINE_TIMEOUT_CHECK_MS, MAX_ENGINE_CONNECTIONS, MAX_KEPT_BYTES, TIMEOUT_CHECK_MS } from './limits.ts'
import type { Log } from './log.ts'
import { startAnnouncing, stopAnnouncing } from './presence/announcement.ts'
import { startIdleScreen } from './presence/idle-screen.ts'
import { Tls } from './presence/tls.ts'
import { Sessions } from './sessions/sessions.ts'
import { SocketEngine } from './sessions/socket-engine.ts'
import { SystemStore } from './system/store.ts'

/** Everything that the service takes from outside and that a test may replace. */
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
  /** Called once a factory reset is certain: finishes it, and restarts the device. */
  readonly reset: () => void
  /** Undefined in a program that runs from its sources. */
  readonly page: Page | undefined
}

export interface Service {
  /** Where it listens, as a URL. */
  readonly address: string
  /** One line for `systemctl status`. */
  readonly status: string
  /** Answers held polls, ends streams, finishes writes, and resolves when all of that is done. */
  close(): Promise<void>
}

/** The resources of the API, besides the configuration, the API key and the routes without a credential. */
export const RESOURCES: readonly ((shared: Shared) => Resource)[] = [sessionsResource]

/** Assembles the parts, and serves. */
export async function startService(
  config: Config,
  surroundings: Surroundings,
  makers = RESOURCES,
  settingsOf = registry,
): Promise<Service> {
  const { limits, origins } = config
  const { system, clock, log, random, newId, version, builtAt, reset, page } = surroundings

  const state = new Files(config.stateDir)
  const { credentialsDir } = config
  const passed = async () => (credentialsDir ? readCredential(credentialsDir) : undefined)
  const keys = await ApiKeyStore.open(state, log, passed, config.screenKey)
  let redrawIdleScreen: () => void = () => undefined
  const onFirstUse = () => {
    keys.used()
    redrawIdleScreen()
  }
  const authenticator = new Authenticator(keys.current, { clock, log, builtAt, leewayS: limits.leewayS, onFirstUse })
  const readers = new Readers({
    limits,
    refusalNow: (credential, now) => authenticator.refusalNow(credential, now),
    clock,
  })
  keys.onReplaced(key => {
    authenticator.replaceKey(key)
    readers.endRefused()
    redrawIdleScreen()
  })

  const ring = { maxEvents: limits.events, maxBytes: MAX_KEPT_BYTES, newId }
  const mirroring = enginesOf(system)
  const settings = settingsOf(system, mirroring)
  const originals = new Originals(state, what => log('error', what))
  const transactions = new Transactions(system, settings, new Journal(state), originals)
  const configuration = new SystemStore({ system, settings, transactions, ring, log })
  const shared: Shared = { system, engines: mirroring, configuration, authenticator, clock, ring, log }
  const led = new Led(system)
  const screen = new Screen(system)
  const resources = [systemResource(shared, settings), ...makers.map(make => make(shared))]
  for (const resource of resources) await resource.start()
  const tls =
    config.tlsPort !== undefined && system.isRunning
      ? new Tls({ files: new CertificateFiles(system), configuration, originals, clock, builtAt, log })
      : undefined
  const certificatePin = () => tls?.certificate?.pin
  const counts = () => ({
    streams: readers.size - readers.heldPolls,
    heldPolls: readers.heldPolls,
    connections: server.connections,
    ...Object.assign({}, ...resources.map(resource => resource.counts?.())),
  })
  const ofProcess = processFamilies(version, clock)
  const families = () => [
    ...ofProcess(),
    ...httpFamilies(server, engines, limits),
    ...eventFamilies(
      resources.map(({ topic }) => topic),
      readers,
      limits,
    ),
    ...changeFamilies(configuration.tally),
    ...resources.flatMap(resource => resource.families?.() ?? []),
  ]
  const routes = [
    ...resources.flatMap(({ topic, eventsPath, routes }) => [
      ...routes,
      eventRoute(eventsPath, topic, { readers, authenticator, random, limits }),
    ]),
    ...keyRoutes(keys, authenticator, log),
    ...tokenRoutes({ keys, clock, builtAt, log }),
    ...statusRoutes({ version, system, state, clock, builtAt, counts, certificatePin }),
    ...operationRoutes({
      system,
      mirroring: mirroringUnits(mirroring),
      state,
      configuration,
      led,
      screen,
      authenticator,
      log,
      reset,
    }),
    ...logRoutes(system, loggingUnits(mirroring), authenticator),
    ...choiceRoutes(configuration, settings),
    ...metricsRoutes(families),
  ]
  const common = { authenticator, origins, clock, log }
  const server: HttpServer = new HttpServer({
    ...common,
    router: new Router(
      [...routes, ...metaRoutes(version, routes)],
      BASE_PATH,
      config.page && page ? pageRoutes(page) : [],
    ),
    connections: limits.connections,
    isFronted: config.tlsPort !== undefined,
    connectionsPerAddress: Math.max(limits.connections / 4, 2 * limits.streamsPerAddress),
    timeoutCheckMs: TIMEOUT_CHECK_MS,
  })
  const engines: HttpServer = new HttpServer({
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
  const seen = { configuration, port: config.tlsPort ?? Number(new URL(address).port), tls, log }
  await startIdleScreen({
    screen,
    ...seen,
    setupKey: () => (keys.isUnused ? keys.current : undefined),
    onSetupKey: changed => {
      redrawIdleScreen = changed
    },
  })
  const announcement = new Announcement(system)
  if (config.announce) await startAnnouncing({ announcement, ...seen })
  else await stopAnnouncing({ announcement, log })
  tls?.start()

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
      await led.stop()
      for (const resource of resources) await resource.stop()
      await tls?.stop()
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

function sessionsResource({ system, engines, configuration, authenticator, clock, ring, log }: Shared): Resource {
  const moderation = () => configuration.value('moderation') ?? MODERATED
  const sessions = new Sessions({ ring, timeoutS: () => moderation().timeoutS, clock, log })
  const socket = new SocketEngine(sessions)
  const isModerated = () => moderation().approval === 'moderator'
  return {
    topic: sessions.topic,
    eventsPath: '/sessions/events',
    routes: sessionRoutes({ sessions, authenticator }),
    engineRoutes: engineRoutes(socket, isModerated),
    counts: () => ({ sessions: sessions.all.length }),
    families: () => sessionFamilies(sessions),
    async start() {
      configuration.topic.log.onAppend(() => {
        if (!isModerated()) sessions.admitPending()
      })
      if (system.isRunning) for (const engine of engines) await engine.start(sessions)
    },
    closeEngines: () => socket.close(),
    async stop() {
      for (const engine of engines) await engine.stop()
      sessions.stop()
    },
  }
}
