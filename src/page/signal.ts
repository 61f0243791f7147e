import { moving } from './steady.ts'

/** A value that others follow. */
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

  /** Calls it now, and after every change. */
  follow(listener: (value: T) => void): void {
    this.#listeners.add(listener)
    listener(this.#value)
  }
}
