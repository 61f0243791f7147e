import { StringDecoder } from 'node:string_decoder'
import { CommandError } from '../../cli/failure.ts'

export interface StreamEvent {
  /** Empty for an event that cannot be resumed from. */
  readonly id: string
  readonly event: string
  readonly data: string
}

/** Reads a stream of Server-Sent Events (HTML standard, §9.2.6), whose lines end with LF. */
export class EventParser {
  readonly #maxLength: number
  readonly #decoder = new StringDecoder('utf8')
  /** Pieces of the line that has not ended yet. */
  #pieces: string[] = []
  #length = 0
  #fields = { id: '', event: '', data: '' }
  /** Milliseconds that the server asks for before a client connects again; undefined if it has not. */
  retryMs: number | undefined

  /** @param maxLength Limit on an event, in characters. */
  constructor(maxLength: number) {
    this.#maxLength = maxLength
  }

  /** @returns the events that end in this chunk. @throws {CommandError} for an event that is too long. */
  push(chunk: Buffer): readonly StreamEvent[] {
    const events: StreamEvent[] = []
    const [first = '', ...rest] = this.#decoder.write(chunk).split('\n')
    this.#keep(first)
    for (const next of rest) {
      const line = this.#pieces.join('')
      this.#pieces = []
      const event = this.#line(line.endsWith('\r') ? line.slice(0, -1) : line)
      if (event) events.push(event)
      this.#keep(next)
    }
    return events
  }

  #keep(piece: string): void {
    if (piece === '') return
    this.#length += piece.length
    if (this.#length > this.#maxLength) throw new CommandError('its events have no end: it is no receiver')
    this.#pieces.push(piece)
  }

  #line(line: string): StreamEvent | undefined {
    if (line === '') {
      const event = this.#fields
      this.#fields = { id: '', event: '', data: '' }
      this.#length = 0
      return event.event === '' ? undefined : event
    }
    const [, name = '', content = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? []
    if (name === 'retry' && /^\d{1,6}$/.test(content)) this.retryMs = Number(content)
    else if (name === 'id' || name === 'event' || name === 'data') this.#fields[name] = content
    return undefined
  }
}
