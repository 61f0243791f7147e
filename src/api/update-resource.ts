import { join } from 'node:path'
import { reasonOf } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import { Downloads } from '../../hal/os/downloads.ts'
import { Rauc } from '../../hal/os/rauc.ts'
import { reboot } from '../../hal/os/reboot.ts'
import { channelOf, NO_UPDATES } from '../../hal/settings/update.ts'
import { Problem } from '../problem.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { BundleStore } from '../update/bundle-store.ts'
import { Channel } from '../update/channel.ts'
import { isConnected } from '../update/checks.ts'
import { expectations } from '../update/expect.ts'
import { Fetcher } from '../update/fetcher.ts'
import { Policy } from '../update/policy.ts'
import { Restarts } from '../update/restart.ts'
import { TrialRecords } from '../update/trial.ts'
import { Update } from '../update/update.ts'
import { timer, type Wait } from '../update/wait.ts'
import { bundleRoutes } from './bundle.ts'
import { downloadRoutes } from './downloads.ts'
import { updateFamilies } from './families.ts'
import type { Resource, Shared } from './resource.ts'
import { UPDATE_EVENTS, updateRoutes } from './update.ts'

export interface UpdateResourceOptions extends Shared {
  /** The folder of bundles and records; undefined if the device cannot be updated. */
  readonly folder: string | undefined
  readonly sessions: Sessions
  /** Maximum size of a bundle. */
  readonly maxBytes: number
  /** When the program was built, in milliseconds since 1970. */
  readonly builtAt: number
  /** Returns a number from 0 to 1. */
  readonly random: () => number
  readonly wait?: Wait
}

/** Milliseconds before RAUC is asked again which system runs. */
const RETRY_MS = 30_000

/** Creates the resource of the firmware update and everything it needs. */
export function updateResource(options: UpdateResourceOptions): Resource {
  const { system, configuration, sessions, authenticator, folder, maxBytes, ring, log, wait = timer } = options
  const settings = () => configuration.value('update') ?? NO_UPDATES
  const files = new Files(join(system.root, folder ?? ''))
  const records = folder === undefined ? undefined : new TrialRecords(files)
  const restarts = new Restarts({
    ...options,
    window: () => settings().window,
    timeZone: () => configuration.value('timezone') ?? 'UTC',
    // A stranger who keeps asking must not hold up updates.
    sessions: () => sessions.all.filter(({ state }) => state !== 'pending').length,
    isConnected: async () => {
      const trial = await records?.trial()
      return !trial || isConnected(system, trial.expect)
    },
    reboot: () => reboot(system),
  })
  const update: Update = new Update({
    ...options,
    rauc: new Rauc(system),
    records,
    expect: () => expectations(system),
    restarter: restarts,
    bundle: () => store.current,
    removeBundle: () => store.remove(),
  })
  const requirePresent = () => void update.state
  // If the device cannot be updated, no request gets as far as the store.
  const store = new BundleStore({ folder: files, watcher: update, newId: ring.newId, log })
  const downloads = new Downloads()
  const fetcher = new Fetcher({
    ...{ downloads, store, maxBytes, log },
    asking: () => update.asking(),
    failed: problem => update.notDownloaded(problem),
  })
  const channel = new Channel({
    ...{ ...options, downloads },
    url: () => channelOf(system),
    found: available => update.found(available),
    failed: problem => update.notFound(problem),
    changed: () => update.forgetChannel(),
  })
  const refused = async () => (await records?.refused()) ?? []
  const policy = new Policy({ ...options, folder: files, settings, channel, fetcher, update, refused })
  let isStopped = false
  let stopWaiting: Stop = () => undefined
  /** RAUC may answer late: it is started on demand, while the board is still busy booting. */
  const begin = async (): Promise<void> => {
    const isPossible = await update.start()
    if (isStopped) return
    if (isPossible === undefined) stopWaiting = wait(RETRY_MS, () => void begin())
    if (!isPossible) return
    // Failing storage must not keep the service from starting.
    try {
      await store.start()
      await update.resume()
      fetcher.resume()
    } catch (error) {
      log('warning', `update: cannot resume with the stored bundle: ${reasonOf(error)}`)
    }
    configuration.topic.log.onAppend(reconsider)
    policy.start()
  }
  const remove = async (precondition: () => void) => {
    precondition()
    await fetcher.cancel(new Problem('conflict', 'The bundle was removed while it was downloaded.'))
    const version = store.current?.path && update.state.bundle?.version
    await store.remove(precondition)
    // The policy would fetch it again, and install it.
    if (version && ['download', 'install'].includes(settings().policy))
      await records
        ?.refuse(version)
        .catch(error => log('warning', `update: version ${version} may be fetched again: ${reasonOf(error)}`))
  }
  const reconsider = () => {
    Promise.all([channel.reconsider(), policy.reconsider()]).catch(error =>
      log('warning', `update: the channel could not be changed: ${reasonOf(error)}`),
    )
  }
  return {
    topic: update.topic,
    eventsPath: '/update/events',
    events: UPDATE_EVENTS,
    routes: [
      ...updateRoutes({ update, authenticator }),
      ...bundleRoutes({ store, remove, log, maxBytes, requirePossible: requirePresent }),
      ...downloadRoutes({ update, fetcher, channel, authenticator, log }),
    ],
    families: () => updateFamilies(update.last),
    requirePresent,
    requireResettable: () => update.requireResettable(),
    async start() {
      for (const { log } of [configuration.topic, sessions.topic]) log.onAppend(() => restarts.reconsider())
      await begin()
    },
    async stop() {
      isStopped = true
      stopWaiting()
      policy.stop()
      await fetcher.stop()
      await store.stop()
      await update.stop()
    },
  }
}
