import { HalError, reasonOf } from '../../hal/errors.ts'
import { getValue } from '../../hal/format/key-value.ts'
import type { BundleInfo, Slot } from '../../hal/format/rauc.ts'
import { compareVersions } from '../../hal/format/semver.ts'
import { readBootId } from '../../hal/os/boot-id.ts'
import { isTemporary } from '../../hal/os/data-partition.ts'
import { type Rauc, RefusedBundle } from '../../hal/os/rauc.ts'
import type { System } from '../../hal/os/system.ts'
import { readOsRelease } from '../../hal/settings/os-release.ts'
import { type Clock, rfc3339 } from '../clock.ts'
import type { Topic, TopicOptions } from '../events/topic.ts'
import type { Log } from '../log.ts'
import { Problem, systemProblem } from '../problem.ts'
import { type Fate, fateOf } from './fate.ts'
import type { Activity, Hindrance, Outcome, Source, UpdateState } from './state.ts'
import { type Change, StateTopic } from './state-topic.ts'
import { ASKED_FOR, departure, type Expectations, type Trial, type TrialRecords } from './trial.ts'
import { pause, timer, type Wait } from './wait.ts'

/** When the device restarts into an installed version. */
export const RESTARTS = ['now', 'window', 'manual'] as const
export type Restart = (typeof RESTARTS)[number]

/** Why a pending restart does not begin. `manual`: no window is set, so it is left to a person. */
export type Delay = Hindrance | 'manual'

/** Restarts the device as soon as that is allowed. */
export interface Restarter {
  /** Whether a window is set, so that `window` is the default. */
  readonly hasWindow: boolean
  /**
   * Restarts the device at once, or once the clock, the window and the sessions allow it. Does not wait for a later restart.
   * @param waitsFor Called whenever the reason for the delay changes; with undefined just before the restart.
   */
  restart(when: 'now' | 'window', waitsFor: (delay: Delay | undefined) => void): Promise<void>
  /** Cancels a pending restart. */
  cancel(): void
}

export interface KeptBundle {
  /** The path on the device; undefined until the bundle is complete and checked. */
  readonly path: string | undefined
  readonly bytes: number
  readonly source: Source
}

export interface UpdateOptions {
  readonly system: System
  readonly rauc: Rauc
  /** The records in the folder RECEIVERD_UPDATE; undefined without that folder. */
  readonly records: TrialRecords | undefined
  /** Returns the parts that work now, and must work with the version on trial. */
  readonly expect: () => Promise<Expectations>
  readonly restarter: Restarter
  /** Returns the stored bundle, complete or partial. */
  readonly bundle: () => KeptBundle | undefined
  /** Removes the stored bundle, which is not needed once it is installed. */
  readonly removeBundle: () => Promise<void>
  readonly ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970. A clock before it has not been set. */
  readonly builtAt: number
  readonly log: Log
  readonly wait?: Wait
}

export interface InstallOptions {
  readonly restart?: Restart
  readonly allowOlder?: boolean
  /** Whether `window` is accepted while none is set: the restart then waits for one to be set. */
  readonly isWindowToCome?: boolean
}

type Bundle = NonNullable<UpdateState['bundle']>

/** Milliseconds before RAUC is asked again about an installation whose progress was lost. */
const SILENCE_MS = 1_000
/**
 * How often in a row RAUC is asked in vain. It may be starting again, or not be able to start; and it cannot tell which slot starts next
 * once the boot loader's state is lost.
 */
const MAX_SILENCE = 30
/** How often RAUC is asked about a bundle until it answers, and the pauses between. A single answer may take 20 s. */
const MAX_INSPECTIONS = 4
const INSPECTION_MS = 2_000
/** Milliseconds between two looks at whether a trial has ended. */
const TRIAL_LOOK_MS = 60_000
/** Present in images that accept bundles signed with throw-away keys. */
const TEST_KEYS = '/usr/lib/receiver/test-keys'

/** The firmware update: the running system, the other system, and the step in progress. One step runs at a time. */
export class Update {
  readonly #options: UpdateOptions
  readonly #topic: StateTopic
  readonly #stopping = new AbortController()
  #following: Promise<void> | undefined
  /** Whether a start has failed: only the first failure is logged. */
  #hasFailed = false
  /** The state before the server of a bundle was contacted, until it answers. */
  #asked: { readonly state: Activity; readonly bundle: UpdateState['bundle'] } | undefined
  /** The error of the last check of the channel: the same object as in the state. */
  #channelError: UpdateState['error']
  #stopWatching = () => {}
  #discarding: Promise<void> | undefined

  constructor(options: UpdateOptions) {
    this.#options = options
    this.#topic = new StateTopic(options.ring)
  }

  get topic(): Topic {
    return this.#topic.topic
  }

  /** @throws {Problem} 409 if the device cannot be updated. */
  get state(): UpdateState {
    return this.#topic.state
  }

  /** The outcome of the last update; undefined if there was none, or if the device cannot be updated. */
  get last(): UpdateState['last'] {
    return this.#topic.hasBegun ? this.state.last : undefined
  }

  /** The state as JSON, and the id of the event with that state. @throws {Problem} 409 if the device cannot be updated. */
  get current(): StateTopic['current'] {
    return this.#topic.current
  }

  /**
   * Reads the state of both systems, and takes up the update that an earlier run began.
   * @returns whether the device can be updated; undefined if that is unknown, and nothing was begun.
   */
  async start(): Promise<boolean | undefined> {
    const { rauc, records } = this.#options
    try {
      if (!records || (await rauc.whyAbsent()) !== undefined) return false
      await this.#takeUp(records)
      return true
    } catch (error) {
      if (!this.#hasFailed) this.#log('warning', 'the firmware cannot be updated', error)
      this.#hasFailed = true
      return undefined
    }
  }

  /** Stops following the update. RAUC continues an installation in progress by itself. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#stopWatching()
    this.#topic.stop()
    this.#options.restarter.cancel()
    await this.#following
  }

  /**
   * The transfer of a bundle begins or resumes. The bundle replaces any other.
   * @param bytes Size of the whole bundle.
   * @throws {Problem} 409 while another step is in progress.
   */
  receiving(source: Source, bytes: number, receivedBytes: number): void {
    if (source !== 'url' || !this.#asked) this.requireIdle()
    this.#asked = undefined
    const bundle = { bytes, receivedBytes, source }
    this.#topic.set({ state: source === 'upload' ? 'receiving' : 'downloading', bundle, error: undefined })
  }

  progress(receivedBytes: number): void {
    const { bundle } = this.state
    if (bundle) this.#topic.set({ bundle: { ...bundle, receivedBytes } })
  }

  /**
   * Checks the complete bundle at `path`: its signature, and whether it is for this device.
   * @returns the description of the bundle.
   * @throws {Problem} 422 if the bundle is refused. The caller then calls `dropped`, and removes the bundle.
   */
  async received(path: string): Promise<Bundle | undefined> {
    const { version } = await this.#inspect(path).catch(error => {
      throw problemOf(error)
    })
    const { bundle } = this.state
    return bundle && { version, ...bundle }
  }

  /** The bundle passed the check, and can be installed. */
  kept(bundle: UpdateState['bundle']): void {
    if (bundle) this.#topic.set({ state: 'downloaded', bundle })
  }

  /**
   * Takes up the bundle that an earlier run stored, perhaps in the other system. A bundle that is already installed is removed: a
   * power cut, or the end of that run, prevented the removal.
   */
  async resume(): Promise<void> {
    const { bundle, removeBundle } = this.#options
    const kept = bundle()
    if (kept?.path === undefined) return
    const { path, bytes, source } = kept
    const says = (version = '') => ({ version, bytes, receivedBytes: bytes, source }) as const
    const { state, other } = this.state
    // RAUC does not inspect bundles while it installs. If the installation fails, the bundle can be installed again.
    if (state === 'installing') return this.#topic.set({ bundle: says(other.version) })
    if (state === 'installed') return removeBundle()
    if (state !== 'idle' && state !== 'failed') return
    try {
      const { version } = await this.#inspect(path)
      if (this.#hasInstalled(version)) return await removeBundle()
      // In the state `failed`, an installation may just have failed: its error stays.
      this.#topic.set({ ...(state === 'idle' && { state: 'downloaded' }), bundle: says(version) })
    } catch (error) {
      if (!(error instanceof RefusedBundle)) return this.#log('warning', 'could not check the stored bundle', error)
      this.#log('warning', 'removing the stored bundle', error)
      await removeBundle()
    }
  }

  /**
   * Checks a bundle. RAUC may be starting, or be too busy to answer: a bundle that took hours to arrive is not given up for that.
   * @throws {RefusedBundle} @throws {HalError} if RAUC does not answer for long.
   */
  async #inspect(path: string): Promise<BundleInfo> {
    const { rauc, wait } = this.#options
    const { signal } = this.#stopping
    for (let silence = 1; ; silence++) {
      try {
        return await rauc.inspect(path)
      } catch (error) {
        if (error instanceof RefusedBundle || silence === MAX_INSPECTIONS || signal.aborted) throw error
      }
      await pause(INSPECTION_MS, signal, wait)
    }
  }

  /** Reports whether `version` runs because the last update installed it. */
  #hasInstalled(version: string): boolean {
    const { running, last } = this.state
    if (version !== running.version) return false
    return running.state === 'trial' || (last?.version === version && last.outcome === 'installed')
  }

  /** The transfer broke off, or the bundle was refused. Without a problem, the transfer had stalled for too long. */
  dropped(problem?: Problem): void {
    const { state } = this.state
    // Another bundle is being requested from a server, or the device is restarting.
    if (!problem && (state === 'downloading' || state === 'restarting')) return
    const error = problem && { type: problem.type, detail: problem.message }
    // The reason why a stalled transfer broke off stays: nobody may have seen it yet.
    this.#topic.set({ state: problem ? 'failed' : 'idle', bundle: undefined, ...(error && { error }) })
  }

  /** The bundle is about to be removed. @throws {Problem} 409 while it is being installed. */
  removing(): void {
    const { state } = this.state
    if (state === 'installing') throw new Problem('conflict', 'The bundle is being installed.')
    const isInstalled = state === 'installed' || state === 'restarting'
    this.#topic.set({ bundle: undefined, ...(!isInstalled && { state: 'idle', error: undefined }) })
  }

  /**
   * The server of a bundle is being contacted. Until it answers, the stored bundle stays.
   * @throws {Problem} 409 while another step is in progress.
   */
  asking(): void {
    this.requireIdle()
    const { state, bundle } = this.state
    this.#asked = { state, bundle }
    this.#topic.set({ state: 'downloading', bundle: { receivedBytes: 0, source: 'url' }, error: undefined })
  }

  /** The download failed. Once bytes had begun to arrive, the store has already reported that with `dropped`. */
  notDownloaded({ type, message: detail }: Problem): void {
    const before = this.#asked
    this.#asked = undefined
    if (!before) return
    const state = before.state === 'downloaded' ? before.state : 'failed'
    this.#topic.set({ state, bundle: before.bundle, error: { type, detail } })
  }

  /** The channel was read. Clears the error of an earlier check. */
  found(available: UpdateState['available']): void {
    this.#topic.set({ available, ...this.#withoutChannelError() })
  }

  /** The channel could not be read. A step in progress and the stored bundle are not affected. */
  notFound({ type, message: detail }: Problem): void {
    const { state } = this.state
    if (state !== 'idle' && state !== 'failed' && state !== 'downloaded') return
    this.#channelError = { type, detail }
    this.#topic.set({ error: this.#channelError, ...(state === 'idle' && { state: 'failed' }) })
  }

  /** Another channel was set: clears the result of the last check. */
  forgetChannel(): void {
    this.#topic.set({ available: undefined, ...this.#withoutChannelError() })
  }

  /** Clears the channel's error together with the change that ends it, so that no event shows both a version and the error. */
  #withoutChannelError(): Change {
    const { state, error, bundle } = this.state
    if (!error || error !== this.#channelError) return {}
    return { error: undefined, ...(state === 'failed' && { state: bundle ? 'downloaded' : 'idle' }) }
  }

  /**
   * Begins to install the bundle.
   * @param who The initiator, for the log.
   * @throws {Problem} 409 without a bundle, for an older version, or if the state forbids it; 422 if the bundle is refused.
   */
  async install({ restart, allowOlder = false, isWindowToCome = false }: InstallOptions, who: string): Promise<void> {
    const { system, restarter } = this.#options
    // Without the data partition, the new system could not read that it is on trial.
    if (await isTemporary(system))
      throw new Problem(
        'conflict',
        'The data partition could not be mounted, so nothing is installed. Restart the device, or replace its card.',
      )
    const { running, bundle } = this.state
    this.requireIdle()
    const path = this.#options.bundle()?.path
    if (path === undefined) throw new Problem('conflict', 'There is no bundle to install.')
    // The other system is the only one that has proved good, so it must not be overwritten.
    if (running.state === 'trial')
      throw new Problem('conflict', 'The version that runs is on trial: wait until it has proved good.')
    if (restart === 'window' && !restarter.hasWindow && !isWindowToCome)
      throw new Problem('conflict', 'No window is set for restarts: set one, or choose now or manual.')
    const version = bundle?.version ?? ''
    if (!allowOlder && isOlder(version, running.version))
      throw new Problem(
        'bundle-older',
        `Version ${version} is older than ${running.version}, which runs. With allowOlder it is installed nevertheless.`,
      )
    this.#topic.set({ state: 'installing', percent: 0, error: undefined })
    try {
      const trial = await this.#begin(path, restart ?? (restarter.hasWindow ? 'window' : 'manual'))
      this.#options.log('notice', `${who} began to install version ${trial.version}`)
      this.#following = this.#follow(trial)
    } catch (error) {
      throw await this.#notInstalled(version, error)
    }
  }

  /**
   * Restarts into the other system: either this ends a trial, or it begins one.
   * @throws {Problem} 409 if that system is not good, or if the state does not allow it.
   */
  async rollback(who: string): Promise<void> {
    const { log } = this.#options
    const { running, other, state } = this.state
    this.requireIdle()
    if (other.state !== 'good') throw new Problem('conflict', `The other system is ${other.state}: stay with this one.`)
    this.#topic.set({ state: 'restarting' })
    try {
      const trial = running.state === 'trial' ? await this.#records.trial() : undefined
      await (trial ? this.#giveUp(trial) : this.#goBackTo(other.version))
    } catch (error) {
      this.#topic.set({ state })
      throw problemOf(error)
    }
    log('notice', `${who} went back from version ${running.version} to ${other.version}`)
    this.#restart('now')
  }

  /** The other system ends the trial, and learns from the verdict that somebody asked for that. */
  async #giveUp({ slot, version }: Trial): Promise<void> {
    await this.#noted(this.#records.condemn({ slot, version, reason: ASKED_FOR, ...this.#at }))
    await this.#mark('active', (await this.#otherSlot()).bootName)
  }

  /**
   * A version that proved good long ago is on trial again: it may not understand the settings that were made since, and nobody
   * could reach it.
   */
  async #goBackTo(version = ''): Promise<void> {
    const { rauc } = this.#options
    const trial = { ...(await this.#trialOf(version, 'now')), isReturn: true }
    const { slot } = trial
    await this.#noted(this.#records.begin(trial))
    try {
      await this.#mark('active', slot)
    } catch (error) {
      // While RAUC cannot tell which slot starts next, the record stays: if this one does, it is judged.
      if ((await rauc.primary().catch(() => slot)) !== slot) await this.#noted(this.#records.remove())
      throw error
    }
    await this.#noted(this.#records.note(departure(trial)))
  }

  /**
   * Keeps the installed version from starting. Until that is certain, no other step begins.
   * @param who The initiator, for the log.
   * @throws {Problem} 409 if no version waits for the restart.
   */
  async discard(who: string): Promise<void> {
    const { state } = this.state
    if (state === 'restarting') throw new Problem('conflict', 'The device is about to restart.')
    if (state !== 'installed') throw new Problem('conflict', 'No installed version waits for the restart.')
    this.#discarding ??= this.#discard(who).finally(() => {
      this.#discarding = undefined
    })
    return this.#discarding
  }

  async #discard(who: string): Promise<void> {
    const { restarter, log } = this.#options
    const { signal } = this.#stopping
    const { other, waitingFor } = this.state
    const { version = '' } = other
    restarter.cancel()
    const records = this.#records
    // Damaged or not, the record must not keep the version from being discarded.
    const trial = await records.trial().catch(() => undefined)
    try {
      // The next start of the service finishes what the end of this one interrupts.
      if (trial) await this.#noted(records.begin({ ...trial, isDiscarded: true }))
      await this.#mark('bad', trial?.slot ?? (await this.#otherSlot()).bootName)
    } catch (error) {
      if (trial) await this.#noted(records.begin({ ...trial, isDiscarded: false }))
      const isForWindow = waitingFor !== undefined || trial?.restart === 'window'
      if (isForWindow && !signal.aborted) this.#restart('window')
      throw problemOf(error)
    }
    log('notice', `${who} discarded version ${version}`)
    const last: Outcome = { version, outcome: 'discarded', ...this.#at }
    await records.conclude(last).catch(async error => {
      this.#log('warning', 'could not record the update', error)
      // Without space, the outcome is forgotten. A trial that did not take place must not look like a failed one.
      await this.#noted(records.remove())
    })
    if (!signal.aborted)
      this.#topic.set({ state: 'idle', waitingFor: undefined, other: { version, state: 'bad' }, last })
  }

  /** Records that only inform people. Going back must work even if the disk is full or read-only. */
  async #noted(written: Promise<void>): Promise<void> {
    await written.catch(error => this.#log('warning', 'could not record the update', error))
  }

  /** @throws {Problem} 409 while a step is in progress that must not be interrupted. */
  requireIdle(): void {
    const { state, other } = this.state
    if (state === 'receiving' || state === 'downloading') throw new Problem('conflict', 'A bundle is being received.')
    if (state === 'installing') throw new Problem('conflict', 'A bundle is being installed.')
    if (state === 'installed')
      throw new Problem('conflict', `Version ${other.version} is installed, and starts when the device restarts.`)
    if (state === 'restarting') throw new Problem('conflict', 'The device is about to restart.')
  }

  /**
   * A version on trial is judged by what worked before it started, such as Wi-Fi. After a factory reset, that may fail even
   * with a good version, which would be rolled back. And the restart of a reset would interrupt an installation.
   * @throws {Problem} 409 while a factory reset must wait.
   */
  requireResettable(): void {
    if (!this.#topic.hasBegun) return
    const { state, running, other } = this.state
    if (state === 'installing') throw new Problem('conflict', 'A bundle is being installed: wait until that has ended.')
    if (state === 'installed' || state === 'restarting')
      throw new Problem(
        'conflict',
        `Version ${other.version} is installed: discard it, or restart into it and wait until it has proved good.`,
      )
    if (running.state === 'trial')
      throw new Problem('conflict', 'The version that runs is on trial: wait until it has proved good.')
  }

  /**
   * Makes a slot the next one to start (`active`), or takes it out of the boot order (`bad`). It is not an error if RAUC told the
   * boot loader, but failed to record that.
   */
  async #mark(how: 'active' | 'bad', bootName: string): Promise<void> {
    const { rauc } = this.#options
    await rauc.mark(how, bootName).catch(async error => {
      const primary = await rauc.primary().catch(() => {
        throw error
      })
      if ((primary === bootName) !== (how === 'active')) throw error
      this.#log('warning', `RAUC did not record that system ${bootName} is ${how}`, error)
    })
  }

  get #records(): TrialRecords {
    const { records } = this.#options
    if (!records) throw new HalError('ABSENT', 'there is no folder for updates')
    return records
  }

  get #at(): { readonly at?: string } {
    const { clock, builtAt } = this.#options
    const now = clock.now()
    return now < builtAt ? {} : { at: rfc3339(now) }
  }

  /** Reads and sets the initial state, and continues an update that was begun. If it throws, nothing was begun. */
  async #takeUp(records: TrialRecords): Promise<void> {
    const { system, rauc } = this.#options
    const { bootSlot, isInstalling } = await rauc.status()
    if (bootSlot === '') throw new HalError('ABSENT', 'the device was not started from a slot of RAUC')
    await records.recover()
    const [trial, last] = [await records.trial(), await records.last()]
    const version = getValue((await readOsRelease(system)) ?? '', 'IMAGE_VERSION')
    const isTrial = trial?.slot === bootSlot
    // While RAUC installs, it does not report the state of the slots.
    const other: UpdateState['other'] = isInstalling ? { state: 'bad' } : described(await this.#otherSlot(bootSlot))
    const fate = trial && !isTrial && !isInstalling ? await this.#fateOf(trial, bootSlot) : undefined
    const hasTestKeys = await system.exists(TEST_KEYS)
    const look = this.#watchTrial(records)
    this.#topic.begin({
      running: { ...(version && { version }), slot: bootSlot, state: isTrial ? 'trial' : 'good' },
      other,
      state: 'idle',
      ...(last && { last }),
      ...(hasTestKeys && { testKeys: true }),
    })
    // The trial may have ended since its record was read.
    look()
    if (trial && isInstalling) {
      this.#topic.set({ state: 'installing', other: { version: trial.version, state: 'bad' } })
      this.#following = this.#follow(trial)
    }
    if (trial && fate) await this.#conclude(trial, fate)
    else if (!trial && last?.outcome === 'installed' && last.version !== version && last.version === other.version)
      await this.#replaced(last.version)
  }

  /**
   * Follows the end of a trial: the judge, another process, removes its record. Looks once a minute besides, because the device
   * takes no update as long as its version counts as on trial. @returns a function that looks at once.
   */
  #watchTrial(records: TrialRecords): () => void {
    const { wait = timer } = this.#options
    let stopWaiting = () => {}
    const conclude = async () => {
      const isOver = this.state.running.state === 'trial' && !(await records.isTrial())
      if (isOver) this.#topic.set({ running: { ...this.state.running, state: 'good' }, last: await records.last() })
    }
    const look = async () => {
      stopWaiting()
      await conclude().catch(error => this.#log('warning', 'the trial records', error))
      const isOnTrial = this.state.running.state === 'trial'
      if (isOnTrial && !this.#stopping.signal.aborted) stopWaiting = wait(TRIAL_LOOK_MS, look)
    }
    const stop = records.watch(look)
    this.#stopWatching = () => {
      stop()
      stopWaiting()
    }
    return look
  }

  /**
   * The boot loader started this system unasked: the installed version used up its attempts, or the boot loader's state was
   * lost.
   */
  async #replaced(version: string): Promise<void> {
    const reason = this.state.other.state === 'bad' ? 'did not start' : 'the boot loader started this system instead'
    const last: Outcome = { version, outcome: 'rolled back', reason, ...this.#at }
    this.#topic.set({ last })
    this.#options.log('warning', `version ${version} no longer runs: ${reason}`)
    await this.#records.conclude(last).catch(error => this.#log('warning', 'could not record the update', error))
  }

  async #fateOf(trial: Trial, booted = this.state.running.slot): Promise<Fate> {
    const { rauc, system } = this.#options
    return fateOf(trial, booted, await readBootId(system), await rauc.primary(), await rauc.slots())
  }

  /** Concludes the update that an earlier run began, unless it still waits for the restart. Never throws. */
  async #conclude(trial: Trial, fate: Fate): Promise<void> {
    const { rauc, log } = this.#options
    if (fate === 'waits') {
      this.#topic.set({ state: 'installed' })
      if (!trial.isDiscarded) return this.#restart(trial.restart)
      return this.discard('an interrupted request').catch(error =>
        this.#log('warning', `version ${trial.version} could not be discarded`, error),
      )
    }
    const { version, slot, isReturn } = trial
    const last: Outcome = { version, ...(await this.#outcomeOf(trial, fate)), ...this.#at }
    if (isReturn && last.outcome === 'failed') {
      log('warning', `going back to version ${version} was interrupted`)
      return this.#noted(this.#records.remove())
    }
    this.#topic.set({ last })
    const { outcome, reason } = last
    log(
      'warning',
      `version ${version} was ${outcome === 'failed' ? 'not installed' : outcome}${reason ? `: ${reason}` : ''}`,
    )
    try {
      // Takes the slot out of the boot order: when no slot has an attempt left, the boot loader gives new ones to all in the
      // order. A slot that still holds an older version was not touched.
      if ((await this.#otherSlot()).version === version) await rauc.mark('bad', slot)
      await this.#readOther()
      await this.#records.conclude(last)
    } catch (error) {
      this.#log('warning', `the record of version ${version} stays until the next start`, error)
    }
  }

  /** Of a version that does not run. */
  async #outcomeOf({ version, isDiscarded }: Trial, fate: Fate): Promise<Pick<Outcome, 'outcome' | 'reason'>> {
    const verdict = await this.#records.verdict().catch(() => undefined)
    if (verdict?.version === version) return { outcome: 'rolled back', reason: verdict.reason }
    if (isDiscarded) return { outcome: 'discarded' }
    return fate === 'rolled back'
      ? { outcome: 'rolled back', reason: 'did not start' }
      : { outcome: 'failed', reason: 'interrupted' }
  }

  /** Begins the installation. @throws if it did not begin. */
  async #begin(path: string, restart: Restart): Promise<Trial> {
    const { rauc } = this.#options
    const { version } = await this.#inspect(path)
    const trial = await this.#trialOf(version, restart)
    await this.#records.begin(trial)
    try {
      await rauc.install(path)
    } catch (error) {
      // The answer may have been lost while RAUC installs the bundle.
      if ((await this.#fateOfInstallation(trial)) === 'failed') throw error
    }
    this.#topic.set({ other: { version, state: 'bad' } })
    return trial
  }

  /** Returns the record of a trial of the other system's version. */
  async #trialOf(version: string, restart: Restart): Promise<Trial> {
    const { system, expect } = this.#options
    const { bootName: slot } = await this.#otherSlot()
    const from = this.state.running.version ?? ''
    const bootId = await readBootId(system)
    return { slot, version, from, bootId, restart, ...this.#at, expect: await expect() }
  }

  /**
   * Resolves when the installation has succeeded or failed. Until RAUC reports that, the version may still be started, so the
   * record of its trial stays: without it, the version would not be judged.
   */
  async #follow(trial: Trial): Promise<void> {
    const { rauc, removeBundle, log, wait } = this.#options
    const { signal } = this.#stopping
    const { version } = trial
    let said = ''
    for (let silence = 0; ; ) {
      try {
        await rauc.follow(percent => this.#topic.set({ percent }), signal)
        break
      } catch (error) {
        const fate = signal.aborted ? undefined : await this.#fateOfInstallation(trial)
        // The next start of the service follows the installation again.
        if (signal.aborted) return
        if (fate === 'failed' || (fate === 'unknown' && ++silence > MAX_SILENCE))
          return void (await this.#notInstalled(version, error, fate))
        if (fate === 'under way') silence = 0
        if (reasonOf(error) !== said) this.#log('warning', `following the installation of version ${version}`, error)
        said = reasonOf(error)
        if (fate === 'installed') break
        await pause(SILENCE_MS, signal, wait)
      }
    }
    log('notice', `version ${version} is installed`)
    // First: a system that is installed, but counts as bad, would look as if it could not be started.
    await this.#readOther().catch(error => this.#log('warning', 'could not read the other system', error))
    this.#topic.set({ state: 'installed', percent: undefined })
    await removeBundle().catch(error => this.#log('warning', 'the installed bundle could not be removed', error))
    // Meanwhile it may have been discarded.
    if (this.state.state === 'installed' && !this.#discarding) this.#restart(trial.restart)
  }

  /** `unknown` if RAUC does not answer, or if the installation has ended, but RAUC cannot tell which slot starts next. */
  async #fateOfInstallation(trial: Trial): Promise<'under way' | 'installed' | 'failed' | 'unknown'> {
    const status = await this.#options.rauc.status().catch(() => undefined)
    if (status?.isInstalling) return 'under way'
    const fate = status && (await this.#fateOf(trial).catch(() => undefined))
    if (fate === undefined) return 'unknown'
    return fate === 'waits' ? 'installed' : 'failed'
  }

  /**
   * Reports that an installation failed.
   * @param fate `unknown`: the record of the trial stays, because the next start may find the new version running.
   * @returns the problem to answer with.
   */
  async #notInstalled(version: string, error: unknown, fate: 'failed' | 'unknown' = 'failed'): Promise<Problem> {
    const { removeBundle } = this.#options
    const problem = problemOf(error)
    this.#log('error', `version ${version} was not installed`, error)
    const last: Outcome = { version, outcome: 'failed', reason: reasonOf(error), ...this.#at }
    if (fate === 'failed')
      await this.#records.conclude(last).catch(error => this.#log('error', 'could not record the update', error))
    await this.#readOther().catch(() => undefined)
    const { type, message: detail } = problem
    const failed = { state: 'failed', percent: undefined, error: { type, detail }, last } as const
    this.#topic.set(failed)
    // It would be refused again, but after a restart it would look like a good one, and would not be downloaded once more.
    if (error instanceof RefusedBundle) {
      await removeBundle().catch(error => this.#log('warning', 'could not remove the bundle', error))
      if (this.state.state === 'idle') this.#topic.set(failed)
    }
    return problem
  }

  #restart(when: Restart | undefined): void {
    if (when !== 'now' && when !== 'window') return
    const waitsFor = (delay: Delay | undefined) =>
      this.#topic.set({ waitingFor: delay === 'manual' ? undefined : delay, state: delay ? 'installed' : 'restarting' })
    if (when === 'now') waitsFor(undefined)
    this.#options.restarter.restart(when, waitsFor).catch(error => {
      this.#log('error', 'the device could not be restarted', error)
      this.#topic.set({ state: 'installed' })
    })
  }

  async #readOther(): Promise<void> {
    this.#topic.set({ other: described(await this.#otherSlot()) })
  }

  async #otherSlot(running = this.state.running.slot): Promise<Slot> {
    const slots = await this.#options.rauc.slots()
    const other = slots.find(({ bootName }) => bootName !== running)
    if (!other) throw new HalError('ABSENT', 'RAUC has no other slot')
    return other
  }

  /** Logs an error with RAUC's own message, which may contain paths and is for the log only. */
  #log(level: 'warning' | 'error', what: string, error: unknown): void {
    const words = error instanceof HalError && error.cause instanceof Error ? ` (${error.cause.message})` : ''
    this.#options.log(level, `${what}: ${reasonOf(error)}${words}`)
  }
}

function described({ version, state }: Slot): UpdateState['other'] {
  return { ...(version !== undefined && { version }), state }
}

/** Reports whether a version is older than the running one. A version that cannot be compared counts as older. */
function isOlder(version: string, running: string | undefined): boolean {
  return running !== undefined && (compareVersions(version, running) ?? -1) < 0
}

function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (error instanceof RefusedBundle)
    return new Problem(error.refusal, `The bundle is refused: ${error.message}.`, { cause: error })
  return systemProblem(`The update failed: ${reasonOf(error)}.`, error)
}
