import type { Watch } from './watch.ts'

/** How many devices are looked at concurrently, which limits the answers in memory. */
const AT_ONCE = 20
const EVERY_MS = 30_000

/** Looks at all devices periodically, and at each one on request. */
export class Looks {
  readonly #waiting = new Set<Watch>()
  readonly #all: readonly Watch[]
  #active = 0
  #timer: NodeJS.Timeout | undefined

  constructor(all: readonly Watch[]) {
    this.#all = all
  }

  start(): void {
    this.#timer = setInterval(() => {
      for (const watch of this.#all) if (watch.state.isOnline) this.ask(watch)
    }, EVERY_MS)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#waiting.clear()
  }

  ask(watch: Watch): void {
    this.#waiting.add(watch)
    this.#next()
  }

  #next(): void {
    for (const watch of this.#waiting) {
      if (this.#active >= AT_ONCE) return
      this.#waiting.delete(watch)
      this.#active++
      watch.look().finally(() => {
        this.#active--
        this.#next()
      })
    }
  }
}
