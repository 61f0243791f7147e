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

/** The unit's script reads the name of the slot from it, too (build/package/judge). */
const TRIAL = '/trial.json'
const VERDICT = '/verdict.json'
const LAST = '/last.json'
/** They belong to root. */
const MODE = 0o600

/**
 * `trial.json`: a version that is being installed, or that runs until it is good or goes back. The version before has
 * written it: members may be added, but none may go, or mean something else.
 */
export const Trial = Type.Object({
  slot: Type.String(),
  version: Type.String(),
  from: Type.String(),
  at: Type.Optional(Type.String()),
  expect: Expectations,
  /** When the device restarts into it; `manual` if it is absent. */
  restart: Type.Optional(Type.Enum(['now', 'window', 'manual'])),
  /** It was found good, and only has to say so. */
  isGood: Type.Optional(Type.Boolean()),
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

/** The records of a trial, in the folder RECEIVERD_UPDATE. */
export class TrialRecords {
  readonly folder: Files

  constructor(folder: Files) {
    this.folder = folder
  }

  /** Undefined if there is none, or if it is damaged. */
  async trial(): Promise<Trial | undefined> {
    return this.#read(TRIAL, Trial)
  }

  /** Whether there is a record, damaged or not. */
  async isTrial(): Promise<boolean> {
    return this.folder.exists(TRIAL)
  }

  /** Before anything is installed: without the record, a version would not have to prove itself. */
  async begin(trial: Trial): Promise<void> {
    // A power cut may have left the verdict on an earlier attempt at the same version.
    await this.folder.remove(VERDICT)
    await this.#write(TRIAL, trial)
  }

  async verdict(): Promise<Verdict | undefined> {
    return this.#read(VERDICT, Verdict)
  }

  /** The judge's reason, before it restarts the device. */
  async condemn(verdict: Verdict): Promise<void> {
    await this.#write(VERDICT, verdict)
  }

  /** The outcome of the last update. */
  async last(): Promise<Outcome | undefined> {
    return this.#read(LAST, Outcome)
  }

  /** Ends the trial: writes `last.json`, then removes `trial.json` and `verdict.json`. The judge calls it with `installed`. */
  async conclude(outcome: Outcome): Promise<void> {
    await this.#write(LAST, outcome)
    await this.remove()
  }

  /** Ends the trial without a word about it, which takes no space. */
  async remove(): Promise<void> {
    await this.folder.remove(TRIAL)
    await this.folder.remove(VERDICT)
  }

  /** Finishes what a power cut interrupted. */
  async recover(): Promise<void> {
    await this.folder.recover(TRIAL, VERDICT, LAST)
  }

  /** Calls `changed` when a trial has begun or ended. */
  watch(changed: () => void): () => void {
    return this.folder.watch(TRIAL, changed)
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
