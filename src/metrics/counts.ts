import type { Sample } from './exposition.ts'

/** Counts by labels. Label values must come from closed sets, because each combination is kept forever. */
export class Counts {
  readonly #names: readonly string[]
  readonly #counts = new Map<string, { readonly values: readonly string[]; count: number }>()

  constructor(names: readonly string[]) {
    this.#names = names
  }

  /** @param values The values of the labels, in order. */
  add(values: readonly string[]): void {
    const key = values.join('\n')
    const entry = this.#counts.get(key)
    if (entry) entry.count++
    else this.#counts.set(key, { values, count: 1 })
  }

  get samples(): readonly Sample[] {
    return Array.from(this.#counts.values(), ({ values, count }) => ({
      labels: this.#names.map((name, at) => [name, values[at] ?? ''] as const),
      value: count,
    }))
  }
}
