import { join } from 'node:path'
import { Files } from '../../hal/files/files.ts'
import { Rauc } from '../../hal/os/rauc.ts'
import { reboot } from '../../hal/os/reboot.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { expectations } from '../update/expect.ts'
import { Restarts } from '../update/restart.ts'
import { TrialRecords } from '../update/trial.ts'
import { Update } from '../update/update.ts'
import type { Resource, Shared } from './resource.ts'
import { UPDATE_EVENTS, updateRoutes } from './update.ts'

export interface UpdateResourceOptions extends Shared {
  /** Of bundles and records; undefined if the device cannot be updated. */
  readonly folder: string | undefined
  readonly sessions: Sessions
  /** When the program was built, in milliseconds since 1970. */
  readonly builtAt: number
  /** Returns 0 to 1. */
  readonly random: () => number
}

const NO_WINDOW = { days: [], from: '', to: '' }

/** The update of the firmware, with what it needs. */
export function updateResource(options: UpdateResourceOptions): Resource {
  const { system, configuration, sessions, authenticator, folder } = options
  const restarts = new Restarts({
    ...options,
    window: () => configuration.value('update')?.window ?? NO_WINDOW,
    timeZone: () => configuration.value('timezone') ?? 'UTC',
    sessions: () => sessions.all.length,
    reboot: () => reboot(system),
  })
  const update = new Update({
    ...options,
    rauc: new Rauc(system),
    records: folder === undefined ? undefined : new TrialRecords(new Files(join(system.root, folder))),
    expect: () => expectations(system),
    restarter: restarts,
    bundle: () => undefined,
    removeBundle: async () => undefined,
  })
  return {
    topic: update.topic,
    eventsPath: '/update/events',
    events: UPDATE_EVENTS,
    routes: updateRoutes({ update, authenticator }),
    requirePresent: () => void update.state,
    async start() {
      for (const { log } of [configuration.topic, sessions.topic]) log.onAppend(() => restarts.reconsider())
      await update.start()
    },
    stop: () => update.stop(),
  }
}
