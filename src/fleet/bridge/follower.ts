import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf } from '../../../hal/errors.ts'
import { CommandError } from '../../cli/failure.ts'
import { Refused } from '../../cli/service-client.ts'
import { isObject, type JsonObject, type JsonValue } from '../../json.ts'
import { printable } from '../../log.ts'
import type { DeviceClient } from '../client.ts'
import { EventParser, type StreamEvent } from './event-parser.ts'
import { Pace } from './pace.ts'
import { retryMs, STEADY_MS } from './retry.ts'

export interface FollowerOptions {
  readonly path: string
  /** The name of the event that says what has changed. */
  readonly event: string
  /** @throws {CommandError} if there is no client at the moment. */
  readonly client: () => DeviceClient
  /** @param isWhole Whether `data` is everything, and not only a change. @throws {CommandError} if no receiver would send it. */
  readonly receive: (data: JsonObject, isWhole: boolean) => void
  readonly opened: () => void
  /** @param error Undefined if the device has ended the stream. */
  readonly lost: (reason: string, error: unknown) => void
  /** Called if the device lacks this resource, or denies it to us. */
  readonly absent: (error: Refused) => void
  /** Returns a number from 0 to 1. */
  readonly random: () => number
  readonly signal: AbortSignal
}

/** The ID of an event that never existed: the stream then begins with everything. */
const BEGINNING = '00000000-0000-0000-0000-000000000000'
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** Limit on an event in characters. A device keeps 1 MiB of all its events. */
export const MAX_EVENT = 128 * 1024
const MAX_RETRY_MS = 60_000
/** More than two heartbeats. */
const SILENCE_MS = 40_000
/** Milliseconds until the device is asked again for what it has refused. */
const ABSENT_MS = 300_000
/** Bytes that are read in a second, and in a burst: a device keeps 1 MiB of all its events. */
const BYTES_PER_S = 256 * 1024
const BURST_BYTES = 2 * 1024 * 1024
/** The cost of an event besides its bytes: about 30 events take a second. */
const EVENT_BYTES = 8 * 1024
/** Statuses of a resource that is denied to us, or that this version or kind of device lacks. */
const ABSENT = [403, 404, 409]

/** Whether the device lacks a resource, or denies it to us. */
export function isAbsent(error: unknown): error is Refused {
  return error instanceof Refused && ABSENT.includes(error.status)
}

/** A stream that was heard says nothing any longer. */
class Silence extends CommandError {}

/** Follows a topic of a device for as long as the program runs. After an interruption it begins with everything. */
export class Follower {
  readonly #options: FollowerOptions
  readonly #silenceMs: number
  #cursor = BEGINNING
  #isResync = true
  #failures = 0
  /** Why the device is about to end the stream. */
  #closing = ''

  /** @param silenceMs Milliseconds of silence after which the stream is opened again. */
  constructor(options: FollowerOptions, silenceMs = SILENCE_MS) {
    this.#options = options
    this.#silenceMs = silenceMs
  }

  /** Resolves when the signal is aborted. */
  async run(): Promise<void> {
    const { signal, lost, absent, random } = this.#options
    while (!signal.aborted) {
      const parser = new EventParser(MAX_EVENT)
      const began = performance.now()
      let pauseMs: number | undefined
      try {
        await this.#read(parser)
        // A new token is available, so the device does not count as offline.
        if (this.#closing === 'expired' && performance.now() - began > STEADY_MS) continue
        lost(`it ended the stream${this.#closing === '' ? '' : `: ${this.#closing}`}`, undefined)
      } catch (error) {
        if (signal.aborted) return
        // The device may be configured for rare heartbeats. If it is gone, the next attempt fails.
        if (error instanceof Silence) continue
        if (isAbsent(error)) {
          absent(error)
          pauseMs = ABSENT_MS
        } else lost(error instanceof CommandError ? error.message : reasonOf(error), error)
      }
      this.#cursor = BEGINNING
      this.#isResync = true
      if (performance.now() - began > STEADY_MS) this.#failures = 0
      pauseMs ??= retryMs(this.#failures, MAX_RETRY_MS, random, parser.retryMs)
      this.#failures++
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined)
    }
  }

  /** Resolves when the device has ended the stream. */
  async #read(parser: EventParser): Promise<void> {
    const { path, client, opened, signal } = this.#options
    this.#closing = ''
    // Not AbortSignal.any, which would leave something behind on the program's own signal each time.
    const over = new AbortController()
    let isFirst = true
    const fallSilent = () => {
      const why = `it says nothing for ${this.#silenceMs / 1000} s`
      over.abort(isFirst ? new CommandError(why) : new Silence(why))
    }
    const stop = () => over.abort(signal.reason)
    const timer = setTimeout(fallSilent, this.#silenceMs)
    signal.addEventListener('abort', stop)
    try {
      const chunks = await client().follow(path, this.#cursor, over.signal)
      const pace = new Pace(BYTES_PER_S, BURST_BYTES, performance.now())
      // Nothing is read in the meantime, so a flood is held up at its source.
      const take = async (bytes: number) => {
        const pauseMs = pace.take(bytes, performance.now())
        if (pauseMs > 0) await sleep(pauseMs, undefined, { signal: over.signal })
        timer.refresh()
      }
      for await (const chunk of chunks) {
        timer.refresh()
        const events = parser.push(chunk)
        // Only once something has arrived: a proxy may answer, and swallow the rest.
        if (isFirst) opened()
        isFirst = false
        for (const event of events) {
          this.#receive(event)
          await take(EVENT_BYTES)
        }
        await take(chunk.length)
      }
    } catch (error) {
      throw over.signal.aborted ? over.signal.reason : error
    } finally {
      signal.removeEventListener('abort', stop)
      clearTimeout(timer)
    }
  }

  #receive({ id, event, data }: StreamEvent): void {
    const value = parsed(data)
    if (event === 'events.resync') this.#isResync = true
    else if (event === 'events.closed') {
      const reason = isObject(value) ? value.reason : undefined
      this.#closing = typeof reason === 'string' ? printable(reason.slice(0, 64)) : ''
    } else if (event === this.#options.event) {
      if (!isObject(value)) throw new CommandError('its events are not those of a receiver')
      this.#options.receive(value, this.#isResync)
      this.#isResync = false
    }
    if (UUID.test(id)) this.#cursor = id
  }
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
