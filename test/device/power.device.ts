/**
 * The power is cut at random moments while changes run: what was acknowledged is there afterwards, what was not is there
 * whole or not at all. N cuts; a run is repeated by its SEED.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { Random } from '../support/random.ts'
import { factoryDisk, Machine } from './machine.ts'

const CUTS = Number(process.env.N ?? 20)
const random = new Random(Number(process.env.SEED ?? Date.now() % 1_000_000))
const device = new Machine(factoryDisk())
/** Milliseconds of changes until the cut, at most. */
const WORK_MS = 4_000
/** Where a change of the values below can end up. */
const FILES =
  '/etc/hostname /etc/hosts /etc/machine-info /etc/timezone /etc/locale.conf /etc/default/locale ' +
  '/etc/systemd/timesyncd.conf.d/50-receiverd.conf /var/lib/receiverd/api-key'

let serial = 0
/** A patch of some settings, each with a value that none had before. */
function somePatch(): JsonObject {
  const n = ++serial
  const all: [string, JsonObject[string]][] = [
    ['hostname', `room-${n}`],
    ['deviceName', `Room ${n}`],
    ['timezone', random.pick(['Asia/Tokyo', 'Europe/Brussels', 'America/New_York'])],
    ['locale', random.pick(['C', 'POSIX', 'C.UTF-8'])],
    ['ntp', { enabled: random.chance(0.5), servers: [`ntp-${n}.example`] }],
  ]
  const some = all.filter(() => random.chance(0.5))
  return Object.fromEntries(some.length > 0 ? some : all)
}

/** What may be found after the cut: the state that was acknowledged, or the one that the last request asked for. */
interface Outcome {
  values: JsonObject
  asked: JsonObject | undefined
  key: string
  /** A new key was asked for: it was made on the device, so nobody knows it. */
  isRotating: boolean
}

/** One client, one request at a time, until the power is gone. */
async function change(outcome: Outcome): Promise<void> {
  for (;;) {
    const kind = random.below(10)
    if (kind === 0) {
      outcome.isRotating = true
      const { apiKey } = (await (await device.fetch('/api-key', { method: 'POST' })).json()) as { apiKey: string }
      outcome.key = apiKey
      outcome.isRotating = false
      device.useKey(apiKey)
    } else if (kind <= 3) {
      // Until it is confirmed, every start undoes it; while the confirmation is under way, either may be.
      const patch = somePatch()
      await requireOk(device.patch(patch, {}, '?confirmWithin=60'))
      await sleep(random.below(300))
      outcome.asked = patch
      await requireOk(device.fetch('/system/confirm', { method: 'POST' }))
      outcome.values = { ...outcome.values, ...patch }
      outcome.asked = undefined
    } else {
      const patch = somePatch()
      outcome.asked = patch
      await requireOk(device.patch(patch))
      outcome.values = { ...outcome.values, ...patch }
      outcome.asked = undefined
    }
  }
}

class Refused extends Error {}

async function requireOk(answer: Promise<Response>): Promise<void> {
  const response = await answer
  if (!response.ok) throw new Refused(`${response.status}: ${await response.text()}`)
}

t.comment(`SEED=${random.seed}`)
await device.boot()
// Without a name of its own the device is called by its host name, and one change would be two.
await requireOk(device.patch({ deviceName: 'Room 0' }))
const { value: factory } = await device.system()
const outcome: Outcome = { values: {}, asked: undefined, key: device.key, isRotating: false }
for (const name of ['hostname', 'deviceName', 'timezone', 'locale', 'ntp']) outcome.values[name] = factory[name] ?? null

for (let cut = 1; cut <= CUTS; cut++)
  await t.test(`cut ${cut}`, async t => {
    const working = change(outcome).catch(error => error)
    const ms = 100 + random.below(WORK_MS)
    await sleep(ms)
    device.cutPower()
    const error = await working
    if (error instanceof Refused) t.fail(error.message)

    const seconds = await device.boot()
    t.comment(`after ${ms} ms, change ${serial}; up again in ${seconds.toFixed(0)} s`)
    t.match(device.key, /^[\w-]{43}$/, 'the key is whole')
    if (!outcome.isRotating) t.equal(device.key, outcome.key, 'and the one that was acknowledged')
    const { value } = await device.system()
    const found = Object.fromEntries(Object.keys(outcome.values).map(name => [name, value[name] ?? null]))
    const asked = { ...outcome.values, ...outcome.asked }
    const isNew = outcome.asked !== undefined && JSON.stringify(found) === JSON.stringify(asked)
    t.same(found, isNew ? asked : outcome.values, isNew ? 'all that was asked for last' : 'all that was acknowledged')
    t.equal(await device.shell(`for file in ${FILES}; do [ ! -e $file ] || [ -s $file ] || echo $file; done`), '')
    t.equal(await device.shell('ls -A /etc /var/lib/receiverd | grep receiverd- || true'), '', 'nothing is left over')
    t.equal(await device.shell('ls /var/lib/receiverd'), 'api-key\n', 'the journal is closed')
    outcome.values = found
    outcome.asked = undefined
    outcome.key = device.key
    outcome.isRotating = false
  })
// A machine that is on would keep the test from ending.
device.cutPower()
