import type { Files } from '../../hal/files/files.ts'
import type { Led } from '../../hal/os/led.ts'
import { mirroringUnits } from '../../hal/os/receiver.ts'
import type { Screen } from '../../hal/os/screen.ts'
import { removeStaleSocket } from '../../hal/os/stale-socket.ts'
import { UxPlay } from '../../hal/os/uxplay.ts'
import { Wifi } from '../../hal/settings/wifi/adapter.ts'
import type { ApiKeyStore } from '../auth/api-key.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { Issuers } from '../auth/issuers.ts'
import type { Config } from '../config.ts'
import type { Readers } from '../events/readers.ts'
import { isReachable } from '../http/address.ts'
import { onlyIf, type Route } from '../http/route.ts'
import { BASE_PATH, Router } from '../http/router.ts'
import { HttpServer } from '../http/server.ts'
import { ENGINE_TIMEOUT_CHECK_MS, MAX_ENGINE_CONNECTIONS, TIMEOUT_CHECK_MS } from '../limits.ts'
import type { Family } from '../metrics/exposition.ts'
import type { Tls } from '../presence/tls.ts'
import { digester } from '../settings-file/digest.ts'
import type { Schema } from '../settings-file/settings-file.ts'
import { keyRoutes } from './api-key.ts'
import { certificateRoutes } from './certificate.ts'
import { choiceRoutes } from './choices.ts'
import { credentialRoutes } from './credential.ts'
import { eventRoute, eventSchema } from './events.ts'
import { changeFamilies, deviceFamilies, eventFamilies, httpFamilies, processFamilies } from './families.ts'
import { issuerRoutes } from './issuers.ts'
import { logRoutes } from './logs.ts'
import { metaRoutes } from './meta.ts'
import { metricsRoutes } from './metrics.ts'
import { operationRoutes } from './operations.ts'
import { pageRoutes } from './page.ts'
import type { Resources } from './resources.ts'
import { readStatus, type StatusOptions, statusRoutes } from './status.ts'
import type { Surroundings } from './surroundings.ts'
import { configurationSchema } from './system.ts'
import { tokenRoutes } from './tokens.ts'

export interface ServersOptions extends Surroundings {
  readonly config: Config
  readonly state: Files
  readonly keys: ApiKeyStore
  readonly issuers: Issuers
  readonly authenticator: Authenticator
  readonly readers: Readers
  readonly resources: Resources
  readonly led: Led
  readonly screen: Screen
  /** The TLS server in front of the API; undefined if there is none. */
  readonly tls: Tls | undefined
}

export interface Servers {
  /** @returns the URLs of the API: the first is one that clients on the network reach, if any. */
  listen(): Promise<readonly string[]>
  /** Answers held polls, ends streams and engine sessions, and resolves once the last connection has closed. */
  close(): Promise<unknown>
}

/** Creates the server of the API and the page, and the server on the engines' socket. */
export function createServers(options: ServersOptions): Servers {
  const { config, authenticator, clock, log, version, page, readers, resources } = options
  const { limits, origins, engines } = config
  const common = { authenticator, origins, clock, log }
  const router = new Router([])
  const server = new HttpServer({
    ...common,
    router,
    connections: limits.connections,
    isFronted: config.tlsPort !== undefined,
    connectionsPerAddress: Math.max(limits.connections / 4, 2 * limits.streamsPerAddress),
    timeoutCheckMs: TIMEOUT_CHECK_MS,
  })
  const engineRoutes = resources.all.flatMap(({ engineRoutes = [] }) => engineRoutes)
  const engineServer = new HttpServer({
    ...common,
    router: new Router(engineRoutes, ''),
    connections: MAX_ENGINE_CONNECTIONS,
    connectionsPerAddress: MAX_ENGINE_CONNECTIONS,
    timeoutCheckMs: ENGINE_TIMEOUT_CHECK_MS,
  })
  // Routes are added after the servers are created, because the status and the metrics report on the servers.
  const status = statusOf(options, server)
  const routes = routesOf(options, status, server, familiesOf(options, status, server, engineServer))
  router.add([...routes, ...metaRoutes(version, routes)], BASE_PATH)
  if (config.page && page) router.add(pageRoutes(page), '')

  return {
    async listen() {
      for (const where of engines) {
        if ('path' in where && where.path) await removeStaleSocket(where.path)
        await engineServer.listen(where)
      }
      const urls = []
      for (const where of config.listen) urls.push(await server.listen(where))
      return urls.sort((a, b) => Number(isReachable(b)) - Number(isReachable(a)))
    },
    close: () => Promise.all([server.close(() => readers.close()), engineServer.close(() => resources.closeEngines())]),
  }
}

function statusOf(options: ServersOptions, server: HttpServer): StatusOptions {
  const { readers, resources, tls } = options
  const counts = () => ({
    streams: readers.size - readers.heldPolls,
    heldPolls: readers.heldPolls,
    connections: server.connections,
    ...Object.assign({}, ...resources.all.map(resource => resource.counts?.())),
  })
  const { configuration, settings } = resources
  const configurationDigest = digester(configurationSchema(settings) as Schema, () => configuration.json)
  const uxplay = new UxPlay(options.system)
  const airplayReady = async () => (configuration.value('airplay')?.enabled ? uxplay.isReady() : undefined)
  return { ...options, configuration, configurationDigest, counts, airplayReady, certificate: () => tls?.certificate }
}

function routesOf(
  options: ServersOptions,
  status: StatusOptions,
  server: HttpServer,
  families: () => Promise<readonly Family[]>,
): readonly Route[] {
  const { config, system, authenticator, resources } = options
  const { all, configuration, settings, engines } = resources
  const wifi = new Wifi(system)
  // Without an adapter, do not start a process only to find that out.
  const signal = async () => (configuration.value('wifi')?.present ? wifi.signal() : undefined)
  const requireResettable = () => {
    for (const resource of all) resource.requireResettable?.()
  }
  const event = eventSchema(Object.assign({}, ...all.map(({ events }) => events)))
  const streaming = { ...options, limits: config.limits }
  return [
    ...all.flatMap(({ topic, eventsPath, routes, requirePresent }) => {
      const ofTopic = [...routes, eventRoute(eventsPath, topic, event, streaming)]
      return requirePresent ? ofTopic.map(route => onlyIf(requirePresent, route)) : ofTopic
    }),
    ...keyRoutes(options),
    ...issuerRoutes(options),
    ...tokenRoutes(options),
    ...certificateRoutes(options),
    ...credentialRoutes(() => configuration.value('deviceName')),
    ...statusRoutes({ ...status, signal }),
    ...operationRoutes({ ...options, configuration, mirroring: mirroringUnits(engines), requireResettable }),
    ...logRoutes({ system, engines, authenticator, unreadBytes: () => server.unreadBytes }),
    ...choiceRoutes(configuration, settings, () => wifi.scan()),
    ...metricsRoutes(families),
  ]
}

function familiesOf(
  { config, version, clock, readers, resources }: ServersOptions,
  status: StatusOptions,
  server: HttpServer,
  engineServer: HttpServer,
): () => Promise<readonly Family[]> {
  const ofProcess = processFamilies(version, clock)
  const topics = resources.all.map(({ topic }) => topic)
  return async () => [
    ...ofProcess(),
    ...deviceFamilies(resources.configuration, await readStatus(status), status.certificate()),
    ...httpFamilies(server, engineServer, config.limits),
    ...eventFamilies(topics, readers, config.limits),
    ...changeFamilies(resources.configuration.tally),
    ...resources.all.flatMap(resource => resource.families?.() ?? []),
  ]
}
