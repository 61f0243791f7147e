import type { Clock } from '../../src/clock.ts'

/** A wall clock that is set by hand. */
export class ManualClock implements Clock {
  #offset = 0

  /** Moves the wall clock, milliseconds. */
  step(ms: number): void {
    this.#offset += ms
  }

  now(): number {
    return Date.now() + this.#offset
  }
}
