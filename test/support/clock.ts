import type { Clock } from '../../src/clock.ts'

/** A wall clock that a test can step. */
export class ManualClock implements Clock {
  #offset = 0

  /** Steps the clock by `ms` milliseconds. */
  step(ms: number): void {
    this.#offset += ms
  }

  now(): number {
    return Date.now() + this.#offset
  }
}
