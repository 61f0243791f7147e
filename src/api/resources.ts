import type { Engine, ShowPin } from '../../hal/engine.ts'
import { enginesOf } from '../../hal/engines/registry.ts'
import { reasonOf } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import type { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import type { Setting } from '../../hal/setting.ts'
import { MODERATED } from '../../hal/settings/moderation.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import { Transactions } from '../../hal/transaction/transaction.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { Config } from '../config.ts'
import { MAX_KEPT_BYTES, POLL_MS } from '../limits.ts'
import { Complaint } from '../log.ts'
import { Sessions } from '../sessions/sessions.ts'
import { SocketEngine } from '../sessions/socket-engine.ts'
import { SystemStore } from '../system/store.ts'
import { engineRoutes } from './engines.ts'
import { sessionFamilies } from './families.ts'
import type { Resource, Shared } from './resource.ts'
import { SESSION_EVENTS, sessionRoutes } from './sessions.ts'
import type { Surroundings } from './surroundings.ts'
import { systemEvents, systemRoutes } from './system.ts'
import { updateResource } from './update-resource.ts'

/** A setting and a resource that a test adds to those of the service. */
export interface Additions {
  readonly setting?: ((system: System) => Setting) | undefined
  readonly resource?: ((shared: Shared) => Resource) | undefined
}

export interface ResourcesOptions
  extends Pick<Surroundings, 'system' | 'clock' | 'builtAt' | 'random' | 'newId' | 'log'> {
  readonly config: Pick<Config, 'limits' | 'update'>
  readonly state: Files
  readonly authenticator: Authenticator
  readonly showPin: ShowPin
}

export interface Resources {
  readonly engines: readonly Engine[]
  readonly settings: readonly Setting[]
  readonly originals: Originals
  readonly configuration: SystemStore
  /** In the order in which they are started and stopped. */
  readonly all: readonly Resource[]
  start(): Promise<void>
  /** Ends the responses that are kept open for engines. */
  closeEngines(): void
  /** Resolves once changes in progress are done. */
  stop(): Promise<void>
}

/** Creates the state that the API serves: the configuration, the sessions of the engines, and the firmware update. */
export function createResources(options: ResourcesOptions, additions: Additions): Resources {
  const { config, system, state, newId, log } = options
  const engines = enginesOf(system)
  const settings = [
    ...registry(system, engines, config.update !== undefined),
    ...(additions.setting ? [additions.setting(system)] : []),
  ]
  const warn = (what: string) => log('error', what)
  const originals = new Originals(state, warn)
  const transactions = new Transactions(system, settings, new Journal(state), originals, warn)
  const ring = { maxEvents: config.limits.events, maxBytes: MAX_KEPT_BYTES, newId }
  const configuration = new SystemStore({ system, state, settings, transactions, ring, log })
  const shared = { ...options, engines, configuration, ring }
  const timeoutS = () => moderationOf(configuration).timeoutS
  const sessions = new Sessions({ ring, timeoutS, clock: options.clock, log })
  const all = [
    systemResource(shared, settings),
    sessionsResource(shared, sessions, options.showPin),
    updateResource({ ...options, ...shared, sessions, folder: config.update, maxBytes: config.limits.bundleBytes }),
  ]
  if (additions.resource) all.push(additions.resource(shared))
  return {
    engines,
    settings,
    originals,
    configuration,
    all,
    async start() {
      for (const resource of all) await resource.start()
    },
    closeEngines() {
      for (const resource of all) resource.closeEngines?.()
    },
    async stop() {
      for (const resource of all) await resource.stop()
    },
  }
}

function systemResource({ configuration, authenticator, log }: Shared, settings: readonly Setting[]): Resource {
  return {
    topic: configuration.topic,
    eventsPath: '/events',
    events: systemEvents(settings),
    routes: systemRoutes({ store: configuration, settings, authenticator, log }),
    start: () => configuration.start(),
    stop: () => configuration.stop(),
  }
}

function sessionsResource(
  { system, engines, configuration, authenticator, log }: Shared,
  sessions: Sessions,
  showPin: ShowPin,
): Resource {
  const socket = new SocketEngine(sessions)
  const isModerated = () => moderationOf(configuration).approval === 'moderator'
  const complaint = new Complaint(log)
  let retry: NodeJS.Timeout | undefined
  /** Watches engines. Those that cannot be watched must not keep the service from starting: each minute, they are tried again. */
  const watch = async (all: readonly Engine[]): Promise<void> => {
    const failed: Engine[] = []
    const reasons: string[] = []
    for (const engine of all)
      await engine.start(sessions, showPin).catch(error => {
        failed.push(engine)
        reasons.push(`${engine.units.join(', ')}: its devices cannot be watched: ${reasonOf(error)}`)
      })
    if (failed.length === 0) return complaint.end()
    complaint.say(reasons.join('; '))
    retry = setTimeout(() => void watch(failed), POLL_MS).unref()
  }
  return {
    topic: sessions.topic,
    eventsPath: '/sessions/events',
    events: SESSION_EVENTS,
    routes: sessionRoutes({ sessions, authenticator }),
    engineRoutes: engineRoutes(socket, isModerated),
    counts: () => ({ sessions: sessions.all.length }),
    families: () => sessionFamilies(sessions),
    async start() {
      const admitPending = () => {
        if (!isModerated()) sessions.admitPending()
      }
      configuration.topic.log.onAppend(admitPending)
      // An engine whose changed option waits for a device still refuses that device when it asks.
      sessions.topic.log.onAppend(admitPending)
      if (system.isRunning) await watch(engines)
    },
    closeEngines: () => socket.close(),
    async stop() {
      clearTimeout(retry)
      for (const engine of engines) await engine.stop()
      sessions.stop()
    },
  }
}

function moderationOf(configuration: SystemStore) {
  return configuration.value('moderation') ?? MODERATED
}
