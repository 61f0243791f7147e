import { type EventLog, encodeFrame, eventObject, joinArray } from './event-log.ts'

/** The event whose data is a set of properties of the configuration, each with its whole value. */
export const SYSTEM_CHANGED = 'system.changed'
/** Something was undone because nobody confirmed it; its data names the properties, and why. */
export const SYSTEM_REVERTED = 'system.reverted'
const RESYNC = 'events.resync'
const REASON = '{"reason":"unknown"}'

/**
 * What a client gets whose cursor the log does not hold: that it missed something, what the start of this run undid, then
 * the whole configuration. Only the last has an id, so that a connection cut before it resyncs again. Encoded once for
 * all who need it at one id.
 */
export class Resync {
  readonly #log: EventLog
  readonly #configuration: () => string
  readonly #notices: readonly (readonly [event: string, data: string, id?: string])[]
  #encoded: { readonly id: string; readonly frames: Buffer; readonly array: Buffer } | undefined

  /**
   * @param configuration the whole configuration as JSON, as of the log's latest event.
   * @param undone the data of the `system.reverted` for what the start undid; undefined where that was nothing.
   */
  constructor(log: EventLog, configuration: () => string, undone?: string) {
    this.#log = log
    this.#configuration = configuration
    this.#notices = [[RESYNC, REASON], ...(undone === undefined ? [] : [[SYSTEM_REVERTED, undone] as const])]
  }

  /** For a stream. Its cursor is the log's head then. */
  get frames(): Buffer {
    return this.#encode().frames
  }

  /** For a poll. */
  get array(): Buffer {
    return this.#encode().array
  }

  #encode() {
    const id = this.#log.latestId
    if (this.#encoded?.id === id) return this.#encoded
    const configuration = this.#configuration()
    const events = [...this.#notices, [SYSTEM_CHANGED, configuration, id] as const]
    const frames = Buffer.concat(events.map(event => encodeFrame(...event)))
    const array = joinArray(events.map(([event, data]) => eventObject(event, Buffer.from(data))))
    this.#encoded = { id, frames, array }
    return this.#encoded
  }
}
