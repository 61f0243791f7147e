import type { Static, TSchema } from 'typebox/type'
import type { Stop } from './files/watcher.ts'

/** A refused part of a value: an RFC 6901 pointer into the value, and what would be accepted. */
export interface Refusal {
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
  /** Files that it reads beside `files`. */
  readonly sources?: readonly string[]
  /** Settings that its value falls back on: it is read again when one of them was written. */
  readonly dependsOn?: readonly string[]
  /**
   * Settings whose values stand in its own files, too, for a value of this one: when one of them changes, `write` is
   * called with the same value again. They come before it in the registry.
   */
  follows?(value: Static<S>): readonly string[]
  /** Why the device has no such setting; undefined where it has. */
  unavailable?(): Promise<string | undefined>
  /**
   * What the system has now.
   * @throws {Unreadable} where that makes no sense: `fallback` stands in, and a write of any value repairs it.
   */
  read(): Promise<Static<S>>
  fallback(): Promise<Static<S>>
  /** What the schema cannot say; `previous` is what was read last. No side effects. */
  check?(next: Static<S>, previous: Static<S>): Promise<readonly Refusal[]>
  /**
   * Makes the value durable; the same value again changes nothing. A setting without it is read-only. With one file, it is
   * one replacement of it: there is no journal for that where nothing is activated.
   */
  write?(next: Static<S>): Promise<void>
  /**
   * Makes the running system take up what was written in place of `previous`; the same value again does no harm. Called
   * once more, the other way round, after the files of a failed change were put back. Never for another root.
   */
  activate?(value: Static<S>, previous: Static<S>): Promise<void>
  /** Tells of changes that `files` and `sources` do not show. */
  watch?(changed: () => void): Stop
}
