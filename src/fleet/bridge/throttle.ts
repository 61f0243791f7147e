/** Milliseconds from one call to the next. */
const PAUSE_MS = 1_000

/** Passes on values at most once a second: the first one at once, and after a pause the latest. Only that one is kept. */
export class Throttle<T> {
  readonly #act: (value: T) => void
  readonly #signal: AbortSignal
  #timer: NodeJS.Timeout | undefined
  #next: { readonly value: T } | undefined

  /** @param signal Ends it: a value that waits by then is dropped. */
  constructor(act: (value: T) => void, signal: AbortSignal) {
    this.#act = act
    this.#signal = signal
  }

  /** @param isUrgent Whether to pass the value on without waiting. */
  pass(value: T, isUrgent = false): void {
    if (this.#signal.aborted) return
    if (this.#timer && !isUrgent) this.#next = { value }
    else this.#pass(value)
  }

  /** Passes on a waiting value at once. */
  flush(): void {
    if (this.#next && !this.#signal.aborted) this.#pass(this.#next.value)
  }

  #pass(value: T): void {
    clearTimeout(this.#timer)
    this.#next = undefined
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.flush()
    }, PAUSE_MS).unref()
    this.#act(value)
  }
}
