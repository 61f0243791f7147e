import { PacedTopic } from '../events/paced-topic.ts'
import type { Topic, TopicOptions } from '../events/topic.ts'
import { UPDATE_PUBLISH_MS } from '../limits.ts'
import { Problem } from '../problem.ts'
import type { UpdateState } from './state.ts'

/** Members to replace; undefined removes a member. */
export type Change = { readonly [name in keyof UpdateState]?: UpdateState[name] | undefined }

/** The state of the update, and its topic, with at most one event a second. */
export class StateTopic {
  readonly #paced: PacedTopic
  /** Undefined if the device cannot be updated. */
  #state: UpdateState | undefined

  constructor(ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>) {
    const read = () => this.state
    this.#paced = new PacedTopic({ name: 'update', grant: 'admin:r', read, paceMs: UPDATE_PUBLISH_MS, ...ring })
  }

  get topic(): Topic {
    return this.#paced.topic
  }

  /** Sets the initial state, without an event. */
  begin(state: UpdateState): void {
    this.#state = state
  }

  /** Whether the device can be updated. */
  get hasBegun(): boolean {
    return this.#state !== undefined
  }

  /** @throws {Problem} 409 if the device cannot be updated. */
  get state(): UpdateState {
    if (!this.#state) throw new Problem('conflict', 'This device cannot be updated this way.')
    return this.#state
  }

  set(change: Change): void {
    const members = Object.entries({ ...this.state, ...change }).filter(([, value]) => value !== undefined)
    this.#state = Object.fromEntries(members) as UpdateState
    this.#paced.changed()
  }

  /** The state as JSON, and the id of the event with that state. @throws {Problem} as `state` */
  get current(): PacedTopic['current'] {
    return this.#paced.current
  }

  stop(): void {
    this.#paced.stop()
  }
}
