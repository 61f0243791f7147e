/** The ring: the latest events, encoded once, with a UUID each. Everything that a client reads comes out of here. */

import { MAX_BATCH_BYTES } from '../limits.ts'

/** How many events came before: the place of the start's own id is 0, of the first event 1. */
export type Position = number

interface Entry {
  readonly id: string
  /** The event as an SSE block, `id:` line to blank line. Shared by every socket, never written to again. */
  readonly frame: Buffer
  /** Where the data begins in it. It ends before the two line feeds that close the block. */
  readonly dataAt: number
  readonly name: string
}

/** Events from the ring, encoded for a client, in one piece of at most `MAX_BATCH_BYTES`. */
export interface Batch {
  readonly from: Position
  /** The latest event at the time of the reading. */
  readonly head: Position
  /** The last event in it. */
  readonly next: Position
  readonly bytes: Buffer
}

export interface EventLogOptions {
  readonly maxEvents: number
  /** Bytes of all frames together. */
  readonly maxBytes: number
  /** A UUID that was never used before, also not by an earlier run. */
  readonly newId: () => string
}

export const CONTENT_TYPE = 'application/json'
const COMMA = Buffer.from(',')
const OPEN = Buffer.from('[')
const CLOSE = Buffer.from(']')
const END = Buffer.from('}')

export class EventLog {
  readonly #options: EventLogOptions
  /** Entry of position p at p modulo the length. */
  readonly #ring: (Entry | undefined)[]
  /** Places of the ids that can be resumed from: of the kept events, and of the one before them. */
  readonly #positions = new Map<string, Position>()
  readonly #listeners = new Set<() => void>()
  #oldestId: string
  #latestId: string
  #head: Position = 0
  #tail: Position = 0
  #bytes = 0
  /** The last batches, kept for the other readers at the same place: a burst is joined once for all of them. */
  #lastFrames: Batch | undefined
  #lastArray: Batch | undefined

  constructor(options: EventLogOptions) {
    this.#options = options
    this.#ring = new Array<Entry | undefined>(options.maxEvents).fill(undefined)
    this.#oldestId = this.#latestId = options.newId()
    this.#positions.set(this.#latestId, 0)
  }

  /** The id of the latest event; before the first, the start's own. */
  get latestId(): string {
    return this.#latestId
  }

  get head(): Position {
    return this.#head
  }

  /** Whether every event after `position` is still kept. */
  holds(position: Position): boolean {
    return position >= this.#tail
  }

  /** The place of an id; undefined for one whose successors are gone, or that was never given out here. */
  positionOf(id: string): Position | undefined {
    return this.#positions.get(id)
  }

  /** Appends an event and wakes the readers. `data` is its JSON text. */
  append(name: string, data: string): void {
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
  }

  /** Calls `listener` after each event. It must not take long, nor throw. */
  onAppend(listener: () => void): void {
    this.#listeners.add(listener)
  }

  /** The frames after `from` in one piece. */
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

  /** The events after `from` as a JSON array of event objects. */
  array(from: Position): Batch {
    const last = this.#lastArray
    if (last?.from === from && last.head === this.#head) return last
    const entries = this.#entriesAfter(from)
    const bytes = joinArray(entries.map(({ name, frame, dataAt }) => eventObject(name, frame.subarray(dataAt, -2))))
    this.#lastArray = {
      from,
      head: this.#head,
      next: from + entries.length,
      bytes,
    }
    return this.#lastArray
  }

  /** The id of the event at `position`; it must be kept. */
  idAt(position: Position): string {
    return position === this.#tail ? this.#oldestId : this.#entry(position).id
  }

  /** At least one where there is one, and no more than fit into `MAX_BATCH_BYTES`. */
  #entriesAfter(from: Position): Entry[] {
    const entries: Entry[] = []
    for (let position = from + 1, size = 0; position <= this.#head; position++) {
      const entry = this.#entry(position)
      size += entry.frame.length
      if (entries.length > 0 && size > MAX_BATCH_BYTES) break
      entries.push(entry)
    }
    return entries
  }

  #entry(position: Position): Entry {
    const entry = this.#ring[position % this.#ring.length]
    if (!entry || position <= this.#tail) throw new RangeError('this event is no longer kept')
    return entry
  }

  #isFull(): boolean {
    return this.#head - this.#tail >= this.#ring.length
  }

  #evict(): void {
    this.#positions.delete(this.#oldestId)
    this.#tail++
    const slot = this.#tail % this.#ring.length
    const evicted = this.#ring[slot]
    if (!evicted) return
    this.#ring[slot] = undefined
    this.#bytes -= evicted.frame.length
    this.#oldestId = evicted.id
  }
}

/**
 * An SSE block. `data` is JSON, so it has no line end in it that could begin another field (RFC 8259 §7). It has memory of
 * its own: a place in Node's pool of small buffers would keep all 8 KiB of that for as long as the event is kept.
 */
export function encodeFrame(name: string, data: string, id?: string): Buffer {
  const text = `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${data}\n\n`
  const frame = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  frame.write(text)
  return frame
}

/** An element of a poll's answer. */
export function eventObject(name: string, data: Uint8Array): Buffer {
  const head = `{"contentType":"${CONTENT_TYPE}","event":${JSON.stringify(name)},"data":`
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
