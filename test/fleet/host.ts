/**
 * A process that is many devices: each is a service with its own root, address and key. A process for each would take 20 times
 * the memory, and more instances of inotify(7) than a user has. Ends with the process that has forked it.
 */
import { randomUUID } from 'node:crypto'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { systemClock } from '../../src/clock.ts'
import { readConfig } from '../../src/config.ts'
import { startService } from '../../src/service.ts'
import { orderReset } from '../../src/system/factory-reset.ts'

export interface Place {
  readonly root: string
  /** ADDRESS:PORT. */
  readonly listen: string
}

/** Its answer once all of them listen. */
export const READY = 'ready'

async function serve({ root, listen }: Place): Promise<void> {
  const config = readConfig({ root, listen }, {}, 0)
  await startService(config, {
    system: new System(root),
    clock: systemClock,
    log: (level, message) => {
      if (level === 'error') process.stderr.write(`${listen}: ${message}\n`)
    },
    random: Math.random,
    newId: randomUUID,
    version: '0.0.0',
    builtAt: 0,
    orderReset: forgetsCard => orderReset(new Files(config.stateDir), forgetsCard),
    reset: () => undefined,
    page: undefined,
  })
}

process.on('disconnect', () => process.exit())
process.on('message', (places: readonly Place[]) => {
  Promise.all(places.map(serve)).then(
    () => process.send?.(READY),
    error => {
      process.stderr.write(`${error instanceof Error ? error.stack : error}\n`)
      process.exit(1)
    },
  )
})
