import { reasonOf } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import type { System } from '../../hal/os/system.ts'
import type { Values } from '../../hal/registry.ts'
import { Serial } from '../../hal/serial.ts'
import { isWritable, type Setting } from '../../hal/setting.ts'
import { type Change, TransactionFailed, type Transactions, type Undone } from '../../hal/transaction/transaction.ts'
import { Topic, type TopicOptions } from '../events/topic.ts'
import { isObject, type JsonObject, type JsonValue, toJsonLine } from '../json.ts'
import { MAX_WAITING_CHANGES } from '../limits.ts'
import type { Log } from '../log.ts'
import { Problem, systemProblem } from '../problem.ts'
import { KeptTrial } from './kept-trial.ts'
import { changesOf, planChanges, previewOf } from './plan.ts'
import { type SettingState, Snapshot } from './snapshot.ts'
import { Tally } from './tally.ts'
import { outcome, type RevertReason, revertedData, Trial } from './trial.ts'
import { SettingWatcher } from './watcher.ts'

export interface SystemStoreOptions {
  readonly system: System
  /** The files in the state directory. */
  readonly state: Files
  readonly settings: readonly Setting[]
  readonly transactions: Transactions
  readonly ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>
  readonly log: Log
  /** Milliseconds before the first new attempt to undo what could not be undone. The time doubles, up to an hour. */
  readonly retryMs?: number
}

const RETRY_MS = 5_000
const MAX_RETRY_MS = 3_600_000

const REVERTED_BECAUSE: Readonly<Record<RevertReason, string>> = {
  'not confirmed': 'it was not confirmed in time',
  cancelled: 'a client asked for it',
  restarted: 'the service was stopped before it was over',
}

/** The result of a PATCH. */
export interface Patched {
  /** The names of the settings that were written. */
  readonly written: readonly string[]
  /** Seconds within which the change must be confirmed; undefined if it is kept, or if nothing changed. */
  readonly confirmWithinS: number | undefined
}

/**
 * The queue of everything that reads or changes the configuration. A PATCH and a change made by another program take the same
 * path: the settings that may have changed are read again and compared with the snapshot, and the difference is one event.
 */
export class SystemStore {
  readonly topic: Topic
  readonly tally: Tally
  readonly #system: System
  readonly #transactions: Transactions
  readonly #log: Log
  readonly #snapshot: Snapshot
  readonly #watcher: SettingWatcher
  readonly #queue = new Serial()
  #trial: Trial | undefined
  /** Whether a change for a trial is being made, kept or undone. */
  #isTrying = false
  readonly #keptListeners: (() => void)[] = []
  readonly #kept: KeptTrial
  #retry: NodeJS.Timeout | undefined
  readonly #retryMs: number

  constructor({ system, state, settings, transactions, ring, log, retryMs = RETRY_MS }: SystemStoreOptions) {
    this.#retryMs = retryMs
    this.#system = system
    this.#kept = new KeptTrial(state)
    this.#transactions = transactions
    this.#log = log
    this.#snapshot = new Snapshot(settings, log)
    this.tally = new Tally(settings.map(({ name }) => name))
    this.#watcher = new SettingWatcher(system, () => {
      this.#queue
        .run(() => this.#readStale())
        .catch(error => log('error', `could not look for changes: ${reasonOf(error)}`))
    })
    this.topic = new Topic({
      name: 'system',
      grant: 'admin:r',
      snapshot: () => this.#snapshot.json,
      isBusy: () => this.#queue.length > 1,
      ...ring,
    })
  }

  /** The whole configuration as JSON, as of the topic's latest event. */
  get json(): string {
    return this.#snapshot.json
  }

  /** The value of a setting, as of the topic's latest event; undefined if the device does not have it. */
  value<Name extends keyof Values>(name: Name): Values[Name] | undefined
  value(name: string): JsonValue | undefined
  value(name: string): JsonValue | undefined {
    const entry = this.#snapshot.find(name)
    return entry?.missing === undefined ? entry?.value : undefined
  }

  /** The change that is waiting for confirmation. */
  get trial(): Pick<Trial, 'id' | 'properties' | 'remainingS'> | undefined {
    return this.#trial
  }

  /** Whether the values may yet be undone: a change is on trial, or is being made for one, kept or undone. */
  get isOnTrial(): boolean {
    return this.#isTrying || this.#trial !== undefined
  }

  /** Registers a function to call whenever a change on trial has been kept. */
  readonly onKept = (kept: () => void): void => {
    this.#keptListeners.push(kept)
  }

  /** Undoes what an earlier run left unfinished, reads everything, and watches it from then on. */
  start(): Promise<void> {
    const snapshot = this.#snapshot
    // This runs in the queue: on a slow board, something changes before everything is read.
    return this.#queue.run(async () => {
      await snapshot.probe()
      for (const { name, missing } of snapshot.all)
        if (missing !== undefined) this.#log('info', `${name}: not available: ${missing}`)
      // Files that depend on the hardware are known only now.
      const files = snapshot.all.flatMap(({ setting }) => setting.files)
      await this.#tolerate('finish interrupted writes', () => this.#system.recover(...files))
      const undone = await this.#recover()
      if (undone) this.topic.reportOnResync('reverted', this.#report(undone, 'restarted'))
      this.#retryIn(this.#retryMs)
      // Watch first, then read, so that a change in between is seen twice rather than never.
      for (const entry of snapshot.available) this.#watcher.watch(entry)
      await snapshot.read(snapshot.available)
      await this.#updateEmbedding(snapshot.available)
      this.#watcher.watchAll(snapshot.all)
      this.#lookAgain()
    })
  }

  /** Stops watching, and resolves once the waiting changes have been made. */
  async stop(): Promise<void> {
    await this.#queue.run(async () => {
      this.#watcher.stop()
      clearTimeout(this.#retry)
      // An unconfirmed change stays in the journal, and the next start undoes it.
      this.#trial?.end()
    })
  }

  /**
   * Applies a JSON Merge Patch durably: all of it, or nothing.
   * @param precondition Called when no other change can come in between; throws if the change must not happen.
   * @param confirmWithinS Seconds after which the change is undone unless `confirm` is called; undefined to keep it.
   * @throws {Problem} 409 while another change waits for confirmation, 422 if a value is refused, 500 or 507 if the system
   * refuses, 503 if too many changes are waiting.
   */
  patch(patch: JsonValue, precondition: () => void, confirmWithinS?: number): Promise<Patched> {
    return this.#inTurn(patch, precondition, async () => {
      const changes = await this.#plan(patch).catch(error => {
        const pointers = error instanceof Problem ? (error.errors ?? []) : []
        this.tally.count(
          'refused',
          pointers.map(({ pointer }) => pointer.split('/')[1] ?? ''),
        )
        throw error
      })
      if (changes.length === 0) return { written: [], confirmWithinS: undefined }
      const before = this.topic.latestId
      const apply = () => this.#apply(changes, confirmWithinS === undefined)
      const isRewritten = await (confirmWithinS === undefined ? apply() : this.#tryOut(apply))
      this.topic.forgetReports()
      const written = changes.map(({ setting }) => setting.name)
      if (isRewritten) this.#tell(before, written)
      if (confirmWithinS !== undefined)
        this.#trial = new Trial(this.topic.latestId, written, confirmWithinS, trial => this.#expire(trial))
      return { written, confirmWithinS }
    })
  }

  /**
   * Returns the changes that a JSON Merge Patch would make: each property with its whole new value. Writes nothing.
   * @param precondition As for `patch`.
   * @throws {Problem} 409, 422 or 503, as for `patch`.
   */
  preview(patch: JsonValue, precondition: () => void): Promise<JsonObject> {
    return this.#inTurn(patch, precondition, async () => previewOf(await this.#plan(patch), patch))
  }

  /**
   * Keeps the change that is waiting for confirmation. Does nothing if `isMeant` accepts the change that was kept last.
   * @param precondition As for `patch`.
   * @param isMeant Reports whether the change with this ID is meant. If omitted, any change is.
   * @throws {Problem} 409 if no change is waiting, 412 if another one is meant; 500 or 507 if the system refuses, and the
   * change is undone.
   */
  confirm(precondition: () => void, isMeant?: (id: string) => boolean): Promise<void> {
    return this.#queue.run(async () => {
      precondition()
      const isOther = this.#trial === undefined || isMeant?.(this.#trial.id) === false
      if (isOther && this.#kept.id !== undefined && isMeant?.(this.#kept.id)) return
      const { id, properties } = this.#endTrial(isMeant)
      await this.#tryOut(() => this.#keep(id, properties))
      for (const kept of this.#keptListeners) kept()
    })
  }

  async #keep(id: string, properties: readonly string[]): Promise<void> {
    const before = this.topic.latestId
    try {
      // If this fails, only a client that asks again after a restart misses its answer.
      await this.#tolerate('remember the change that was kept', () => this.#kept.keep(id))
      await this.#transactions.keep()
    } catch (error) {
      await this.#tolerate('forget a change that was not kept', () => this.#kept.forget())
      await this.#readBack(this.#snapshot.available)
      this.#tell(before, properties)
      this.#retryIn(this.#retryMs)
      throw refusedBySystem(error)
    } finally {
      await this.#updateEmbedding(this.#snapshot.available)
    }
  }

  /** Makes, keeps or undoes a change for a trial. */
  async #tryOut<T>(act: () => Promise<T>): Promise<T> {
    this.#isTrying = true
    try {
      return await act()
    } finally {
      this.#isTrying = false
    }
  }

  /**
   * Undoes the change that is waiting for confirmation.
   * @param precondition As for `patch`.
   * @param isMeant As for `confirm`.
   * @throws {Problem} 409 if no change is waiting, 412 if another one is meant.
   */
  cancel(precondition: () => void, isMeant?: (id: string) => boolean): Promise<void> {
    return this.#queue.run(async () => {
      precondition()
      this.#endTrial(isMeant)
      await this.#undo('cancelled')
    })
  }

  /** Calls `act` when no other change can come in between, and the snapshot is up to date for the patch. */
  #inTurn<T>(patch: JsonValue, precondition: () => void, act: () => Promise<T>): Promise<T> {
    if (this.#queue.length >= MAX_WAITING_CHANGES)
      throw new Problem('unavailable', `${MAX_WAITING_CHANGES} changes are already waiting.`, {
        headers: ['Retry-After', '1'],
      })
    return this.#queue.run(async () => {
      await this.#readStale()
      await this.#readBack(this.#uncertain(patch))
      if (this.#trial)
        throw new Problem(
          'conflict',
          'Another change awaits its confirmation: confirm it, or wait until it is undone.',
          {
            headers: ['Retry-After', String(this.#trial.remainingS)],
          },
        )
      // Planned on a value that is yet to be undone, the change would keep it.
      if (this.#isUnfinished) await this.#retryUndo(this.#retryMs)
      precondition()
      return act()
    })
  }

  /** Reports whether a setting is as before its first change, which a factory reset restores. */
  isOriginal(name: string): Promise<boolean> {
    return this.#queue.run(() => this.#transactions.isOriginal(name))
  }

  #plan(patch: JsonValue): Promise<readonly Change[]> {
    return planChanges(patch, this.#snapshot, this.#transactions.left)
  }

  /** Ends the trial, and returns it. @throws {Problem} as `cancel` */
  #endTrial(isMeant?: (id: string) => boolean): Trial {
    const trial = this.#trial
    if (!trial) throw new Problem('conflict', 'No change awaits a confirmation.')
    if (isMeant?.(trial.id) === false)
      throw new Problem(
        'precondition-failed',
        'If-Match names another change than the one that awaits its confirmation.',
        {
          headers: ['ETag', `"${trial.id}"`],
        },
      )
    trial.end()
    this.#trial = undefined
    return trial
  }

  /** @returns whether any file changed. */
  async #apply(changes: readonly Change[], keep: boolean): Promise<boolean> {
    const names = changes.map(({ setting }) => setting.name)
    const before = this.topic.latestId
    let notUndone: readonly string[] = []
    const began = performance.now()
    try {
      const isRewritten = await this.#transactions.apply(changes, keep)
      if (keep) await this.#transactions.keep()
      this.tally.count('applied', names)
      return isRewritten
    } catch (error) {
      this.tally.count('failed', names)
      notUndone = error instanceof TransactionFailed ? error.notUndone : []
      throw refusedBySystem(error)
    } finally {
      this.tally.duration.observe((performance.now() - began) / 1000)
      await this.#readBack(this.#named(names))
      if (notUndone.length > 0) {
        this.#tell(before, notUndone)
        this.#retryIn(this.#retryMs)
      }
    }
  }

  #expire(trial: Trial): void {
    this.#queue
      .run(async () => {
        // The trial was confirmed by a request ahead in the queue.
        if (this.#trial !== trial) return
        this.#trial = undefined
        await this.#undo('not confirmed')
      })
      .catch(error => this.#log('error', `undoing a change failed: ${reasonOf(error)}`))
  }

  #undo(reason: RevertReason): Promise<void> {
    return this.#tryOut(async () => this.#tellUndone(await this.#transactions.undo(), reason))
  }

  /** Tells clients and the log what was undone, and has everything else follow. */
  async #tellUndone(undone: Undone, reason: RevertReason): Promise<void> {
    await this.#readBack(this.#named(undone.settings))
    this.topic.append('reverted', this.#report(undone, reason))
    await this.#updateEmbedding(this.#snapshot.available)
    if (undone.notUndone.length > 0) this.#retryIn(this.#retryMs)
  }

  /** Whether something of an earlier change is yet to be undone. */
  get #isUnfinished(): boolean {
    return this.#transactions.isUnread || this.#transactions.left.length > 0
  }

  /**
   * Undoes what could not be undone: until then, a device may use an address at which nobody finds it.
   * @param pausedMs The pause before this attempt.
   */
  async #retryUndo(pausedMs: number): Promise<void> {
    // During a trial, nothing else may change.
    if (this.#trial) return this.#retryIn(pausedMs)
    const nextMs = Math.min(2 * pausedMs, MAX_RETRY_MS)
    if (this.#transactions.isUnread) {
      // A file that cannot be read for hours may never be, and the device must not refuse all changes for good.
      const undone = await this.#recover(pausedMs >= MAX_RETRY_MS)
      if (undone) await this.#tellUndone(undone, 'restarted')
      // Until now, no file could follow a change by another program.
      else if (!this.#transactions.isUnread) await this.#updateEmbedding(this.#snapshot.available)
      return this.#retryIn(nextMs)
    }
    const before = this.topic.latestId
    const { settings, notUndone, changed } = await this.#transactions.retry()
    await this.#readBack(this.#named(settings))
    const done = settings.filter(name => !notUndone.includes(name))
    if (done.length > 0) {
      this.#log('notice', `the change of ${done.join(', ')} is undone now`)
      this.#tell(before, done)
      await this.#updateEmbedding(this.#snapshot.available)
    }
    if (changed.length > 0)
      this.#log('notice', `the change of ${changed.join(', ')} is not undone, because its files have changed since`)
    this.#retryIn(nextMs)
  }

  #retryIn(ms: number): void {
    clearTimeout(this.#retry)
    if (!this.#isUnfinished) return
    this.#retry = setTimeout(() => {
      this.#queue
        .run(() => this.#retryUndo(ms))
        .catch(error => this.#log('error', `undoing a change failed: ${reasonOf(error)}`))
    }, ms).unref()
  }

  /**
   * Appends an event for settings that were written, unless one came after `before`: a new password reads like the old one, but
   * an ETag must not stand for both.
   */
  #tell(before: string, names: readonly string[]): void {
    const entries = this.#named(names)
    if (this.topic.latestId === before && entries.length > 0) this.topic.changed(this.#snapshot.jsonOf(entries))
  }

  /** Undoes what an earlier run left unfinished, and returns it. @param isLast Whether it is given up if it cannot be read. */
  async #recover(isLast = false): Promise<Undone | undefined> {
    const wasUnread = this.#transactions.isUnread
    let undone: Undone | undefined
    // If recovery fails, a change may have been undone.
    let isUndone = true
    try {
      undone = await this.#transactions.recover(isLast)
      isUndone = undone !== undefined
    } catch (error) {
      const { isUnread } = this.#transactions
      const effect = isUnread ? 'until it can be read, nothing can be changed' : 'its changes stay as they are'
      if (!isUnread || !wasUnread)
        this.#log('error', `the journal of an unfinished change: ${reasonOf(error)}; ${effect}`)
      if (isUnread) return undefined
    }
    await this.#tolerate('tell which change was kept last', () => this.#kept.start(isUndone))
    return undone
  }

  /** Does something for the few clients that ask again. Failing storage must not affect the other clients. */
  async #tolerate(what: string, act: () => Promise<unknown>): Promise<void> {
    await act().catch(error => this.#log('warning', `could not ${what}: ${reasonOf(error)}`))
  }

  /** Logs what was undone, and returns the data of the event. */
  #report(undone: Undone, reason: RevertReason): string {
    const why = REVERTED_BECAUSE[reason]
    const rest = undone.notUndone.length === 0 ? '' : `; ${outcome(undone.notUndone)}`
    this.tally.undone(reason, undone.settings)
    this.#log('warning', `the change of ${undone.settings.join(', ')} was undone, because ${why}${rest}`)
    return revertedData(undone, reason)
  }

  async #readStale(): Promise<void> {
    const stale = this.#watcher.takeStale()
    if (stale.length === 0) return
    const found = await this.#snapshot.probe(stale)
    for (const entry of found) {
      this.#log('info', `${entry.name}: available now`)
      this.#watcher.watch(entry)
    }
    const changed = await this.#readBack(stale)
    await this.#updateEmbedding(found.length > 0 ? this.#snapshot.available : changed)
  }

  /** Reads settings again. All differences become one event. Returns the entries that differ. */
  async #readBack(entries: readonly SettingState[]): Promise<readonly SettingState[]> {
    // Prevents the notifications of this service's own writes from causing the same files to be read twice.
    this.#watcher.forget(entries)
    const delta = await this.#snapshot.read(entries)
    this.#lookAgain()
    // The files of a setting may depend on what was read.
    for (const entry of entries) if (entry.missing === undefined) this.#watcher.watch(entry)
    const names = Object.keys(delta)
    if (names.length > 0) this.topic.changed(toJsonLine(delta))
    return this.#named(names)
  }

  #lookAgain(): void {
    this.#watcher.lookAgain(this.#snapshot.all.filter(({ isUnread }) => isUnread))
  }

  /** After changes by other programs, writes the files that embed the changed settings. */
  async #updateEmbedding(changed: readonly SettingState[]): Promise<void> {
    // During a trial, nothing else may change. Its end calls this for all settings.
    if (this.#trial) return
    const stale: SettingState[] = []
    // If that cannot be determined, writing reports why.
    for (const entry of this.#snapshot.embedding(changed))
      if (await entry.setting.isEmbeddedStale?.().catch(() => true)) stale.push(entry)
    const changes = changesOf(stale)
    if (changes.length === 0) return
    try {
      await this.#apply(changes, true)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      this.#log('error', error.message)
    }
  }

  /**
   * Returns the settings in a patch whose values may be others than the snapshot has. Either the last read failed, or no file
   * holds them: whether changes by others are noticed depends on a command that the system may lack, and a value that seems to
   * be set already is not written.
   */
  #uncertain(patch: JsonValue): readonly SettingState[] {
    const names = isObject(patch) ? Object.keys(patch) : []
    return this.#named(names).filter(
      ({ setting, isUnread }) => (isUnread || setting.files.length === 0) && isWritable(setting),
    )
  }

  #named(names: readonly string[]): readonly SettingState[] {
    return this.#snapshot.available.filter(({ name }) => names.includes(name))
  }
}

function refusedBySystem(error: unknown): Problem {
  if (!(error instanceof TransactionFailed)) throw error
  const { setting, notUndone, cause } = error
  return systemProblem(`The system refused to write ${setting}: ${reasonOf(cause)}. ${outcome(notUndone)}`, cause)
}
