/**
 * The power is cut at random moments during changes or a factory reset: afterwards, acknowledged changes are there, and others
 * are there completely or not at all. N is the number of cuts; SEED repeats a run.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { eventually } from '../support/eventually.ts'
import { Random } from '../support/random.ts'
import { factoryDisk, Machine } from './machine.ts'

const CUTS = Number(process.env.N ?? 20)
const random = new Random(Number(process.env.SEED ?? Date.now() % 1_000_000))
const device = new Machine(factoryDisk())
/** The most milliseconds of changes before the cut. */
const WORK_MS = 4_000
/**
 * Every fifth cut falls into a factory reset, at most this many milliseconds after the order: the device restarts in that time.
 */
const RESET_EVERY = 5
const RESET_MS = 12_000
/** Where a change of the values below can end up. */
const FILES =
  '/etc/hostname /etc/hosts /etc/machine-info /etc/timezone /etc/locale.conf /etc/default/locale ' +
  '/etc/systemd/timesyncd.conf.d/50-receiverd.conf /var/lib/receiverd/api-key'

let serial = 0
/** A patch of some settings, each with a value that was never used before. */
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

/** The states allowed after the cut: the acknowledged one, or the one that the last request asked for. */
interface Outcome {
  values: JsonObject
  asked: JsonObject | undefined
  key: string
  /** Whether a new key was requested: it was made on the device, so nobody knows it. */
  isRotating: boolean
  /** Whether a factory reset was ordered, which the device may or may not have received, or was acknowledged. */
  reset: 'none' | 'ordered' | 'acknowledged'
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
      // Until the change is confirmed, every start undoes it; during the confirmation, either state is allowed.
      const patch = somePatch()
      const answer = await requireOk(device.patch(patch, {}, '?confirmWithin=60'))
      // Values that are in place already need no confirmation.
      if (!answer.headers.has('confirm-within')) continue
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

async function reset(outcome: Outcome): Promise<void> {
  outcome.reset = 'ordered'
  await requireOk(device.fetch('/operations/factory-reset', { method: 'POST' }))
  outcome.reset = 'acknowledged'
}

class Refused extends Error {}

async function requireOk(answer: Promise<Response>): Promise<Response> {
  const response = await answer
  if (!response.ok) throw new Refused(`${response.status}: ${await response.text()}`)
  return response
}

t.comment(`SEED=${random.seed}`)
await device.boot()
await t.test('right after the first boot', async t => {
  device.cutPower()
  await device.boot()
  const name = (await device.shell('cat /etc/hostname')).trim()
  t.match(name, /^receiver-[\da-f]{6}$/)
  t.equal(await device.shell('grep "^n " /etc/uxplayrc'), `n ${name}\n`)
})
/** The values of the settings that are changed here. */
async function valuesOf(device: Machine): Promise<JsonObject> {
  const { value } = await device.system()
  const names = ['hostname', 'deviceName', 'timezone', 'locale', 'ntp']
  return Object.fromEntries(names.map(name => [name, value[name] ?? null]))
}
/** Gives the device a name: without one, it uses its host name, and one change would be two. */
async function nameIt(): Promise<void> {
  await requireOk(device.patch({ deviceName: 'Room 0' }))
}

const factory = await valuesOf(device)
await nameIt()
const outcome: Outcome = {
  values: await valuesOf(device),
  asked: undefined,
  key: device.key,
  isRotating: false,
  reset: 'none',
}

for (let cut = 1; cut <= CUTS; cut++)
  await t.test(`cut ${cut}`, async t => {
    const isReset = cut % RESET_EVERY === 0
    const working = (isReset ? reset(outcome) : change(outcome)).catch(error => error)
    const ms = 100 + random.below(isReset ? RESET_MS : WORK_MS)
    await sleep(ms)
    device.cutPower()
    const error = await working
    if (error instanceof Refused) t.fail(error.message)

    const seconds = await device.boot()
    t.comment(`after ${ms} ms, change ${serial}, reset ${outcome.reset}; up again in ${seconds.toFixed(0)} s`)
    t.match(device.key, /^[\w-]{43}$/, 'the key is whole')
    const found = await valuesOf(device)
    const wasReset = outcome.reset !== 'none' && JSON.stringify(found) === JSON.stringify(factory)
    if (outcome.reset === 'acknowledged') t.ok(wasReset, 'the reset is finished')
    if (wasReset) t.not(device.key, outcome.key, 'there is a new key')
    else if (!outcome.isRotating) t.equal(device.key, outcome.key, 'and the one that was acknowledged')
    const asked = { ...outcome.values, ...outcome.asked }
    const isNew = outcome.asked !== undefined && JSON.stringify(found) === JSON.stringify(asked)
    if (!wasReset)
      t.same(found, isNew ? asked : outcome.values, isNew ? 'all that was asked for last' : 'all that was acknowledged')
    t.equal(await device.shell(`for file in ${FILES}; do [ ! -e $file ] || [ -s $file ] || echo $file; done`), '')
    t.equal(await device.shell('ls -A /etc /var/lib/receiverd | grep receiverd- || true'), '', 'nothing is left over')
    // Making the first certificate is a change, too.
    await eventually(
      async () =>
        (await device.shell('ls -I api-key.former -I originals -I kept-trial /var/lib/receiverd')) === 'api-key\n',
    )
    t.pass('no change and no reset is unfinished')
    await eventually(() => device.receiverd('key', 'show', '--verbose').catch(() => undefined))
    t.pass('the key of the certificate belongs to it')
    if (wasReset) await nameIt()
    outcome.values = await valuesOf(device)
    outcome.asked = undefined
    outcome.key = device.key
    outcome.isRotating = false
    outcome.reset = 'none'
  })
// A running machine would keep the test from ending.
device.cutPower()
