import { isDeepStrictEqual } from 'node:util'
import { Check } from 'typebox/schema'
import { HalError, isUnreadable, reasonOf } from '../errors.ts'
import type { Image } from '../files/image.ts'
import type { System } from '../os/system.ts'
import { isWritable, type Setting, type Undo } from '../setting.ts'
import { type Journal, notJournal } from './journal.ts'
import { type Fingerprints, fingerprintsOf, mayBeSame } from './not-reset.ts'
import type { Originals } from './originals.ts'

/** Named in place of a setting if the journal could not be written. */
const JOURNAL = 'the journal'
/** The same for the originals. */
const ORIGINALS = 'the copies of the original files'

export interface Change {
  readonly setting: Setting
  readonly previous: unknown
  readonly next: unknown
}

/** The system refused a change. `cause` is its error. */
export class TransactionFailed extends Error {
  /** The setting that was refused, or `the journal`, or `the copies of the original files`. */
  readonly setting: string
  /** Settings that could not be put back. If the list is empty, nothing has changed. */
  readonly notUndone: readonly string[]

  constructor(setting: string, notUndone: readonly string[], cause: unknown) {
    super(`${setting} refused`, { cause })
    this.setting = setting
    this.notUndone = notUndone
  }
}

/** A change that was undone. */
export interface Undone {
  /** The settings that it had changed, in the order in which they were undone. */
  readonly settings: readonly string[]
  /** Settings that could not be put back: they stay in the journal for `retry`, and for the next start. */
  readonly notUndone: readonly string[]
}

/**
 * Changes several settings, all or none of them. `apply` writes and activates each one in order; `keep` makes that final, and
 * `undo` takes it back. The journal records how to undo the change before the first write, so that neither an error nor a power
 * cut leaves a partial change behind: the next start calls `recover`.
 *
 * One change at a time: between `apply` and `keep` or `undo`, the caller must not begin another.
 */
export class Transactions {
  readonly #system: System
  readonly #settings: readonly Setting[]
  readonly #journal: Journal
  readonly #originals: Originals
  readonly #warn: (what: string) => void
  /** How to undo the change that is applied and not yet kept. */
  #open: readonly Undo[] = []
  /** Changes that could not be undone. They stay in the journal for the next start. */
  #left: readonly Undo[] = []
  /** Fingerprints of their files, as they were left. */
  #leftAs: Fingerprints = {}
  /** Why the journal of an earlier run cannot be read yet: until it is, no other may take its place. */
  #whyUnread: unknown

  /**
   * @param settings Every setting that a journal may name.
   * @param warn Logs what an operator should know: a clause with a subject.
   */
  constructor(
    system: System,
    settings: readonly Setting[],
    journal: Journal,
    originals: Originals,
    warn: (what: string) => void = () => undefined,
  ) {
    this.#system = system
    this.#settings = settings
    this.#journal = journal
    this.#originals = originals
    this.#warn = warn
  }

  /** The settings that could not be put back. The system may use other values of theirs than the files have. */
  get left(): readonly string[] {
    return this.#left.map(nameOf)
  }

  /** Whether the system refused to let `recover` read the journal. Until that succeeds, `apply` refuses all changes. */
  get isUnread(): boolean {
    return this.#whyUnread !== undefined
  }

  /**
   * Applies changes in order. Until `keep`, `undo` takes them back, and so does the next start.
   * @param isKept Whether `keep` follows at once, so that a change which cannot be torn needs no journal.
   * @returns whether any file changed.
   * @throws {TransactionFailed} after undoing, in reverse order, the changes made so far.
   */
  async apply(changes: readonly Change[], isKept = false): Promise<boolean> {
    if (this.isUnread) throw new TransactionFailed(JOURNAL, [], this.#whyUnread)
    const undos: Undo[] = []
    let isChanged = false
    let at = ''
    try {
      for (const change of changes) {
        at = change.setting.name
        undos.push(await this.#prepare(change))
      }
      at = ORIGINALS
      await this.#originals.add(undos)
      at = JOURNAL
      if (!isKept || !isAtomic(changes, undos)) await this.#journal.open([...this.#left, ...undos])
      for (const [n, { setting, previous, next }] of changes.entries()) {
        at = setting.name
        this.#open = undos.slice(0, n + 1)
        const isRewritten = (await setting.write?.(next, previous)) ?? false
        isChanged ||= isRewritten
        if (!this.#system.isRunning) continue
        // The value that could not be put back may be in use, whatever the files have.
        const left = this.#left.find(undo => undo.setting === at)
        const inUse = left && fits(setting, left.next) ? left.next : previous
        await setting.activate?.(next, inUse, isRewritten || left !== undefined)
      }
      return isChanged
    } catch (error) {
      throw new TransactionFailed(at, (await this.undo()).notUndone, error)
    }
  }

  /**
   * Makes the applied changes final. Durable when it returns.
   * @throws {TransactionFailed} after undoing them, if the journal cannot be closed: the next start would undo them.
   */
  async keep(): Promise<void> {
    try {
      await this.#leave(await this.#leftBeside(this.#open))
    } catch (error) {
      throw new TransactionFailed(JOURNAL, (await this.undo()).notUndone, error)
    }
    const kept = this.#open.map(nameOf)
    this.#open = []
    // The change is final by now. If this fails, no harm is done: changed content is not reset either.
    await this.#originals.notReset.forget(kept).catch(() => undefined)
  }

  /** Takes the applied changes back, in reverse order. */
  async undo(): Promise<Undone> {
    const { settings, failed } = await this.#undo(() => true)
    const left = onePerSetting([...this.#left, ...failed.toReversed()])
    // If the journal cannot be written now, it still has all undos of the change. The next change must not remove them.
    await this.#leave(left).catch(() => undefined)
    this.#left = left
    // The files of the others may have been changed since they were left.
    const isNew = ({ setting }: Undo) => failed.some(other => other.setting === setting)
    this.#leftAs = { ...this.#leftAs, ...(await this.#fingerprints(left.filter(isNew))) }
    return { settings, notUndone: failed.map(nameOf) }
  }

  /**
   * Tries again to take back what could not be taken back, unless somebody has changed its files since.
   * @returns also the settings that were given up because of that.
   */
  async retry(): Promise<Undone & { readonly changed: readonly string[] }> {
    const now = await this.#fingerprints(this.#left)
    const isChanged = ({ setting }: Undo) =>
      !Object.keys(now[setting] ?? {}).every(path => this.#isAsLeft(setting, path, now))
    const changed = this.#left.filter(isChanged).map(nameOf)
    this.#open = this.#left.filter(undo => !isChanged(undo))
    this.#left = []
    return { ...(await this.undo()), changed }
  }

  /** Reports whether the files of a setting are as before its first change. */
  async isOriginal(name: string): Promise<boolean> {
    for (const original of await this.#originals.read()) {
      const { setting, images, previous } = original
      if (setting !== name) continue
      if (!isDeepStrictEqual(fingerprintsOf(images, previous), await this.#fingerprintsOf(original))) return false
    }
    return true
  }

  /**
   * Restores the state before the first change ever. Running programs are not updated, because the device restarts afterwards;
   * only values that no file holds, such as the volume, are set. Repeating an interrupted reset gives the same result. What
   * fails is left to `resumeReset`.
   * @param more Undos of everything else to reset.
   */
  async reset(more: readonly Undo[] = []): Promise<Undone> {
    const kept = await this.#originals.read()
    const originals = [...kept, ...more.filter(isNotIn(kept))]
    await this.#system.recover(...pathsOf(originals))
    this.#open = originals
    const { settings, failed } = await this.#undo(({ images }) => images.length === 0)
    const left = failed.toReversed()
    await this.#originals.notReset.write(await this.#fingerprints(left))
    // The originals go further back than undos that were left earlier.
    await this.#leave(this.#left.filter(isNotIn(originals)))
    await this.#originals.replace(left)
    return { settings, notUndone: failed.map(nameOf) }
  }

  /**
   * Tries again to put back what an earlier `reset` could not, and activates it. Leaves alone files that somebody has changed
   * since, and settings that were changed through this class.
   * @param isNeeded Reports whether to leave these paths alone, because something else needs them.
   * @returns undefined if nothing is left.
   */
  async resumeReset(
    isNeeded?: (setting: string, paths: readonly string[]) => Promise<boolean>,
  ): Promise<Undone | undefined> {
    const { notReset } = this.#originals
    if (Object.keys(await notReset.read()).length === 0) return undefined
    const originals = await this.#originals.read()
    const due = new Map<Undo, Undo>()
    for (const original of originals) {
      const undo = await this.#stillLeft(original)
      if (undo && !(await isNeeded?.(undo.setting, pathsOf([undo])))) due.set(original, undo)
    }
    await this.#system.recover(...pathsOf([...due.values()]))
    this.#open = [...due.values()]
    const { settings, failed } = await this.#undo(() => true)
    await notReset.write(await this.#fingerprints(failed))
    // If a file was changed since, the next reset still needs its original.
    await this.#originals.replace(originals.filter(original => isWanted(original, due.get(original), failed)))
    return { settings, notUndone: failed.map(nameOf) }
  }

  /** The part of an original that a reset could not put back and nobody has changed since; undefined if there is none. */
  async #stillLeft(original: Undo): Promise<Undo | undefined> {
    const left = (await this.#originals.notReset.read())[original.setting] ?? {}
    const now = await this.#fingerprintsOf(original)
    const isLeft = (path: string) => Object.hasOwn(left, path) && mayBeSame(left[path], now[path])
    const images = original.images.filter(({ path }) => isLeft(path))
    return Object.keys(now).some(isLeft) ? { ...original, images } : undefined
  }

  /**
   * Returns what is left of earlier changes once these are kept. A file that could not be put back is not confirmed by a change
   * of another file of its setting, and a file that a kept change has rewritten, which may belong to two settings, is not put back.
   */
  async #leftBeside(kept: readonly Undo[]): Promise<readonly Undo[]> {
    const now = await this.#fingerprints(this.#left)
    return this.#left.flatMap(undo => {
      const newer = kept.find(({ setting }) => setting === undo.setting)
      // Somebody has asked for the value that could not be taken back.
      if (newer && isDeepStrictEqual(newer.next, undo.next)) return []
      if (!newer && undo.images.length === 0) return [undo]
      const images = undo.images.filter(({ path }) => this.#isAsLeft(undo.setting, path, now))
      // The setting's own change has put into use what is in its files.
      const due = newer ? images.filter(image => !isAsNow(image, now[undo.setting])) : images
      return due.length > 0 ? [{ ...undo, images: due }] : []
    })
  }

  #isAsLeft(setting: string, path: string, now: Fingerprints): boolean {
    return mayBeSame(now[setting]?.[path], this.#leftAs[setting]?.[path])
  }

  async #fingerprints(undos: readonly Undo[]): Promise<Fingerprints> {
    const all: Record<string, Record<string, string>> = {}
    for (const undo of undos) all[undo.setting] = { ...all[undo.setting], ...(await this.#fingerprintsOf(undo)) }
    return all
  }

  async #fingerprintsOf({ setting: name, images }: Undo): Promise<Readonly<Record<string, string>>> {
    const setting = this.#settings.find(setting => setting.name === name)
    if (images.length === 0) return fingerprintsOf([], await setting?.read().catch(() => undefined))
    return fingerprintsOf(
      await Promise.all(images.map(({ path }) => this.#capture(path, setting).catch(() => ({ path })))),
    )
  }

  /** Both lists are in the order of undoing. */
  async #undo(
    isActivated: (undo: Undo) => boolean,
  ): Promise<{ readonly settings: readonly string[]; readonly failed: readonly Undo[] }> {
    const undos = this.#open.toReversed()
    this.#open = []
    const failed: Undo[] = []
    for (const undo of undos) if (!(await this.#undoOne(undo, isActivated(undo)))) failed.push(undo)
    return { settings: undos.map(nameOf), failed }
  }

  /**
   * Undoes changes that an earlier run left unfinished or unconfirmed; undefined if it left none. The journal may be from
   * another version: undos that only that one can do are left out. A file that is not a journal of these settings is set aside,
   * and not acted on.
   * @param isLast Whether a journal that cannot be read now is set aside, too.
   * @throws {HalError} for such a file, saying why; the system's own errors if the journal cannot be read now.
   */
  async recover(isLast = false): Promise<Undone | undefined> {
    const undos = await this.#readJournal(isLast)
    if (undos === undefined) return undefined
    this.#open = await Promise.all(onePerSetting(undos).map(undo => this.#withOwnNext(undo)))
    return this.undo()
  }

  async #readJournal(isLast: boolean): Promise<readonly Undo[] | undefined> {
    this.#whyUnread = undefined
    try {
      const undos = await this.#journal.read()
      return undos && this.#possible(undos)
    } catch (error) {
      if (isLast || isUnreadable(error))
        throw new HalError('UNREADABLE', `${reasonOf(error)}; ${await this.#journal.setAside()}`)
      this.#whyUnread = error
      throw error
    }
  }

  /** Returns the undos that this version can do. @throws {HalError} if there are none, or if one must not be done. */
  #possible(undos: readonly Undo[]): readonly Undo[] {
    for (const undo of undos) requireOwn(undo, this.#settings)
    const whyNot = new Map(undos.map(undo => [undo, whyImpossible(undo, this.#settings)]))
    const possible = undos.filter(undo => whyNot.get(undo) === undefined)
    if (possible.length === 0) throw notJournal([...new Set(whyNot.values())].join(', and '))
    for (const [{ setting }, why] of whyNot)
      if (why !== undefined)
        this.#warn(`the journal of an unfinished change: the undo of ${setting} is left out: ${why}`)
    return possible
  }

  /** Gives an undo of another version, whose values had another shape, the value that this version reads before it is undone. */
  async #withOwnNext(undo: Undo): Promise<Undo> {
    const setting = this.#settings.find(setting => setting.name === undo.setting)
    if (!setting || fits(setting, undo.next)) return undo
    return { ...undo, next: await setting.read().catch(() => undo.next) }
  }

  /** Ends the change, and leaves undos that failed to the next start. Durable when it returns. */
  async #leave(undos: readonly Undo[]): Promise<void> {
    await (undos.length === 0 ? this.#journal.close() : this.#journal.open(undos))
    this.#left = undos
  }

  async #prepare({ setting, previous, next }: Change): Promise<Undo> {
    const images = await Promise.all(setting.files.map(path => this.#capture(path, setting)))
    return { setting: setting.name, previous, next, images }
  }

  #capture(path: string, setting: Setting | undefined): Promise<Image> {
    return setting?.links?.includes(path) ? this.#system.captureLink(path) : this.#system.capture(path)
  }

  async #undoOne({ setting: name, previous, next, images }: Undo, isActivated: boolean): Promise<boolean> {
    let undone = true
    const failed = () => {
      undone = false
    }
    for (const image of images) await this.#system.restore(image).catch(failed)
    const setting = this.#settings.find(setting => setting.name === name)
    if (isActivated && this.#system.isRunning && setting?.activate) {
      // If it is from a version whose values had another shape, the restored files tell the value.
      const isReadable = images.length > 0 && !fits(setting, previous)
      const value = isReadable ? await setting.read().catch(() => undefined) : previous
      if (fits(setting, value)) await setting.activate(value, fits(setting, next) ? next : value, true).catch(failed)
      else failed()
    }
    return undone
  }
}

/**
 * Whether the change is one replacement of one file, which cannot be torn. Making a journal durable before it and removing
 * it after would take longer than the change.
 */
function isAtomic(changes: readonly Change[], undos: readonly Undo[]): boolean {
  const [image, ...others] = undos.flatMap(undo => undo.images)
  // A folder is removed before a file takes its place.
  const isOneStep = image?.entry.kind !== 'folder' && image?.behind === undefined
  return others.length === 0 && isOneStep && !changes.some(({ setting }) => setting.activate)
}

/**
 * Checks that an undo from the disk changes nothing but what its setting may change: the journal may be from another version,
 * or from the tree of a device that is not trusted.
 * @throws {HalError} saying why the undo must not be done.
 */
function requireOwn({ setting: name, images }: Undo, settings: readonly Setting[]): void {
  const setting = settings.find(setting => setting.name === name)
  if (!setting || !isWritable(setting)) return
  if (setting.write && images.length === 0) throw notJournal('it has no file for its setting')
  if (!images.every(({ path }) => setting.files.includes(path) || setting.mayHave?.(path)))
    throw notJournal('a file in it does not belong to its setting')
}

/** Returns why this version cannot do an undo, which may be from another one; undefined if it can. */
function whyImpossible({ setting: name, images, previous }: Undo, settings: readonly Setting[]): string | undefined {
  const setting = settings.find(setting => setting.name === name)
  if (!setting || !isWritable(setting)) return 'it changes something that is not a setting, or is read-only'
  return images.length > 0 || fits(setting, previous) ? undefined : 'a value in it does not fit its setting'
}

/** Whether a file is as an undo would put it back. */
function isAsNow(image: Image, now: Fingerprints[string] | undefined): boolean {
  return fingerprintsOf([image])[image.path] === now?.[image.path]
}

function fits({ schema }: Setting, value: unknown): boolean {
  return Check(schema, value)
}

function nameOf({ setting }: Undo): string {
  return setting
}

function pathsOf(undos: readonly Undo[]): readonly string[] {
  return undos.flatMap(({ images }) => images.map(({ path }) => path))
}

/** Whether an original is kept, because not all of it has been put back. */
function isWanted(original: Undo, due: Undo | undefined, failed: readonly Undo[]): boolean {
  return due === undefined || failed.includes(due) || due.images.length < original.images.length
}

/**
 * Puts the undos of each setting together, in their order. The first one goes furthest back, so its value and files count. The
 * value of any of them may be in use, and a setting that is told of no change would leave it there.
 */
function onePerSetting(undos: readonly Undo[]): readonly Undo[] {
  const all = new Map<string, Undo>()
  for (const undo of undos) {
    const first = all.get(undo.setting) ?? { ...undo, images: [] }
    const { previous, images } = first
    const next = isDeepStrictEqual(undo.next, previous) ? first.next : undo.next
    const later = undo.images.filter(({ path }) => !images.some(image => image.path === path))
    all.set(undo.setting, { ...undo, previous, next, images: [...images, ...later] })
  }
  return [...all.values()]
}

function isNotIn(undos: readonly Undo[]): (undo: Undo) => boolean {
  return ({ setting }) => !undos.some(other => other.setting === setting)
}
