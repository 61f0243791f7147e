/** Limits how much is taken in a second, but allows bursts: a leaky bucket. */
export class Pace {
  readonly #perMs: number
  readonly #burst: number
  #level = 0
  #at: number

  /** @param now Milliseconds, monotonic. */
  constructor(perS: number, burst: number, now: number) {
    this.#perMs = perS / 1000
    this.#burst = burst
    this.#at = now
  }

  /** @returns milliseconds to wait before more is taken. */
  take(amount: number, now: number): number {
    this.#level = Math.max(0, this.#level - (now - this.#at) * this.#perMs) + amount
    this.#at = now
    return Math.max(0, this.#level - this.#burst) / this.#perMs
  }
}
