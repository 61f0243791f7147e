import { moving } from './steady.ts'

/** A value with listeners. */
export class Signal<T> {
  #value: T
  readonly #listeners = new Set<(value: T) => void>()

  constructor(value: T) {
    this.#value = value
  }

  get value(): T {
    return this.#value
  }

  set(value: T): void {
    this.#value = value
    moving(() => {
      for (const listener of this.#listeners) listener(value)
    })
  }

  /** Calls `listener` now, and after every `set`. */
  follow(listener: (value: T) => void): void {
    this.#listeners.add(listener)
    listener(this.#value)
  }
}
