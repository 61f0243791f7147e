/**
 * A device is changed while every write to its disk is recorded, and started from each state that a power cut could have left:
 * acknowledged changes are there, and of the last request all or nothing. CHANGES=N for longer, SEED=N for another run.
 */
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { IN_MEMORY, temporaryFolder } from '../support/folder.ts'
import { TestIssuer } from '../support/issuer.ts'
import { NEEDS_ROOT, needs } from '../support/needs.ts'
import { Random, SEED } from '../support/random.ts'
import type { TestService } from '../support/service.ts'
import { CrashDevice, type Seen, seen } from './device.ts'
import { crashStates, mountDisk, RecordedDisk, type Recording, unmount } from './recorded-disk.ts'
import { inShell } from './shell.ts'

const CHANGES = Number(process.env.CHANGES ?? 4)
// A change leaves some sixty states, and each takes up to two and a half seconds on a busy machine; one half as fast must do as
// well.
t.setTimeout(60_000 + CHANGES * 300_000)
const random = new Random(SEED)
/** How many disks of all are also cut off from power in the start that follows. */
const AGAIN = 0.05
const SKIP = NEEDS_ROOT || needs('qemu-storage-daemon')

/** Something that was done to the device, and its state from then on. */
interface Step {
  readonly name: string
  /** How far the recording was before it, and when it was acknowledged. */
  readonly from: number
  readonly to: number
  readonly after: Seen | AnyKey
}
/** A factory reset makes a key that nobody knows yet. */
type AnyKey = Omit<Seen, 'key'> & { readonly formerKey: string }

let serial = 0
function somePatch(): JsonObject {
  const n = ++serial
  const all: [string, JsonObject[string]][] = [
    ['hostname', `room-${n}`],
    ['deviceName', `Room ${n}`],
    ['timezone', random.pick(['Europe/Brussels', 'UTC'])],
    ['locale', random.pick(['C', 'POSIX'])],
    ['ntp', { enabled: random.chance(0.5), servers: [`ntp-${n}.example`] }],
    ['network', { eth0: { method: 'static', address: `192.0.2.${1 + (n % 200)}/24`, gateway: '', dns: [] } }],
    ['display', { 'HDMI-A-1': { rotation: random.pick([0, 90, 180, 270]) } }],
    ['airplay', { name: `Screen ${n}`, access: random.pick(['open', 'pin']) }],
    ['moderation', { approval: random.pick(['none', 'moderator']), timeoutS: 30 + n }],
    ['ssh', { enabled: random.chance(0.5) }],
  ]
  // Always one that differs from all before.
  return Object.fromEntries(all.filter(([name]) => name === 'deviceName' || random.chance(0.3)))
}

async function done(answer: Promise<Response>): Promise<void> {
  const response = await answer
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
}
const isOnTrial = '?confirmWithin=600'
const issuer = new TestIssuer('site')

/** Clients' actions by name; most change one thing, and some leave all as it is until something else is done. */
const ACTS: Readonly<Record<string, (service: TestService) => Promise<unknown>>> = {
  change: service => done(service.patch(somePatch())),
  'change on trial, confirmed': async service => {
    await done(service.patch(somePatch(), {}, isOnTrial))
    return () => done(service.fetch('/system/confirm', { method: 'POST' }))
  },
  'change on trial, undone': async service => {
    await done(service.patch(somePatch(), {}, isOnTrial))
    return () => done(service.fetch('/system/confirm', { method: 'DELETE' }))
  },
  'new key': service => done(service.fetch('/api-key', { method: 'POST' })),
  issuer: service => done(service.fetch('/issuers/site', { method: 'PUT', body: issuer.file(), headers: JSON_TYPE })),
  'no issuer': async service => {
    const { status } = await service.fetch('/issuers/site', { method: 'DELETE' })
    if (status !== 204 && status !== 404) throw new Error(`${status}`)
  },
}
const JSON_TYPE = { 'Content-Type': 'application/json' }

async function record(t: Test): Promise<{ readonly recording: Recording; readonly steps: readonly Step[] }> {
  const folder = temporaryFolder(t, IN_MEMORY)
  const device = new CrashDevice(t)
  const disk = await RecordedDisk.mounted(t, folder, device.data)
  const steps: Step[] = []
  const note = async (name: string, from: number, after: Step['after']) =>
    void steps.push({ name, from, to: disk.position, after })
  try {
    await device.cover()
    let service = await device.start(t)
    await note('first start', 0, await seen(service))
    const { key: _, ...factory } = await seen(service)
    for (let change = 1; change <= CHANGES; change++) {
      const before = await seen(service)
      const from = disk.position
      if (change === CHANGES || random.chance(0.1)) {
        await done(service.fetch('/operations/factory-reset', { method: 'POST' }))
        await note('factory reset', from, { ...factory, formerKey: before.key })
        await service.close()
        service = await device.start(t)
        await note('start', from, await seen(service))
        continue
      }
      const name = random.pick(Object.keys(ACTS))
      const more = await ACTS[name]?.(service)
      if (typeof more === 'function') {
        // Until it is confirmed, every start undoes it.
        await note(name, from, before)
        const confirmed = disk.position
        await more()
        await note(name, confirmed, await seen(service))
      } else await note(name, from, await seen(service))
    }
    await service.close()
  } finally {
    await device.uncover()
    await disk.close()
  }
  return { recording: disk.recording, steps }
}

const isAs = (after: Step['after'], found: Seen) => {
  const { key, ...rest } = found
  if (!('formerKey' in after)) return isDeepStrictEqual(after, found)
  const { formerKey, ...others } = after
  return key !== formerKey && isDeepStrictEqual(others, rest)
}

/** The device on a disk as a cut has left it; `act` is called when the partition is mounted, before anything runs. */
async function onDisk(t: Test, disk: string, act: (device: CrashDevice) => Promise<void>): Promise<void> {
  // A start does this first: 1 if it has read the journal. Nothing may be left to mend.
  await inShell(['e2fsck', '-p', disk], 1)
  const device = new CrashDevice(t)
  await mountDisk(disk, device.data)
  try {
    await act(device)
  } finally {
    await unmount(device.data)
  }
}

/** Whether the device is in an allowed state, and works. @returns the name of the step that led to it. */
async function isSound(t: Test, device: CrashDevice, allowed: readonly Step[], where: string): Promise<string> {
  await device.cover()
  try {
    const service = await device.start(t)
    const found = await seen(service)
    const match = allowed.find(({ after }) => isAs(after, found))
    // Before the first start has ended there was no device yet.
    if (allowed[0] !== undefined && !match) t.same(found, allowed[0].after, where)
    const errors = service.log.filter(line => line.startsWith('error'))
    t.same(errors, [], where)
    t.equal((await service.patch({ deviceName: 'Afterwards' })).status, 200, where)
    // The first change removes the rest of an interrupted record of originals.
    t.same(device.leftovers, [], where)
    await service.close()
    return match?.name ?? '-'
  } finally {
    await device.uncover()
  }
}

/** Cuts the power during the start after a cut as well. @returns how many states that had. */
async function cutAgain(t: Test, disk: string, allowed: readonly Step[], where: string): Promise<number> {
  const folder = temporaryFolder(t, IN_MEMORY)
  const device = new CrashDevice(t)
  const recorded = await RecordedDisk.mounted(t, folder, device.data, disk)
  await device.cover()
  try {
    await (await device.start(t)).close()
  } finally {
    await device.uncover()
    await recorded.close()
  }
  const next = join(folder, 'next')
  const known = new Set<string>()
  for (const state of crashStates(recorded.recording, random)) {
    state.save(next)
    await onDisk(t, next, async device => {
      const digest = device.digest()
      if (known.has(digest)) return
      known.add(digest)
      await isSound(t, device, allowed, `${where}; then, at the next start, ${state.name}`)
    })
  }
  return known.size
}

t.test('every state that a power cut could leave', { skip: SKIP }, async t => {
  t.comment(`SEED=${random.seed} CHANGES=${CHANGES}`)
  const { recording, steps } = await record(t)
  const disk = join(temporaryFolder(t, IN_MEMORY), 'disk')
  const disks = new Set<string>()
  const kinds = new Map<string, number>()
  let [states, again] = [0, 0]
  for (const state of crashStates(recording, random)) {
    states++
    state.save(disk)
    const known = steps.findLastIndex(({ to }) => to <= state.from)
    const allowed = steps.filter(({ from }, index) => index === known || (index > known && from < state.to))
    const where = `${state.name}: ${allowed.map(({ name }) => name).join(', or ')}`
    let isNew = false
    await onDisk(t, disk, async device => {
      const id = `${known} ${device.digest()}`
      isNew = !disks.has(id)
      if (!isNew) return
      disks.add(id)
      const kind = await isSound(t, device, known < 0 ? [] : allowed, where)
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
    })
    if (isNew && known >= 0 && (again === 0 || random.chance(AGAIN))) {
      state.save(disk)
      again += await cutAgain(t, disk, allowed, where)
    }
  }
  const { length } = recording.entries
  t.comment(
    `${steps.length} steps, ${length} writes and flushes, ${states} states, ${disks.size} disks, ${again} after two cuts`,
  )
  t.comment(JSON.stringify(Object.fromEntries(kinds)))
  t.ok(disks.size > CHANGES)
  t.ok(again > 0)
})
