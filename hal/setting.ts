import type { Static, TSchema } from 'typebox/type'
import type { Stop } from './files/watcher.ts'

/** A refused part of a value: an RFC 6901 pointer into the value, and what would be accepted. */
export interface Violation {
  readonly pointer: string
  readonly detail: string
}

/**
 * One setting of the device, and one top-level property of its configuration.
 *
 * What it writes is split in two, so that one mechanism undoes every setting: `write` changes files and nothing but the
 * `files` it names, which are captured before and put back when anything fails; `activate` makes the running system act
 * on the files, and does the same again after they were put back.
 */
export interface Setting<S extends TSchema = TSchema> {
  readonly name: string
  /** What is accepted and what is read. A value on the system that does not fit is treated as unreadable. */
  readonly schema: S
  /** The files it keeps its value in. */
  readonly files: readonly string[]
  /** Whether a path could be one of `files` with other parts connected: an undo may restore it then. */
  mayHave?(path: string): boolean
  /** Files that it reads beside `files`. */
  readonly sources?: readonly string[]
  /** Settings that its value falls back on: it is read again when one of them was written. */
  readonly dependsOn?: readonly string[]
  /**
   * Settings whose values stand in its own files, too, for a value of this one: when one of them changes, `write` is
   * called with the same value again. They come before it in the registry.
   */
  embeds?(value: Static<S>): readonly string[]
  /** Why the device has no such setting; undefined where it has. */
  unavailable?(): Promise<string | undefined>
  /**
   * What the system has now.
   * @throws {HalError} where that makes no sense: `fallback` stands in, and a write of any value repairs it.
   */
  read(): Promise<Static<S>>
  fallback(): Promise<Static<S>>
  /** What the schema cannot say; `previous` is what was read last. No side effects. */
  check?(next: Static<S>, previous: Static<S>): Promise<readonly Violation[]>
  /**
   * Makes the value durable in `files`. The same value again changes nothing. A setting that has one file and no `activate`
   * must replace it in one step, because such a change has no journal.
   * @returns whether any file was changed.
   */
  write?(next: Static<S>): Promise<boolean>
  /**
   * Makes the running system use what was written in place of `previous`. The same value again does no harm. To undo a
   * change, its files are put back and this is called with the values swapped. Never called for another root.
   * @param isRewritten Whether any file was changed since the system was last told; true where that is not known.
   */
  activate?(value: Static<S>, previous: Static<S>, isRewritten: boolean): Promise<void>
  /** Reports changes that `files` and `sources` do not show. */
  watch?(changed: () => void): Stop
}

/** Whether a request may change the setting. What no file holds, such as a volume, is changed by `activate` alone. */
export function isWritable({ write, activate }: Setting): boolean {
  return write !== undefined || activate !== undefined
}
