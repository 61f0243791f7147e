import * as texts from '../texts.ts'

/** Milliseconds of progress that are needed for an estimate. */
const FIRST_MS = 3_000

/** Estimates the time left of a task from its speed since the first call. */
export class Estimate {
  #first: { readonly at: number; readonly done: number } | undefined

  /** @param done Progress toward `total`, in any unit; a total of 0 starts over. @param now In milliseconds. */
  left(done: number, total: number, now: number): string {
    if (!this.#first || total === 0 || done < this.#first.done) this.#first = { at: now, done }
    const elapsedMs = now - this.#first.at
    const gone = done - this.#first.done
    if (elapsedMs < FIRST_MS || gone === 0) return ''
    return texts.timeLeft(Math.round(((elapsedMs / gone) * (total - done)) / 60_000))
  }
}
