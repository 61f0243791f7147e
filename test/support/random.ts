/** The seed of a property test: the same each time, so that a run says something about the change and not about its luck. */
export const SEED = Number(process.env.SEED ?? 1)

/** A seeded source of randomness (mulberry32), so that failures repeat. */
export class Random {
  readonly seed: number
  #state: number

  constructor(seed: number) {
    this.seed = seed
    this.#state = seed
  }

  /** A number from 0 to 1, excluding 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number from 0 to `below`, excluding `below`. */
  below(below: number): number {
    return Math.floor(this.next() * below)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)]
    if (item === undefined) throw new RangeError('nothing to pick from')
    return item
  }

  /** A text of up to `most` of these pieces. */
  text(pieces: readonly string[], most: number): string {
    return Array.from({ length: this.below(most + 1) }, () => this.pick(pieces)).join('')
  }

  /** Any text without control characters and lone surrogates: a third of it from all of Unicode, the rest ASCII. */
  words(): string {
    let value = ''
    for (let length = 1 + this.below(24); length > 0; length--) {
      const point = this.below(3) === 0 ? this.below(0x110000) : this.below(0x7f)
      const character = String.fromCodePoint(point)
      if (!/\p{Cc}|\p{Cs}/u.test(character)) value += character
    }
    return value || '-'
  }
}
