import type { LargeFile } from '../../hal/files/read.ts'
import { CommandError } from '../cli/failure.ts'
import { Refused } from '../cli/service-client.ts'
import {
  installed,
  newVersion,
  requireDiscarded,
  Stuck,
  sendBundle,
  type Time,
  waiting,
  whyNotInstalled,
} from '../cli/update.ts'
import { printable } from '../log.ts'
import type { UpdateState } from '../update/state.ts'
import type { Restart } from '../update/update.ts'
import type { Member } from './access.ts'
import { type AskingOptions, afterAsking } from './asking.ts'
import { versionIn } from './bundle.ts'
import { type DeviceClient, Unanswered } from './client.ts'
import { causeIn, type Result } from './outcome.ts'
import { countOf } from './waves.ts'

export interface UpdateOptions extends AskingOptions, Time {
  readonly allowOlder: boolean
  readonly restart: Restart
}

/** Milliseconds for a device to restart and prove good: it gives up a version that has not after seven minutes, and goes back. */
const UP_MS = 20 * 60_000
const LOOK_MS = 2_000
/** The devices report their progress side by side, so only the count is shown. */
const NOWHERE = { show: () => undefined, say: () => undefined, ask: async () => false }

/**
 * Installs a bundle on each device, wave by wave. With a restart at once, a device is done when the new version runs there and
 * has proved good. A device that already has the version is left alone.
 * @returns the exit status.
 * @throws {CommandError} if the person declines.
 */
export async function updateFleet(
  members: readonly Member[],
  file: LargeFile,
  options: UpdateOptions,
): Promise<number> {
  const then = options.restart === 'now' ? ' and restart them; mirroring ends' : ''
  const bundle = { file, version: await versionIn(file) }
  return afterAsking(members, `Update ${countOf(members.length)}${then}?`, options, member =>
    updateDevice(member.client(), bundle, options),
  )
}

interface Bundle {
  readonly file: LargeFile
  /** As its manifest says: no device is believed about the bundle of the others. Undefined if it cannot be read. */
  readonly version: string | undefined
}

/** Has a device discard the version that waits for a restart, or the bundle that it has. */
export async function discard(client: DeviceClient): Promise<Result> {
  const before = await stateOf(client)
  const found = newVersion(before)
  if (!found) return { state: 'unchanged' }
  const { version, path } = found
  const lost = await client.send('DELETE', path).then(
    () => undefined,
    error => {
      if (error instanceof Unanswered) return error
      throw error
    },
  )
  const after = await stateOf(client)
  if (lost && newVersion(after)?.path === path) throw lost
  requireDiscarded(after)
  return { state: 'changed', note: discardedNote(before, version) }
}

function discardedNote({ state }: UpdateState, version: string): string {
  // Its version is not known yet.
  const isArriving = state === 'receiving' || state === 'downloading'
  return isArriving ? 'the bundle that it was receiving is discarded' : `version ${version} is discarded`
}

async function updateDevice(client: DeviceClient, bundle: Bundle, options: UpdateOptions): Promise<Result> {
  const before = await stateOf(client)
  const { restart, allowOlder } = options
  if (bundle.version !== undefined) {
    if (runs(before, bundle.version)) {
      requireToStay(before, bundle.version)
      return settled(client, before, bundle.version, options)
    }
    if (waiting(before) === printable(bundle.version)) return started(client, before, bundle.version, options)
  }
  const version = await sendBundle(client, bundle.file, NOWHERE, options)
  if (bundle.version !== undefined && version !== bundle.version)
    throw new CommandError(`it says that the bundle has version ${version}; its manifest has ${bundle.version}`)
  if (runs(before, version)) {
    await client.send('DELETE', '/update/bundle')
    return settled(client, before, version, options)
  }
  const lost = await install(client, { restart, allowOlder }, version, before)
  const after = await installed(client, NOWHERE, options).catch(error => {
    if (restart !== 'now' || error instanceof Refused || error instanceof Stuck || !(error instanceof CommandError))
      throw error
    // The device is restarting.
    return undefined
  })
  if (lost && after?.state === 'downloaded' && !newOutcome(before, after, version))
    throw new CommandError(`the installation has not begun: ${lost.message}; give the command again`)
  const why = after && whyNotInstalled(version, after)
  // Without an error it may have been installed, and have gone back.
  if (why !== undefined && (restart !== 'now' || after?.state === 'failed'))
    throw new CommandError(`the installation failed: ${why}`)
  if (restart === 'now') return settled(client, before, version, options)
  return { state: 'changed', note: waitingNote(version) }
}

/** Takes up an earlier roll-out: the version is installed, and waits for the restart that was chosen then. */
async function started(
  client: DeviceClient,
  before: UpdateState,
  version: string,
  options: UpdateOptions,
): Promise<Result> {
  const { restart } = options
  if (restart !== 'now') {
    // A device names a reason to wait only if a window is set and it is to restart in it.
    const isAsChosen = before.state !== 'installed' || (before.waitingFor !== undefined) === (restart === 'window')
    return { state: 'unchanged', note: `${waitingNote(version)}${isAsChosen ? '' : OTHERWISE[restart]}` }
  }
  if (before.state === 'installed')
    await client.send('POST', '/operations/reboot').catch(error => {
      // Whether the device restarts is seen by the version that runs.
      if (!(error instanceof Unanswered)) throw error
    })
  return settled(client, before, version, options)
}

const CHANGE = 'to change that, discard-update, and update again'
const OTHERWISE: Readonly<Record<Exclude<Restart, 'now'>, string>> = {
  window: `; as it was installed before, it does not restart in a window: ${CHANGE}`,
  manual: `; as it was installed before, it restarts in its window: ${CHANGE}`,
}

function waitingNote(version: string): string {
  return `version ${printable(version)} is installed, and starts with the next restart`
}

/** @returns the error if it is unknown whether the installation has begun: the device's state says so. */
async function install(
  client: DeviceClient,
  body: { readonly restart: Restart; readonly allowOlder: boolean },
  version: string,
  { running }: UpdateState,
): Promise<Unanswered | undefined> {
  try {
    await client.send('POST', '/update/install', body)
    return undefined
  } catch (error) {
    if (error instanceof Unanswered) return error
    if (!(error instanceof Refused) || error.type !== 'bundle-older') throw error
    throw new CommandError(
      printable(`version ${version} is older than ${running.version}, which runs; --allow-older installs it`),
    )
  }
}

/** Waits until a version runs and is good. @throws {CommandError} if the device has gone back, or does not come up. */
async function settled(
  client: DeviceClient,
  before: UpdateState,
  version: string,
  { wait, now }: UpdateOptions,
): Promise<Result> {
  const isNew = !runs(before, version)
  let cause = `version ${version} does not run yet`
  for (const until = now() + UP_MS; now() < until; await wait(LOOK_MS)) {
    try {
      const state = await stateOf(client)
      if (runs(state, version) && state.running.state === 'good')
        return isNew ? { state: 'changed', note: `runs version ${printable(version)}` } : { state: 'unchanged' }
      const last = newOutcome(before, state, version)
      if (last && last.outcome !== 'installed' && !runs(state, version))
        throw new WentBack(
          `version ${version} was ${last.outcome}${last.reason === undefined ? '' : `: ${last.reason}`}`,
        )
      cause = runs(state, version) ? `version ${version} is still on trial` : `version ${version} does not run yet`
    } catch (error) {
      if (error instanceof WentBack) throw error
      cause = causeIn(error)
    }
  }
  throw new CommandError(printable(`${cause}, after ${UP_MS / 60_000} minutes`))
}

/** What became of an update to a version that has ended since. */
function newOutcome(before: UpdateState, { last }: UpdateState, version: string): UpdateState['last'] {
  const isNew = last?.version === version && JSON.stringify(last) !== JSON.stringify(before.last)
  return isNew ? last : undefined
}

class WentBack extends CommandError {}

async function stateOf(client: DeviceClient): Promise<UpdateState> {
  const { body } = await client.send('GET', '/update').catch(error => {
    if (!(error instanceof Refused) || error.status !== 409) throw error
    throw new CommandError('it takes no firmware bundles: its image has only one system')
  })
  return body as unknown as UpdateState
}

function runs({ running }: UpdateState, version: string): boolean {
  return running.version === version
}

/** @throws {CommandError} if a device that runs a version is about to start another one. */
function requireToStay(state: UpdateState, version: string): void {
  const next = waiting(state)
  const stays = next === undefined || next === printable(version)
  if (stays && state.state !== 'installing') return
  const other = stays
    ? `is installing version ${state.bundle?.version ?? 'unknown'}: give the command again after that`
    : `version ${next} is installed, and starts with the next restart: discard-update keeps it from that`
  throw new CommandError(printable(`it runs version ${version}, but ${other}`))
}
