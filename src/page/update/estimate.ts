import * as texts from '../texts.ts'

/** Milliseconds of which nothing can be told yet. */
const FIRST_MS = 3_000

/** Says how long something still takes, by how fast it has gone since it was first seen. */
export class Estimate {
  #first: { readonly at: number; readonly done: number } | undefined

  /** @param done Of `total`, in any unit; 0 of 0 begins anew. @param now In milliseconds. */
  left(done: number, total: number, now: number): string {
    if (!this.#first || total === 0 || done < this.#first.done) this.#first = { at: now, done }
    const elapsedMs = now - this.#first.at
    const gone = done - this.#first.done
    if (elapsedMs < FIRST_MS || gone === 0) return ''
    return texts.timeLeft(Math.round(((elapsedMs / gone) * (total - done)) / 60_000))
  }
}
