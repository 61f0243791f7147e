import { Check } from 'typebox/schema'
import * as Type from 'typebox/type'
import type { Files } from '../../hal/files/files.ts'
import { parseJson, toJsonLine } from '../json.ts'
import { Outcome } from './state.ts'

/** The parts that worked when an update was installed, and must work with the new version. */
export const Expectations = Type.Object({
  units: Type.Array(Type.String(), { description: 'The units that were active.' }),
  screen: Type.Boolean({ description: 'Whether a monitor was connected.' }),
  interfaces: Type.Array(Type.String(), { description: 'The interfaces that had an address others can reach.' }),
})
export type Expectations = Type.Static<typeof Expectations>

/** The script of the judge's unit also reads the slot name from this file (build/package/judge). */
const TRIAL = '/trial.json'
const VERDICT = '/verdict.json'
const LAST = '/last.json'
const REFUSED = '/refused.json'
/** More than a device is likely to be offered again. */
const MAX_REFUSED = 16
/** The files belong to root. */
const MODE = 0o600

/**
 * `trial.json`: a version that is being installed, or that is on trial. The previous version writes it and the new one reads it:
 * members may be added, but none may be removed or change its meaning.
 */
export const Trial = Type.Object({
  slot: Type.String(),
  version: Type.String(),
  from: Type.String(),
  at: Type.Optional(Type.String()),
  expect: Expectations,
  /** The boot during which it was installed. */
  bootId: Type.Optional(Type.String()),
  /** When the device restarts into the version; `manual` if absent. */
  restart: Type.Optional(Type.Enum(['now', 'window', 'manual'])),
  /** The version was judged good, but RAUC may not have been told yet. */
  isGood: Type.Optional(Type.Boolean()),
  /** The version is not to be started, but RAUC may not have been told yet. */
  isDiscarded: Type.Optional(Type.Boolean()),
})
export type Trial = Type.Static<typeof Trial>

/** `verdict.json`: why a version on trial was not good. */
export const Verdict = Type.Object({
  slot: Type.String(),
  version: Type.String(),
  reason: Type.String(),
  at: Type.Optional(Type.String()),
})
export type Verdict = Type.Static<typeof Verdict>

/** `refused.json`: the versions that were rolled back or discarded, the latest last, except those that were installed since. */
const Refused = Type.Object({ versions: Type.Array(Type.String()) })

/** The records of a trial, in the folder RECEIVERD_UPDATE. */
export class TrialRecords {
  readonly folder: Files

  constructor(folder: Files) {
    this.folder = folder
  }

  /** Returns the record of the trial; undefined if there is none, or if it is damaged. */
  async trial(): Promise<Trial | undefined> {
    return this.#read(TRIAL, Trial)
  }

  /** Reports whether a record of a trial exists, damaged or not. */
  async isTrial(): Promise<boolean> {
    return this.folder.exists(TRIAL)
  }

  /** Writes the record of the trial, before the installation: without it, the version would not be judged. */
  async begin(trial: Trial): Promise<void> {
    // A power cut may have left the verdict on an earlier attempt at the same version.
    await this.folder.remove(VERDICT)
    await this.#write(TRIAL, trial)
  }

  async verdict(): Promise<Verdict | undefined> {
    return this.#read(VERDICT, Verdict)
  }

  /** Writes the verdict. The judge calls it before it restarts the device. */
  async condemn(verdict: Verdict): Promise<void> {
    await this.#write(VERDICT, verdict)
  }

  /** Returns the outcome of the last update, if any. */
  async last(): Promise<Outcome | undefined> {
    return this.#read(LAST, Outcome)
  }

  /** Returns the versions that must not be installed unasked. A damaged record counts as none: it must not end all updates. */
  async refused(): Promise<readonly string[]> {
    return (await this.#read(REFUSED, Refused).catch(() => undefined))?.versions ?? []
  }

  /**
   * Ends the trial: writes `refused.json` and `last.json`, then removes `trial.json` and `verdict.json`. The judge calls it with
   * `installed`.
   */
  async conclude(outcome: Outcome): Promise<void> {
    await this.#noteRefused(outcome)
    await this.#write(LAST, outcome)
    await this.remove()
  }

  /** Ends the trial without writing its outcome, which needs no space. */
  async remove(): Promise<void> {
    await this.folder.remove(TRIAL)
    await this.folder.remove(VERDICT)
  }

  /** Finishes writes that a power cut interrupted. */
  async recover(): Promise<void> {
    await this.folder.recover(TRIAL, VERDICT, LAST, REFUSED)
  }

  /** Calls `changed` whenever a trial begins or ends. Returns a function that stops that. */
  watch(changed: () => void): () => void {
    return this.folder.watch(TRIAL, changed)
  }

  async #noteRefused({ version, outcome }: Outcome): Promise<void> {
    const refused = await this.refused()
    const others = refused.filter(each => each !== version)
    const isRefused = outcome === 'rolled back' || outcome === 'discarded'
    if (isRefused) await this.#write(REFUSED, { versions: [...others, version].slice(-MAX_REFUSED) })
    else if (outcome === 'installed' && others.length < refused.length) await this.#write(REFUSED, { versions: others })
  }

  async #write(path: string, value: object): Promise<void> {
    await this.folder.writeAtomic(path, `${toJsonLine(value)}\n`, MODE)
  }

  async #read<T extends Type.TSchema>(path: string, schema: T): Promise<Type.Static<T> | undefined> {
    const bytes = await this.folder.readBytes(path)
    if (bytes === undefined) return undefined
    try {
      const value: unknown = parseJson(bytes)
      return Check(schema, value) ? value : undefined
    } catch {
      return undefined
    }
  }
}
