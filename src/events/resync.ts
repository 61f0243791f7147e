import { type EventLog, encodeFrame, eventObject, joinArray } from './event-log.ts'

const RESYNC = 'events.resync'
const REASON = '{"reason":"unknown"}'

/**
 * The events for a client whose cursor is not in the log: a notice that it missed something, then the whole resource. Only
 * the last event has an id, so a connection that breaks in between resyncs again. Encoded once for all clients at one id.
 */
export class Resync {
  readonly #log: EventLog
  readonly #changed: string
  readonly #snapshot: () => string
  /** Events sent before the whole resource. */
  #reports: readonly (readonly [event: string, data: string])[] = [[RESYNC, REASON]]
  #given = 0
  #encoded: { readonly id: string; readonly frames: Buffer; readonly array: Buffer } | undefined

  /**
   * @param changed The name of the event that carries the whole resource.
   * @param snapshot Returns the whole resource as JSON, as of the log's latest event.
   */
  constructor(log: EventLog, changed: string, snapshot: () => string) {
    this.#log = log
    this.#changed = changed
    this.#snapshot = snapshot
  }

  /** Adds an event to every resync, between `events.resync` and the whole resource. */
  report(event: string, data: string): void {
    this.#reports = [...this.#reports, [event, data]]
    this.#encoded = undefined
  }

  /** Removes the events added by `report`. */
  forgetReports(): void {
    this.#reports = [[RESYNC, REASON]]
    this.#encoded = undefined
  }

  /** Number of resyncs so far. */
  get given(): number {
    return this.#given
  }

  /** The frames for a stream, whose cursor is the head of the log from then on. */
  get frames(): Buffer {
    return this.#encode().frames
  }

  /** The JSON array for a poll. */
  get array(): Buffer {
    return this.#encode().array
  }

  #encode() {
    this.#given++
    const id = this.#log.latestId
    if (this.#encoded?.id === id) return this.#encoded
    const whole = this.#snapshot()
    const frames = [
      ...this.#reports.map(([event, data]) => encodeFrame(event, data)),
      encodeFrame(this.#changed, whole, id),
    ]
    const objects = [
      ...this.#reports.map(([event, data]) => eventObject(event, Buffer.from(data))),
      eventObject(this.#changed, Buffer.from(whole), id),
    ]
    this.#encoded = { id, frames: Buffer.concat(frames), array: joinArray(objects) }
    return this.#encoded
  }
}
