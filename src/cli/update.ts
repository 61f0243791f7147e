import { reasonOf } from '../../hal/errors.ts'
import type { LargeFile } from '../../hal/files/read.ts'
import { UPLOAD_TOTAL_MS } from '../limits.ts'
import { printable } from '../log.ts'
import type { UpdateState } from '../update/state.ts'
import type { Restart } from '../update/update.ts'
import { CommandError } from './failure.ts'
import type { Person } from './person.ts'
import { type Client, Refused } from './service-client.ts'

export interface InstallChoices {
  /** Whether to install and restart without asking. */
  readonly isSure: boolean
  readonly allowOlder: boolean
  readonly restart: Restart | undefined
}

/** How time passes. */
export interface Time {
  /** Resolves after the given milliseconds. */
  readonly wait: (ms: number) => Promise<unknown>
  /** The monotonic clock, in milliseconds. */
  readonly now: () => number
}

/** The device has come no further for so long that it is given up. */
export class Stuck extends CommandError {}

/** The bundle cannot be read here, or is no longer the same. */
class Unreadable extends CommandError {}

/** Failed attempts in a row, and milliseconds between two: a service that restarts is away for some seconds. */
const MAX_VAIN = 40
const PAUSE_MS = 2_000
/** Milliseconds to check a bundle, or to get on with an installation: on a slow card, RAUC stands still for minutes. */
const STALL_MS = 30 * 60_000
/** Milliseconds for a whole installation. */
const INSTALL_MS = 3 * 60 * 60_000
const MIB = 1024 * 1024
const RESTART_TAKES = 'The restart takes about two minutes, and a trial up to five more.'

/** Returns a line each about the running version, the other one, and the work in progress. */
export async function updateStatus(client: Client): Promise<readonly string[]> {
  const { running, other, state, waitingFor, bundle, percent, error, last, available, testKeys } = await read(client)
  const lines = [
    `Version ${of(running)} runs, in system ${running.slot}.`,
    running.state === 'trial' &&
      'It is on trial for up to five minutes: unless it proves good, the device goes back by itself.',
    // While it is being written, the other system is neither good nor bad.
    state !== 'installing' && OTHERS[other.state](of(other)),
    ACTIVITIES[state]({ version: of(bundle ?? other), far: farOf(bundle), percent: percent ?? 0 }),
    waitingFor !== undefined && `The restart waits for ${WAITS_FOR[waitingFor]}.`,
    error && `Refused or failed: ${error.detail}`,
    last && `Last: version ${last.version} was ${OUTCOMES[last.outcome]}${last.reason ? `: ${last.reason}` : ''}.`,
    available && `The channel has version ${available.version}, as of ${available.checkedAt}.`,
    testKeys && 'The device takes bundles that are signed with throw-away keys: it is for trying out only.',
  ]
  return lines.flatMap(line => (line ? [printable(line)] : []))
}

/**
 * Sends a bundle, and installs it once the person agrees.
 * @throws {CommandError} if the bundle is not installed.
 */
export async function installUpdate(
  client: Client,
  file: LargeFile,
  { isSure, allowOlder, restart }: InstallChoices,
  person: Person,
  time: Time,
): Promise<void> {
  const version = await sendBundle(client, file, person, time)
  const { running } = await read(client)
  const then = restart === 'now' ? ' and restart' : ''
  if (!isSure) {
    if (!(await person.ask(`Install version ${version}${then}? ${of(running)} runs.`)))
      throw new CommandError('nothing was installed; the bundle stays on the device')
    const { bundle } = await read(client)
    if (!bundle || of(bundle) !== version)
      throw new CommandError(
        `nothing was installed: the bundle of version ${version} was replaced or removed meanwhile`,
      )
  }
  const when = restart ?? (isSure ? undefined : 'manual')
  try {
    await client.send('POST', '/update/install', { allowOlder, ...(when !== undefined && { restart: when }) })
  } catch (error) {
    if (!(error instanceof Refused) || error.type !== 'bundle-older') throw error
    throw new CommandError(`version ${version} is older than ${of(running)}, which runs; --allow-older installs it`)
  }
  const after = await installed(client, person, time)
  const why = whyNotInstalled(version, after)
  if (why !== undefined) throw new CommandError(`the installation failed: ${why}`)
  const { state, waitingFor } = after
  person.say(`Version ${version} is installed.`)
  if (restart === undefined && !isSure && (await person.ask('Restart the device now? Mirroring ends.')))
    await client.send('POST', '/operations/reboot')
  else if (waitingFor !== undefined) person.say(`The restart waits for ${WAITS_FOR[waitingFor]}.`)
  else if (state === 'installed') person.say('It starts when the device restarts.')
  person.say(RESTART_TAKES)
}

/** @throws {CommandError} if the device does not return to the other version. */
export async function rollBack(client: Client, isSure: boolean, person: Person): Promise<void> {
  const { running, other } = await read(client)
  const question = `Restart into version ${of(other)}? ${of(running)} runs. Mirroring ends, and all settings stay.`
  if (!isSure && !(await person.ask(question))) throw new CommandError('nothing has changed')
  await client.send('POST', '/update/rollback')
  person.say(`The device restarts into version ${of(other)}. ${RESTART_TAKES}`)
}

/** The path under which an installed version is discarded. */
const INSTALLED = '/update/install'

/** The installed version that starts with the next restart. */
export function waiting({ state, other }: UpdateState): string | undefined {
  return state === 'installed' || state === 'restarting' ? of(other) : undefined
}

/** The version that has not started yet, installed or as a bundle, and the path under which it is discarded. */
export function newVersion(update: UpdateState): { version: string; path: string } | undefined {
  const version = waiting(update)
  if (version !== undefined) return { version, path: INSTALLED }
  return update.bundle && { version: of(update.bundle), path: '/update/bundle' }
}

/** Discards the new version. @throws {CommandError} if there is none, or if it stays. */
export async function discardUpdate(client: Client, isSure: boolean, person: Person): Promise<void> {
  const before = await read(client)
  const found = newVersion(before)
  const runs = of(before.running)
  if (!found) throw new CommandError(`there is no new version; ${runs} runs`)
  const { version, path } = found
  const question = `Discard version ${version}? ${runs} runs, and stays.`
  if (!isSure && !(await person.ask(question))) throw new CommandError('nothing has changed')
  await client.send('DELETE', path)
  requireDiscarded(await read(client))
  person.say(`Version ${version} is discarded.`)
}

/** @param after The state after a version was discarded. @throws {CommandError} if one was installed in the meantime. */
export function requireDiscarded(after: UpdateState): void {
  const left = newVersion(after)
  if (left?.path === INSTALLED)
    throw new CommandError(
      `version ${left.version} was installed in the meantime; give the command again to discard it`,
    )
}

/** Sends a bundle, or the missing part of it. @returns its version. @throws {CommandError} */
export async function sendBundle(
  client: Client,
  file: LargeFile,
  person: Pick<Person, 'show'>,
  time: Time,
): Promise<string> {
  // Nothing would be left to send of it, as of a bundle that the device has.
  if (file.bytes === 0) throw new CommandError('the bundle is an empty file')
  let hasSent = false
  const until = time.now() + UPLOAD_TOTAL_MS
  for (let vain = 1; ; vain++) {
    let sent = 0
    try {
      const from = await startOf(client, file, hasSent)
      if (from.offset === file.bytes) return await checked(client, time)
      const counted = async function* () {
        for await (const chunk of bytesOf(file, from.offset)) {
          yield chunk
          sent += chunk.length
          person.show(`Sending: ${farOf({ receivedBytes: from.offset + sent, bytes: file.bytes })}`)
        }
      }
      const { body } = await client.put('/update/bundle', {
        headers: { 'Content-Type': 'application/vnd.rauc.bundle', ...from.headers },
        bytes: file.bytes - from.offset,
        chunks: counted(),
      })
      return String(body.version)
    } catch (error) {
      if (sent > 0) vain = 1
      hasSent ||= sent > 0
      // The service is restarting, or has not noticed yet that the connection broke. An upload ends when its token expires, and
      // the next request has a new one.
      const isPassing =
        error instanceof Refused
          ? error.status === 409 || (error.status === 401 && sent > 0)
          : error instanceof CommandError
      const isHopeless =
        error instanceof Stuck || error instanceof Unreadable || vain >= MAX_VAIN || time.now() >= until
      if (!hasSent || !isPassing || isHopeless) throw error
      await time.wait(PAUSE_MS)
    } finally {
      person.show('')
    }
  }
}

async function* bytesOf(file: LargeFile, from: number): AsyncGenerator<Buffer> {
  try {
    yield* file.chunks(from)
  } catch (error) {
    throw new Unreadable(`the bundle cannot be read: ${reasonOf(error)}`)
  }
}

/**
 * Returns where to resume after an earlier attempt to send a file of this size. A complete bundle of that size may be another
 * one, and only its sender knows: unless it was sent just now, the file replaces it.
 */
async function startOf(client: Client, { bytes }: LargeFile, hasSent: boolean) {
  const part = await client.send('GET', '/update/bundle').catch(error => {
    if (error instanceof Refused && error.status === 404) return undefined
    throw error
  })
  const { receivedBytes: offset = 0 } = part?.body ?? {}
  const isResumable = part?.body.bytes === bytes && typeof offset === 'number' && (offset < bytes || hasSent)
  if (!isResumable || offset === 0) return { offset: 0, headers: {} }
  return { offset, headers: { 'If-Match': part.etag ?? '', 'Content-Range': `bytes ${offset}-${bytes - 1}/${bytes}` } }
}

/** Waits until a completely sent bundle has been checked. @returns its version. */
async function checked(client: Client, { wait, now }: Time): Promise<string> {
  for (const until = now() + STALL_MS; ; await wait(PAUSE_MS)) {
    const { state, bundle, error } = await read(client)
    if (state !== 'receiving') {
      // If the bundle is present, a failure is about its installation, which does not matter here.
      if (bundle?.version !== undefined) return of(bundle)
      throw new CommandError(`the service refused: ${(error?.detail ?? 'the bundle is gone').replace(/\.$/, '')}`)
    }
    if (now() >= until) throw new Stuck(`the bundle was not checked within ${STALL_MS / 60_000} minutes`)
  }
}

/** Resolves when the installation has ended. The service may restart in the meantime. @throws {Stuck} */
export async function installed(
  client: Client,
  person: Pick<Person, 'show'>,
  { wait, now }: Time,
): Promise<UpdateState> {
  const end = now() + INSTALL_MS
  let until = now() + STALL_MS
  let far = 0
  for (let vain = 1; ; vain++) {
    try {
      const update = await read(client)
      if (update.state !== 'installing') return update
      vain = 1
      const { percent = 0 } = update
      if (percent > far) until = now() + STALL_MS
      far = Math.max(far, percent)
      if (now() >= until)
        throw new Stuck(`the installation has stood still at ${far} % for ${STALL_MS / 60_000} minutes`)
      if (now() >= end) throw new Stuck(`the installation was not over within ${INSTALL_MS / 3_600_000} hours`)
      person.show(`Installing: ${percent} %`)
    } catch (error) {
      if (error instanceof Stuck || vain >= MAX_VAIN) throw error
    } finally {
      await wait(PAUSE_MS)
    }
  }
}

/**
 * Why a version was not installed after all; undefined if it was. A service that was restarted meanwhile may tell that by
 * `last` alone, and one that never began, not at all.
 */
export function whyNotInstalled(version: string, update: UpdateState): string | undefined {
  const { state, running, error, last } = update
  if (waiting(update) !== undefined) return undefined
  // The device may have restarted into it already.
  if (state !== 'failed' && running.version === version) return undefined
  const told = last?.version === version ? last : undefined
  const reason = error?.detail ?? (told?.outcome === 'discarded' ? 'it was discarded' : told?.reason)
  return printable((reason ?? 'the device does not say why').replace(/\.$/, ''))
}

async function read(client: Client): Promise<UpdateState> {
  return (await client.send('GET', '/update')).body as unknown as UpdateState
}

function of({ version = 'unknown' }: { readonly version?: string }): string {
  return printable(version)
}

function farOf(bundle: { readonly receivedBytes: number; readonly bytes?: number } | undefined): string {
  if (!bundle) return ''
  const { receivedBytes, bytes } = bundle
  const got = `${Math.floor(receivedBytes / MIB)}`
  if (bytes === undefined) return `${got} MiB`
  return `${Math.floor((100 * receivedBytes) / bytes)} % (${got} of ${Math.ceil(bytes / MIB)} MiB)`
}

interface Facts {
  readonly version: string
  readonly far: string
  readonly percent: number
}

const ACTIVITIES: Readonly<Record<UpdateState['state'], (facts: Facts) => string>> = {
  idle: () => '',
  receiving: ({ far }) => `A bundle is being received, which takes some minutes: ${far}.`,
  downloading: ({ far }) => `A bundle is being downloaded, which takes some minutes: ${far}.`,
  downloaded: ({ version }) => `Version ${version} is on the device, checked, and not installed.`,
  installing: ({ version, percent }) =>
    `Version ${version} is being installed, which takes some minutes: ${percent} %.`,
  installed: ({ version }) => `Version ${version} is installed, and starts when the device restarts. ${RESTART_TAKES}`,
  restarting: () => `The device is restarting. ${RESTART_TAKES}`,
  failed: () => '',
}
const OTHERS: Readonly<Record<UpdateState['other']['state'], (version: string) => string>> = {
  good: version => `The other system has version ${version}.`,
  bad: version => `The other system, version ${version}, cannot be started.`,
  empty: () => 'The other system is empty.',
}
const WAITS_FOR = {
  window: 'the window of the setting update',
  sessions: 'the end of all sessions',
  network: 'the network',
  clock: 'the clock to be set',
}
const OUTCOMES = {
  installed: 'installed',
  'rolled back': 'rolled back',
  failed: 'not installed',
  discarded: 'discarded',
}
