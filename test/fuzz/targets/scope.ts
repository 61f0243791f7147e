import type { Test } from 'tap'

/** Stands in for a test where support for tests asks for one, to remove what it makes. */
export class Scope {
  readonly #ends: (() => unknown)[] = []

  /** To be passed as a test, of which nothing but `teardown` is used. */
  get test(): Test {
    return { teardown: (end: () => unknown) => void this.#ends.unshift(end) } as unknown as Test
  }

  async end(): Promise<void> {
    for (const end of this.#ends.splice(0)) await end()
  }
}
