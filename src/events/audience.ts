import type { Reader } from './reader.ts'
import type { Topic } from './topic.ts'

/** Milliseconds below which a wake is too short to rest after. */
const SHORT_WAKE_MS = 1

/**
 * The readers of one topic, woken together: once for all events of a turn of the event loop, so that a burst costs each
 * reader one write. While more changes are waiting, the audience rests for as long as the last wake took. Without the
 * rest, each PATCH of a burst would wait until all readers had received the one before it. With 10,000 streams and 64
 * concurrent PATCHes, that is six times slower.
 */
export class Audience {
  readonly #topic: Topic
  readonly #forEach: (readers: Iterable<Reader>, act: (reader: Reader) => void) => void
  readonly #readers = new Set<Reader>()
  #next: NodeJS.Immediate | undefined
  #isResting = false
  /** Whether events must be delivered when the rest is over. */
  #isAwaited = false

  /** @param forEach Calls `act` for each reader whose credential is still valid, and ends the others. */
  constructor(topic: Topic, forEach: (readers: Iterable<Reader>, act: (reader: Reader) => void) => void) {
    this.#topic = topic
    this.#forEach = forEach
    topic.log.onAppend(() => this.#scheduleWake())
  }

  [Symbol.iterator](): Iterator<Reader> {
    return this.#readers.values()
  }

  add(reader: Reader): void {
    this.#readers.add(reader)
  }

  /** @returns whether the reader was in the audience. */
  delete(reader: Reader): boolean {
    return this.#readers.delete(reader)
  }

  #scheduleWake(): void {
    if (this.#readers.size === 0) return
    if (this.#isResting && this.#topic.isBusy()) this.#isAwaited = true
    else this.#next ??= setImmediate(() => this.#wake())
  }

  #wake(): void {
    this.#next = undefined
    this.#isAwaited = false
    const start = performance.now()
    this.#forEach(this.#readers, reader => reader.wake())
    const restMs = performance.now() - start
    if (restMs < SHORT_WAKE_MS || this.#isResting) return
    this.#isResting = true
    setTimeout(() => {
      this.#isResting = false
      if (this.#isAwaited) this.#wake()
    }, restMs)
  }
}
