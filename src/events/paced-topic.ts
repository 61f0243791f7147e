import { toJsonLine } from '../json.ts'
import { Topic, type TopicOptions } from './topic.ts'

export interface PacedTopicOptions extends Omit<TopicOptions, 'snapshot' | 'isBusy'> {
  /** Returns the whole current resource. */
  readonly read: () => object
  /** Minimum milliseconds between two events. */
  readonly paceMs: number
}

/** The topic of a resource that may change at any rate: an event has the whole resource, and may cover several changes. */
export class PacedTopic {
  readonly topic: Topic
  readonly #read: () => object
  readonly #paceMs: number
  #json: string | undefined
  /** Whether changes have not been published in an event yet. */
  #isDirty = false
  #publishing: NodeJS.Timeout | undefined

  constructor({ read, paceMs, ...options }: PacedTopicOptions) {
    this.#read = read
    this.#paceMs = paceMs
    this.topic = new Topic({ ...options, snapshot: () => this.#text() })
  }

  /** Must be called after each change. The event follows at once, or as soon as the pace allows. */
  changed(): void {
    this.#json = undefined
    this.#isDirty = true
    if (!this.#publishing) this.#publish()
  }

  /** The resource as JSON, and the id of the event with the same content. */
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
