import { Histogram } from '../metrics/histogram.ts'

/** Counts the requests of one route by outcome. Counting allocates no memory. */
export class Operation {
  readonly path: string
  readonly method: string
  /** Responses by the first digit of their status. */
  readonly answers = new Float64Array(6)
  /** Time from the head of a request to its response, to the start of its stream, or until it was held. */
  readonly duration = new Histogram()

  /** @param path The path of the route, with its parameters as placeholders. */
  constructor(path: string, method: string) {
    this.path = path
    this.method = method
  }

  answered(status: number): void {
    const digit = Math.floor(status / 100)
    this.answers[digit] = (this.answers[digit] ?? 0) + 1
  }
}
