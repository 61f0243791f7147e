/** A service with an upload of bundles, as a process of its own: it prints its address and its API key. */

import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { systemClock } from '../../src/clock.ts'
import { readConfig } from '../../src/config.ts'
import { startService } from '../../src/service.ts'
import { Bundles } from '../support/bundles.ts'

const root = process.argv[2] ?? ''
const folder = process.argv[3] ?? join(root, 'data/update')
const surroundings = {
  system: new System(root),
  clock: systemClock,
  log: (_: string, line: string) => void process.stderr.write(`${line}\n`),
  random: () => 0,
  newId: randomUUID,
  version: '0.0.0',
  builtAt: 0,
  orderReset: async () => undefined,
  reset: () => undefined,
  page: undefined,
}
mkdirSync(root, { recursive: true })
const config = readConfig({ root, listen: '127.0.0.1:0' }, {}, 0)
const service = await startService(config, surroundings, { resource: shared => new Bundles(shared, { folder }) })
const key = await new Files(config.stateDir).readText('/api-key')
process.stdout.write(`${service.addresses[0]} ${key?.trim()}\n`)
process.on('SIGTERM', async () => {
  await service.close()
  process.exit()
})
