import { type EventLog, encodeFrame, eventObject, joinArray } from './event-log.ts'

/** The event whose data is a set of properties of the configuration, each with its whole value. */
export const SYSTEM_CHANGED = 'system.changed'
const RESYNC = 'events.resync'
const REASON = '{"reason":"unknown"}'

/**
 * What a client gets whose cursor the log does not hold: that it missed something, then the whole configuration. The
 * first has no id, so that a connection cut between the two resyncs again. Encoded once for all who need it at one id.
 */
export class Resync {
  readonly #log: EventLog
  readonly #configuration: () => string
  #encoded: { readonly id: string; readonly frames: Buffer; readonly array: Buffer } | undefined

  /** @param configuration the whole configuration as JSON, as of the log's latest event. */
  constructor(log: EventLog, configuration: () => string) {
    this.#log = log
    this.#configuration = configuration
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
    const frames = Buffer.concat([encodeFrame(RESYNC, REASON), encodeFrame(SYSTEM_CHANGED, configuration, id)])
    const array = joinArray([
      eventObject(RESYNC, Buffer.from(REASON)),
      eventObject(SYSTEM_CHANGED, Buffer.from(configuration)),
    ])
    this.#encoded = { id, frames, array }
    return this.#encoded
  }
}
