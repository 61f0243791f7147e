import { toJsonLine } from '../json.ts'
import { Topic, type TopicOptions } from './topic.ts'

export interface PacedTopicOptions extends Omit<TopicOptions, 'snapshot' | 'isBusy'> {
  /** The whole resource as it is now. */
  readonly read: () => object
  /** Milliseconds between two events, at least. */
  readonly paceMs: number
}

/** The topic of a resource that may change at any rate: an event has the whole of it, and may stand for several changes. */
export class PacedTopic {
  readonly topic: Topic
  readonly #read: () => object
  readonly #paceMs: number
  #json: string | undefined
  /** Whether there are changes that no event has told. */
  #isDirty = false
  #publishing: NodeJS.Timeout | undefined

  constructor({ read, paceMs, ...options }: PacedTopicOptions) {
    this.#read = read
    this.#paceMs = paceMs
    this.topic = new Topic({ ...options, snapshot: () => this.#text() })
  }

  /** To be called after each change: the event comes at once, or when it may. */
  changed(): void {
    this.#json = undefined
    this.#isDirty = true
    if (!this.#publishing) this.#publish()
  }

  /** The resource as JSON, and the id of the event that says the same. */
  get current(): { readonly id: string; readonly json: string } {
    if (this.#isDirty) this.#publish()
    return { id: this.topic.latestId, json: this.#text() }
  }

  stop(): void {
    clearTimeout(this.#publishing)
  }

  #publish(): void {
    clearTimeout(this.#publishing)
    this.#isDirty = false
    this.topic.changed(this.#text())
    this.#publishing = setTimeout(() => {
      this.#publishing = undefined
      if (this.#isDirty) this.#publish()
    }, this.#paceMs).unref()
  }

  #text(): string {
    this.#json ??= toJsonLine(this.#read())
    return this.#json
  }
}
