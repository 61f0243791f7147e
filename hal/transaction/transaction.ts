import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'
import type { Journal, Undo } from './journal.ts'

/** What is named where not a setting is refused, but what would undo it. */
const JOURNAL = 'the journal'

export interface Change {
  readonly setting: Setting
  readonly previous: unknown
  readonly next: unknown
}

/** A change that the system refused. `cause` is its error. */
export class TransactionFailed extends Error {
  /** The setting that was refused, or `the journal`. */
  readonly setting: string
  /** Settings that could not be put back; none where nothing has changed. */
  readonly notUndone: readonly string[]

  constructor(setting: string, notUndone: readonly string[], cause: unknown) {
    super(`${setting} refused`, { cause })
    this.setting = setting
    this.notUndone = notUndone
  }
}

/** What became of a change that had to be undone. */
export interface Undone {
  readonly settings: readonly string[]
  /** Those of them that could not be put back: they stay in the journal, and the next start tries again. */
  readonly notUndone: readonly string[]
}

/**
 * Changes of several settings, all or none. The undo is in a journal before the first write, so that neither an error nor
 * a power cut leaves a part of them behind. One change at a time.
 */
export class Transactions {
  readonly #system: System
  readonly #settings: readonly Setting[]
  readonly #journal: Journal
  /** The undo of a change that was applied and is not yet kept. */
  #open: readonly Undo[] = []
  /** What could not be undone: it stays in the journal, for the next start. */
  #left: readonly Undo[] = []

  /** @param settings All that a journal may name. */
  constructor(system: System, settings: readonly Setting[], journal: Journal) {
    this.#system = system
    this.#settings = settings
    this.#journal = journal
  }

  /**
   * Applies changes in their order. Until `keep`, `undo` takes them back, and so does the next start.
   * @param isKept Whether `keep` follows at once.
   * @throws {TransactionFailed} after undoing, in reverse, what had been done.
   */
  async apply(changes: readonly Change[], isKept = false): Promise<void> {
    const undos: Undo[] = []
    let at = ''
    try {
      for (const change of changes) {
        at = change.setting.name
        undos.push(await this.#prepare(change))
      }
      at = JOURNAL
      if (!isKept || !isWhole(changes, undos)) await this.#journal.open([...this.#left, ...undos])
      for (const [n, { setting, previous, next }] of changes.entries()) {
        at = setting.name
        this.#open = undos.slice(0, n + 1)
        const isRewritten = (await setting.write?.(next)) ?? false
        if (this.#system.isRunning) await setting.activate?.(next, previous, isRewritten)
      }
    } catch (error) {
      throw new TransactionFailed(at, (await this.undo()).notUndone, error)
    }
  }

  /**
   * The applied changes stay. Durable when it returns.
   * @throws {TransactionFailed} after undoing them, where the journal cannot be closed: the next start would undo them.
   */
  async keep(): Promise<void> {
    try {
      // What was set anew is not to be undone any more.
      await this.#leave(this.#left.filter(isNotIn(this.#open)))
      this.#open = []
    } catch (error) {
      throw new TransactionFailed(JOURNAL, (await this.undo()).notUndone, error)
    }
  }

  /** Takes the applied changes back, in reverse. */
  async undo(): Promise<Undone> {
    const undos = this.#open.toReversed()
    this.#open = []
    const failed: Undo[] = []
    for (const undo of undos) if (!(await this.#undoOne(undo))) failed.push(undo)
    // What is left of a setting already goes further back.
    await this.#leave([...this.#left, ...failed.toReversed().filter(isNotIn(this.#left))]).catch(() => undefined)
    return { settings: undos.map(nameOf), notUndone: failed.map(nameOf) }
  }

  /**
   * Takes back what an earlier run left unfinished or unconfirmed; undefined where it left nothing.
   * @throws {HalError} where there is a journal that cannot be read.
   */
  async recover(): Promise<Undone | undefined> {
    const undos = await this.#journal.read()
    if (undos === undefined) return undefined
    this.#open = undos
    return this.undo()
  }

  /** The change is over; what could not be undone is left for the next start. Durable when it returns. */
  async #leave(undos: readonly Undo[]): Promise<void> {
    await (undos.length === 0 ? this.#journal.close() : this.#journal.open(undos))
    this.#left = undos
  }

  async #prepare({ setting, previous, next }: Change): Promise<Undo> {
    const images = (await Promise.all(setting.files.map(path => this.#system.capture(path)))).flat()
    return { setting: setting.name, previous, next, images }
  }

  async #undoOne({ setting: name, previous, next, images }: Undo): Promise<boolean> {
    let undone = true
    const failed = () => {
      undone = false
    }
    for (const image of images.toReversed()) await this.#system.restore(image).catch(failed)
    const setting = this.#settings.find(setting => setting.name === name)
    if (this.#system.isRunning) await setting?.activate?.(previous, next, true).catch(failed)
    return undone
  }
}

/**
 * Whether the change is one replacement of one file, which is all or nothing by itself: to make a journal durable before
 * it, and its end after it, would take longer than the change.
 */
function isWhole(changes: readonly Change[], undos: readonly Undo[]): boolean {
  const [image, ...others] = undos.flatMap(undo => undo.images)
  // In the place of a folder a file comes in two steps.
  return others.length === 0 && image?.kind !== 'folder' && !changes.some(({ setting }) => setting.activate)
}

function nameOf({ setting }: Undo): string {
  return setting
}

function isNotIn(undos: readonly Undo[]): (undo: Undo) => boolean {
  return ({ setting }) => !undos.some(other => other.setting === setting)
}
