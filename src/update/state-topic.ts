import { Topic, type TopicOptions } from '../events/topic.ts'
import { toJsonLine } from '../json.ts'
import { UPDATE_PUBLISH_MS } from '../limits.ts'
import { Problem } from '../problem.ts'
import type { UpdateState } from './state.ts'

/** Members to replace; those that are undefined go. */
export type Change = { readonly [name in keyof UpdateState]?: UpdateState[name] | undefined }

/** The state of the update and the topic that it is followed by, with at most one event a second. */
export class StateTopic {
  readonly topic: Topic
  /** Undefined if the device cannot be updated. */
  #state: UpdateState | undefined
  #json: string | undefined
  /** Whether there are changes that no event has told. */
  #isDirty = false
  #publishing: NodeJS.Timeout | undefined

  constructor(ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>) {
    this.topic = new Topic({ name: 'update', grant: 'admin:r', snapshot: () => this.#text(), ...ring })
  }

  /** The state that clients begin with. */
  begin(state: UpdateState): void {
    this.#state = state
  }

  /** @throws {Problem} 409 if the device cannot be updated. */
  get state(): UpdateState {
    if (!this.#state) throw new Problem('conflict', 'This device cannot be updated this way.')
    return this.#state
  }

  set(change: Change): void {
    const members = Object.entries({ ...this.state, ...change }).filter(([, value]) => value !== undefined)
    this.#state = Object.fromEntries(members) as UpdateState
    this.#json = undefined
    this.#isDirty = true
    if (!this.#publishing) this.#publish()
  }

  /** The state as JSON, and the id of the event that says the same. */
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
    }, UPDATE_PUBLISH_MS).unref()
  }

  #text(): string {
    this.#json ??= toJsonLine(this.state)
    return this.#json
  }
}
