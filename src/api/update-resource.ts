import { join } from 'node:path'
import { Files } from '../../hal/files/files.ts'
import { Rauc } from '../../hal/os/rauc.ts'
import { reboot } from '../../hal/os/reboot.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { BundleStore } from '../update/bundle-store.ts'
import { expectations } from '../update/expect.ts'
import { Restarts } from '../update/restart.ts'
import { TrialRecords } from '../update/trial.ts'
import { Update } from '../update/update.ts'
import { bundleRoutes } from './bundle.ts'
import type { Resource, Shared } from './resource.ts'
import { UPDATE_EVENTS, updateRoutes } from './update.ts'

export interface UpdateResourceOptions extends Shared {
  /** Of bundles and records; undefined if the device cannot be updated. */
  readonly folder: string | undefined
  readonly sessions: Sessions
  /** Of a bundle. */
  readonly maxBytes: number
  /** When the program was built, in milliseconds since 1970. */
  readonly builtAt: number
  /** Returns 0 to 1. */
  readonly random: () => number
}

const NO_WINDOW = { days: [], from: '', to: '' }

/** The update of the firmware, with what it needs. */
export function updateResource(options: UpdateResourceOptions): Resource {
  const { system, configuration, sessions, authenticator, folder, maxBytes, ring, log } = options
  const restarts = new Restarts({
    ...options,
    window: () => configuration.value('update')?.window ?? NO_WINDOW,
    timeZone: () => configuration.value('timezone') ?? 'UTC',
    sessions: () => sessions.all.length,
    reboot: () => reboot(system),
  })
  const files = new Files(join(system.root, folder ?? ''))
  const update: Update = new Update({
    ...options,
    rauc: new Rauc(system),
    records: folder === undefined ? undefined : new TrialRecords(files),
    expect: () => expectations(system),
    restarter: restarts,
    bundle: () => store.current,
    removeBundle: () => store.remove(),
  })
  const requirePresent = () => void update.state
  // Where the device cannot be updated, nothing gets as far as the store.
  const store = new BundleStore({ folder: files, watcher: update, newId: ring.newId, log })
  return {
    topic: update.topic,
    eventsPath: '/update/events',
    events: UPDATE_EVENTS,
    routes: [
      ...updateRoutes({ update, authenticator }),
      ...bundleRoutes({ store, log, maxBytes, requirePossible: requirePresent }),
    ],
    requirePresent,
    async start() {
      for (const { log } of [configuration.topic, sessions.topic]) log.onAppend(() => restarts.reconsider())
      if (!(await update.start())) return
      await store.start()
      await update.resume()
    },
    async stop() {
      await store.stop()
      await update.stop()
    },
  }
}
