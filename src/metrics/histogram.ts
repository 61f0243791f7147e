/** Upper bounds in seconds: from a GET, which takes 20 µs, to a change that waits for a slow disk. */
export const BOUNDS: readonly number[] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5]

/** A histogram of durations. Its size is fixed, so observing allocates no memory. */
export class Histogram {
  /** Observations by bucket; the last bucket counts those above all bounds. */
  readonly counts = new Float64Array(BOUNDS.length + 1)
  #sum = 0

  /** Sum of all observations, in seconds. */
  get sum(): number {
    return this.#sum
  }

  /** Whether nothing has been observed. */
  get isEmpty(): boolean {
    return this.counts.every(count => count === 0)
  }

  observe(seconds: number): void {
    let at = 0
    while (seconds > (BOUNDS[at] ?? Number.POSITIVE_INFINITY)) at++
    this.counts[at] = (this.counts[at] ?? 0) + 1
    this.#sum += seconds
  }
}
