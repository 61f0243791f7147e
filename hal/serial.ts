/** Runs tasks one at a time, in the order of the calls. A task that fails does not affect later ones. */
export class Serial {
  #tail: Promise<unknown> = Promise.resolve()
  #length = 0

  /** Number of tasks that are waiting or running. */
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
