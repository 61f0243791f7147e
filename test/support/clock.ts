import type { Clock } from '../../src/clock.ts'

/** A clock that is set by hand: the wall time steps, the monotonic one goes on by itself. */
export class ManualClock implements Clock {
  #offset = 0

  /** Moves the wall clock, milliseconds. */
  step(ms: number): void {
    this.#offset += ms
  }

  now(): number {
    return Date.now() + this.#offset
  }

  monotonic(): number {
    return performance.now()
  }
}
