import { Counts } from '../metrics/counts.ts'
import { Histogram } from '../metrics/histogram.ts'
import type { RevertReason } from './trial.ts'

/** The outcome of a change of one setting. */
export type Outcome = 'applied' | 'refused' | 'failed' | 'reverted'

/** Counts the changes of known settings. */
export class Tally {
  readonly changes = new Counts(['setting', 'outcome'])
  readonly undos = new Counts(['reason'])
  /** Durations of changes, each with all its settings together. */
  readonly duration = new Histogram()
  readonly #known: ReadonlySet<string>

  constructor(names: readonly string[]) {
    this.#known = new Set(names)
  }

  /** @param names Names. Those of unknown settings are ignored, because clients and the journal may contain any name. */
  count(outcome: Outcome, names: Iterable<string>): void {
    for (const name of new Set(names)) if (this.#known.has(name)) this.changes.add([name, outcome])
  }

  undone(reason: RevertReason, names: Iterable<string>): void {
    this.undos.add([reason])
    this.count('reverted', names)
  }
}
