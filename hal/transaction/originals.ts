import { isUnreadable } from '../errors.ts'
import type { Files } from '../files/files.ts'
import { MAX_REPLACEABLE_BYTES } from '../files/replace.ts'
import { Serial } from '../serial.ts'
import type { Undo } from '../setting.ts'
import { Journal } from './journal.ts'
import { NotReset } from './not-reset.ts'

/** Limit on all files together, in bytes: a device has about twenty, few of them larger than a page. */
const MAX_CONTENT_BYTES = 16 * MAX_REPLACEABLE_BYTES

/**
 * The settings' files as they were before their first change ever, in the format of the journal: enough to undo every change
 * that was ever made to this device. Each path is in it once, and so is each setting that has no files.
 */
export class Originals {
  /** The files that the last reset could not put back: their originals stay here. */
  readonly notReset: NotReset
  readonly #file: Journal
  readonly #warn: (what: string) => void
  readonly #queue = new Serial()
  /** The settings and paths that it already holds; undefined until the first change of this run. */
  #known: Set<string> | undefined

  /** @param warn Logs what an operator should know: a clause with a subject. */
  constructor(state: Files, warn: (what: string) => void = () => undefined) {
    this.notReset = new NotReset(state)
    this.#file = new Journal(state, 'originals', MAX_CONTENT_BYTES)
    this.#warn = warn
  }

  /**
   * Durably records what is about to be changed for the first time. Does nothing if all of it was changed before.
   * @param isNeedless Whether a reset no longer needs an undo, which gives way to the new ones.
   * @throws {HalError} if it is too large to keep; the system's own errors.
   */
  add(undos: readonly Undo[], isNeedless?: (undo: Undo) => boolean): Promise<void> {
    return this.#queue.run(() => this.#add(undos, isNeedless))
  }

  async #add(undos: readonly Undo[], isNeedless?: (undo: Undo) => boolean): Promise<void> {
    this.#known ??= new Set((await this.read()).flatMap(keysOf))
    const known = new Set(this.#known)
    const firsts = undos.flatMap(undo => {
      const images = undo.images.filter(({ path }) => !known.has(path))
      const isFirst = images.length > 0 || !known.has(undo.setting)
      for (const key of keysOf(undo)) known.add(key)
      // The value that came next is not needed, and would only take space.
      return isFirst ? [{ ...undo, next: undo.previous, images }] : []
    })
    if (firsts.length === 0) return
    const kept = [...(await this.read()).filter(undo => !isNeedless?.(undo)), ...firsts]
    await this.#file.open(kept)
    this.#known = new Set(kept.flatMap(keysOf))
  }

  /** Its undos, in the order in which they were added. A malformed file is set aside, and its undos are lost. */
  async read(): Promise<readonly Undo[]> {
    try {
      return (await this.#file.read()) ?? []
    } catch (error) {
      if (!isUnreadable(error)) throw error
      this.#warn(`the copies of the original files: ${error.message}; ${await this.#file.setAside()}`)
      return []
    }
  }

  /** Keeps these undos in place of its own. Durable when it returns. */
  async replace(undos: readonly Undo[]): Promise<void> {
    await (undos.length === 0 ? this.#file.close() : this.#file.open(undos))
    this.#known = undefined
  }
}

/** Settings and paths share a set: a path begins with a slash, the name of a setting does not. */
function keysOf({ setting, images }: Undo): readonly string[] {
  return [setting, ...images.map(({ path }) => path)]
}
