/** The ring: the latest events of a topic, each encoded once under a UUID. Everything that clients read comes from it. */

import { MAX_BATCH_BYTES } from '../limits.ts'

/** The number of an event: the initial id of the log has position 0, the first event 1. */
export type Position = number

interface LoggedEvent {
  readonly id: string
  /** The event as an SSE block, from the `id:` line to the blank line. Shared by all sockets and never modified. */
  readonly frame: Buffer
  /** Offset of the data in the frame. The data ends before the two line feeds that end the block. */
  readonly dataAt: number
  readonly name: string
}

/** Events from the ring, encoded in one piece of at most `MAX_BATCH_BYTES`, unless it is a single event. */
export interface Batch {
  readonly from: Position
  /** The latest event at the time of reading. */
  readonly head: Position
  /** The position of the last event in the batch. */
  readonly next: Position
  readonly bytes: Buffer
}

export interface EventLogOptions {
  readonly maxEvents: number
  /** Maximum total size of the frames. */
  readonly maxBytes: number
  /** Returns a UUID that has never been used before, not even by an earlier run. */
  readonly newId: () => string
}

export const CONTENT_TYPE = 'application/json'
const COMMA = Buffer.from(',')
const OPEN = Buffer.from('[')
const CLOSE = Buffer.from(']')
const END = Buffer.from('}')

export class EventLog {
  readonly #options: EventLogOptions
  /** The entry for position p is at index p modulo the length. */
  readonly #ring: (LoggedEvent | undefined)[]
  /** Positions by id, for the ids that clients can resume from: those of the kept events, and the one before them. */
  readonly #positions = new Map<string, Position>()
  readonly #listeners = new Set<() => void>()
  #oldestId: string
  #latestId: string
  #head: Position = 0
  #tail: Position = 0
  #bytes = 0
  /** The last batches, cached for other readers at the same position: a burst is joined once for all of them. */
  #lastFrames: Batch | undefined
  #lastArray: Batch | undefined

  constructor(options: EventLogOptions) {
    this.#options = options
    this.#ring = new Array<LoggedEvent | undefined>(options.maxEvents).fill(undefined)
    this.#oldestId = this.#latestId = options.newId()
    this.#positions.set(this.#latestId, 0)
  }

  /** The id of the latest event; before the first event, the initial id of the log. */
  get latestId(): string {
    return this.#latestId
  }

  get head(): Position {
    return this.#head
  }

  /** Number of events that are no longer kept. */
  get evicted(): number {
    return this.#tail
  }

  /** Whether every event after `position` is still kept. */
  holds(position: Position): boolean {
    return position >= this.#tail
  }

  /** Returns the position of an id; undefined if events after it were evicted, or if it is not an id of this log. */
  positionOf(id: string): Position | undefined {
    return this.#positions.get(id)
  }

  /** Appends an event with the JSON text `data`, wakes the readers, and returns its id. */
  append(name: string, data: string): string {
    const id = this.#options.newId()
    const frame = encodeFrame(name, data, id)
    const entry = { id, frame, name, dataAt: frame.length - 2 - Buffer.byteLength(data) }
    while (this.#head > this.#tail && (this.#isFull() || this.#bytes + frame.length > this.#options.maxBytes))
      this.#evict()
    this.#head++
    this.#ring[this.#head % this.#ring.length] = entry
    this.#positions.set(id, this.#head)
    this.#bytes += frame.length
    this.#latestId = id
    for (const listener of this.#listeners) listener()
    return id
  }

  /** Calls `listener` after each event. The listener must be quick, and must not throw. */
  onAppend(listener: () => void): void {
    this.#listeners.add(listener)
  }

  /** Returns the frames after `from` in one piece. */
  frames(from: Position): Batch {
    const last = this.#lastFrames
    if (last?.from === from && last.head === this.#head) return last
    const entries = this.#entriesAfter(from)
    const [only, ...more] = entries
    const bytes = only && more.length === 0 ? only.frame : Buffer.concat(entries.map(entry => entry.frame))
    this.#lastFrames = {
      from,
      head: this.#head,
      next: from + entries.length,
      bytes,
    }
    return this.#lastFrames
  }

  /** Returns the events after `from` as a JSON array of event objects. */
  array(from: Position): Batch {
    const last = this.#lastArray
    if (last?.from === from && last.head === this.#head) return last
    const entries = this.#entriesAfter(from)
    const bytes = joinArray(
      entries.map(({ id, name, frame, dataAt }) => eventObject(name, frame.subarray(dataAt, -2), id)),
    )
    this.#lastArray = {
      from,
      head: this.#head,
      next: from + entries.length,
      bytes,
    }
    return this.#lastArray
  }

  /** Returns the id at a position that the log holds. */
  idAt(position: Position): string {
    return position === this.#tail ? this.#oldestId : this.#entry(position).id
  }

  /** Returns the entries that fit into `MAX_BATCH_BYTES`, but at least one if any exists. */
  #entriesAfter(from: Position): LoggedEvent[] {
    const entries: LoggedEvent[] = []
    for (let position = from + 1, size = 0; position <= this.#head; position++) {
      const entry = this.#entry(position)
      size += entry.frame.length
      if (entries.length > 0 && size > MAX_BATCH_BYTES) break
      entries.push(entry)
    }
    return entries
  }

  #entry(position: Position): LoggedEvent {
    const entry = this.#ring[position % this.#ring.length]
    if (!entry || position <= this.#tail) throw new RangeError('this event was evicted')
    return entry
  }

  #isFull(): boolean {
    return this.#head - this.#tail >= this.#ring.length
  }

  #evict(): void {
    const { id, frame } = this.#entry(this.#tail + 1)
    this.#tail++
    this.#ring[this.#tail % this.#ring.length] = undefined
    this.#bytes -= frame.length
    this.#positions.delete(this.#oldestId)
    this.#oldestId = id
  }
}

/**
 * Encodes an SSE block. `data` is JSON text without line ends, so it cannot begin another field (RFC 8259 §7). The buffer is
 * not from Node's pool: a slice of the pool would keep all 8 KiB of it alive for as long as the event is kept.
 */
export function encodeFrame(name: string, data: string, id?: string): Buffer {
  const text = `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${data}\n\n`
  const frame = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  frame.write(text)
  return frame
}

/** Encodes an event as an element of the response to a poll. */
export function eventObject(name: string, data: Uint8Array, id?: string): Buffer {
  const named = id === undefined ? '' : `"id":"${id}",`
  const head = `{${named}"contentType":"${CONTENT_TYPE}","event":${JSON.stringify(name)},"data":`
  return Buffer.concat([Buffer.from(head), data, END])
}

export function joinArray(objects: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [OPEN]
  for (const [at, object] of objects.entries()) {
    if (at > 0) parts.push(COMMA)
    parts.push(object)
  }
  return Buffer.concat([...parts, CLOSE])
}
