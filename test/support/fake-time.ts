import type { Clock } from '../../src/clock.ts'
import type { Wait } from '../../src/update/wait.ts'

interface Timer {
  readonly due: () => void
  readonly at: number
}

/** A clock and its timers, which advance when a test says so. */
export class FakeTime implements Clock {
  /** Milliseconds of the longest timer that was requested. */
  longest = 0
  readonly #timers = new Set<Timer>()
  #monotonic = 0
  #offset: number

  constructor(now: number) {
    this.#offset = now
  }

  now(): number {
    return this.#monotonic + this.#offset
  }

  /** Sets the clock. This does not affect timers. */
  set(now: number): void {
    this.#offset = now - this.#monotonic
  }

  readonly wait: Wait = (ms, due) => {
    this.longest = Math.max(this.longest, ms)
    const timer = { due, at: this.#monotonic + ms }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Lets time pass, and runs the timers that are due, one after the other. */
  async pass(ms: number): Promise<void> {
    const end = this.#monotonic + ms
    const settled = () => new Promise(resolve => setImmediate(resolve))
    await settled()
    for (;;) {
      const [next] = [...this.#timers].sort((a, b) => a.at - b.at)
      if (!next || next.at > end) break
      this.#timers.delete(next)
      this.#monotonic = next.at
      next.due()
      await settled()
    }
    this.#monotonic = end
  }
}
