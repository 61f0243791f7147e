import { Counts } from '../metrics/counts.ts'
import { Histogram } from '../metrics/histogram.ts'
import type { RevertReason } from './trial.ts'

/** The outcome of a change of one setting. */
export type Outcome = 'applied' | 'refused' | 'failed' | 'reverted'

/** Counts the changes of settings, whose names are known. */
export class Tally {
  readonly changes = new Counts(['setting', 'outcome'])
  readonly undos = new Counts(['reason'])
  /** Of all settings of a change together. */
  readonly duration = new Histogram()
  readonly #known: ReadonlySet<string>

  constructor(names: readonly string[]) {
    this.#known = new Set(names)
  }

  /** @param names Names that are not of settings are ignored: clients and the journal may name any. */
  count(outcome: Outcome, names: Iterable<string>): void {
    for (const name of new Set(names)) if (this.#known.has(name)) this.changes.add([name, outcome])
  }

  undone(reason: RevertReason, names: Iterable<string>): void {
    this.undos.add([reason])
    this.count('reverted', names)
  }
}
