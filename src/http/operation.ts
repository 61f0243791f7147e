import { Histogram } from '../metrics/histogram.ts'

/** Counts the requests of one route by outcome. Counting takes no memory. */
export class Operation {
  readonly path: string
  readonly method: string
  /** Answers by the first digit of their status. */
  readonly answers = new Float64Array(6)
  /** From the head of a request to its answer, to the beginning of its stream, or until it was held. */
  readonly duration = new Histogram()

  /** @param path As the route has it, parameters unfilled. */
  constructor(path: string, method: string) {
    this.path = path
    this.method = method
  }

  answered(status: number): void {
    const digit = Math.floor(status / 100)
    this.answers[digit] = (this.answers[digit] ?? 0) + 1
  }
}
