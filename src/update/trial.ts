import * as Type from 'typebox/type'
import type { Files } from '../../hal/files/files.ts'
import type { Outcome } from './state.ts'

/** `trial.json`: a version that is being installed, or that runs until it is good or goes back. */
export const Trial = Type.Object({
  slot: Type.String(),
  version: Type.String(),
  from: Type.String(),
  at: Type.String(),
  expect: Type.Object({ units: Type.Array(Type.String()), screen: Type.Boolean(), address: Type.Boolean() }),
})
export type Trial = Type.Static<typeof Trial>

/** `verdict.json`: why a version on trial was not good. */
export const Verdict = Type.Object({
  slot: Type.String(),
  version: Type.String(),
  reason: Type.String(),
  at: Type.String(),
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
    return undefined
  }
  async begin(_trial: Trial): Promise<void> {}
  /** The judge's reason, before it restarts the device. */
  async condemn(_verdict: Verdict): Promise<void> {}
  /** Ends the trial: writes `last.json`, then removes `trial.json` and `verdict.json`. The judge calls it with `installed`. */
  async conclude(_outcome: Outcome): Promise<void> {}
}
