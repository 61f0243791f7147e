import { isDeepStrictEqual } from 'node:util'
import type { Static, TSchema } from 'typebox/type'
import type { Image } from './files/image.ts'
import type { Stop } from './files/watcher.ts'

/** A refused part of a value: an RFC 6901 pointer into the value, and what would be accepted, without a final period. */
export interface Violation {
  readonly pointer: string
  readonly detail: string
}

/** Accepted values for each string of a value: a list, or an object of the same shape. */
export type Choices = readonly string[] | { readonly [name: string]: Choices }

/**
 * One setting of the device, which is one top-level property of its configuration.
 *
 * A change has two steps, so that one mechanism can undo any setting: `write` changes only the files named in `files`, which
 * are captured first and restored if anything fails. `activate` makes the running system act on the files, and does so again
 * after they are restored.
 */
export interface Setting<S extends TSchema = TSchema> {
  readonly name: string
  /** Describes the values that are accepted and read. A stored value that does not match is treated as unreadable. */
  readonly schema: S
  /** The files that hold the value. They may depend on what `unavailable` and `read` find on the device. */
  readonly files: readonly string[]
  /** Paths in `files` that the setting creates and removes as links: their targets belong to others, and are not captured. */
  readonly links?: readonly string[]
  /**
   * Reports whether a path that is not in `files` now may have been in it when a change was made, for example with other
   * hardware. An undo may restore such a path.
   */
  mayHave?(path: string): boolean
  /** Files that the setting reads besides `files`. */
  readonly sources?: readonly string[]
  /** Settings on which the value depends: it is read again after one of them is written. */
  readonly dependsOn?: readonly string[]
  /**
   * For a writable setting without `activate`: why the running system need not be notified of a new value. The contract
   * suite requires one or the other.
   */
  readonly withoutActivate?: string
  /**
   * Returns the settings whose values are embedded in this setting's files if it has this value: when one of them changes,
   * `write` is called again with the same value. They precede this setting in the registry.
   */
  embeds?(value: Static<S>): readonly string[]
  /** Reports whether the files hold outdated values of those settings. Required with `embeds`. */
  isEmbeddedStale?(): Promise<boolean>
  /** Returns why the device does not have this setting; undefined if it has. */
  unavailable?(): Promise<string | undefined>
  /**
   * Returns the current value of the system.
   * @throws {HalError} if none can be read: `fallback` then replaces it, and writing any value repairs it.
   */
  read(): Promise<Static<S>>
  fallback(): Promise<Static<S>>
  /** Checks what the schema cannot express. `previous` is the value read last. Has no side effects. */
  check?(next: Static<S>, previous: Static<S>): Promise<readonly Violation[]>
  /** Returns values that the device accepts where the schema cannot list them; undefined if they cannot be determined. */
  choices?(): Promise<Choices | undefined>
  /**
   * Makes the value durable in `files`. Writing the same value again changes nothing. A setting with one file and no
   * `activate` must replace that file in one step, because such a change is not journaled.
   * @param previous The value read last: a member that follows another setting, and is the same in both, was not set.
   * @returns whether any file changed.
   */
  write?(next: Static<S>, previous?: Static<S>): Promise<boolean>
  /**
   * Makes the running system use `value` instead of `previous`. Calling it again is harmless. To undo a change, the files
   * are restored and this is called with the values swapped. Never called for another root.
   * @param isRewritten Whether any file has changed since the system last acted on them; true if unknown.
   */
  activate?(value: Static<S>, previous: Static<S>, isRewritten: boolean): Promise<void>
  /**
   * Kernel subsystems, such as `sound`, on whose devices the setting depends. When a device is added, removed or changed,
   * the setting is read again, or looked for again if it was unavailable.
   */
  readonly devices?: readonly string[]
  /** Reports changes that `files`, `sources` and `devices` do not show. Called while the setting is available. */
  watch?(changed: () => void): Stop
}

/** How to undo the change of one setting. */
export interface Undo {
  readonly setting: string
  /** The values before and after the change, for `Setting.activate`. */
  readonly previous: unknown
  readonly next: unknown
  /** The previous contents of the setting's files. */
  readonly images: readonly Image[]
}

/** Reports whether requests may change the setting. A setting that no file holds, such as the volume, has only `activate`. */
export function isWritable({ write, activate }: Setting): boolean {
  return write !== undefined || activate !== undefined
}

/** Returns the value, or the fallback if it cannot be read. */
export async function currentValue<S extends TSchema>(setting: Setting<S>): Promise<Static<S>> {
  return setting.read().catch(() => setting.fallback())
}

/** Returns the violation at `pointer`; none if `detail` is undefined. */
export function refuse(pointer: string, detail: string | undefined): readonly Violation[] {
  return detail === undefined ? [] : [{ pointer, detail }]
}

/** Returns a violation for each of these properties that changed. */
export function whyReadOnly<T>(names: readonly (keyof T & string)[], next: T, previous: T): readonly Violation[] {
  return names
    .filter(name => !isDeepStrictEqual(next[name], previous[name]))
    .map(name => ({ pointer: `/${name}`, detail: 'read-only' }))
}
