import { Check } from 'typebox/schema'
import * as Type from 'typebox/type'
import type { Files } from '../../hal/files/files.ts'
import { parseJson, toJsonLine } from '../json.ts'
import { Outcome } from './state.ts'

/** The parts that worked before the restart into a version on trial, and must work with it. */
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
 * `trial.json`: a version that is being installed, or that is on trial. Another version writes it than reads it, an older or a
 * newer one: members may be added, but none may be removed or change its meaning.
 */
export const Trial = Type.Object({
  slot: Type.String(),
  version: Type.String(),
  from: Type.String(),
  at: Type.Optional(Type.String()),
  expect: Expectations,
  /** The boot during which it was installed, or during which somebody went back to it. */
  bootId: Type.Optional(Type.String()),
  /** When the device restarts into the version; `manual` if absent. */
  restart: Type.Optional(Type.Enum(['now', 'window', 'manual'])),
  /** The version was judged good, but RAUC may not have been told yet. */
  isGood: Type.Optional(Type.Boolean()),
  /** The version is not to be started, but RAUC may not have been told yet. */
  isDiscarded: Type.Optional(Type.Boolean()),
  /** It was not installed: somebody went back to it. */
  isReturn: Type.Optional(Type.Boolean()),
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

/** The reason for going back if somebody asked for it. */
export const ASKED_FOR = 'asked for'

/** The outcome once somebody went back. The judge of an older receiverd writes that the version gone back to was installed. */
export function departure({ from, at }: Trial): Outcome {
  return { version: from, outcome: 'rolled back', reason: ASKED_FOR, ...(at !== undefined && { at }) }
}

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

  /** Writes the record of the trial, before the version can start: without it, the version would not be judged. */
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

  /** Ends the trial: writes its outcome, then removes `trial.json` and `verdict.json`. The judge calls it for a good version. */
  async conclude(outcome: Outcome): Promise<void> {
    await this.note(outcome)
    await this.remove()
  }

  /** Writes an outcome into `refused.json` and `last.json`, while a trial goes on. */
  async note(outcome: Outcome): Promise<void> {
    await this.#noteRefused(outcome)
    await this.#write(LAST, outcome)
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

  /** Keeps a version from being installed unasked. */
  async refuse(version: string): Promise<void> {
    const others = (await this.refused()).filter(each => each !== version)
    await this.#write(REFUSED, { versions: [...others, version].slice(-MAX_REFUSED) })
  }

  async #noteRefused({ version, outcome }: Outcome): Promise<void> {
    if (outcome === 'rolled back' || outcome === 'discarded') return this.refuse(version)
    const refused = await this.refused()
    if (outcome === 'installed' && refused.includes(version))
      await this.#write(REFUSED, { versions: refused.filter(each => each !== version) })
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
