/** Runs tasks one after the other, in the order of the calls; a failed task does not stop those behind it. */
export class Serial {
  #tail: Promise<unknown> = Promise.resolve()
  #length = 0

  /** Tasks that wait or run. */
  get length(): number {
    return this.#length
  }

  run<T>(task: () => Promise<T>): Promise<T> {
    this.#length++
    const result = this.#tail.then(task).finally(() => this.#length--)
    this.#tail = result.catch(() => undefined)
    return result
  }
}
