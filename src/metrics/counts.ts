import type { Sample } from './exposition.ts'

/** Counts by labels. Whoever adds sees to it that their values are of closed sets: each combination is kept for good. */
export class Counts {
  readonly #names: readonly string[]
  readonly #counts = new Map<string, { readonly values: readonly string[]; count: number }>()

  /** @param known Values of the labels that are listed from the start: the first increase from nothing goes unseen. */
  constructor(names: readonly string[], known: readonly (readonly string[])[] = []) {
    this.#names = names
    for (const values of known) this.add(values, 0)
  }

  /** @param values Of the labels, in their order. */
  add(values: readonly string[], by = 1): void {
    const key = values.join('\n')
    const entry = this.#counts.get(key)
    if (entry) entry.count += by
    else this.#counts.set(key, { values, count: by })
  }

  get samples(): readonly Sample[] {
    return Array.from(this.#counts.values(), ({ values, count }) => ({
      labels: this.#names.map((name, at) => [name, values[at] ?? ''] as const),
      value: count,
    }))
  }
}
