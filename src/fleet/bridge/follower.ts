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
  /** @throws {CommandError} if there is none at the moment. */
  readonly client: () => DeviceClient
  /** @param isWhole Whether it says everything. @throws {CommandError} if a device does not say such things. */
  readonly receive: (data: JsonObject, isWhole: boolean) => void
  readonly opened: () => void
  /** @param error Undefined if the device has ended the stream. */
  readonly lost: (reason: string, error: unknown) => void
  /** The device does not have this, or not for us. */
  readonly absent: (error: Refused) => void
  /** Returns 0 to 1. */
  readonly random: () => number
  readonly signal: AbortSignal
}

/** An event that there never was: the stream begins with everything. */
const BEGINNING = '00000000-0000-0000-0000-000000000000'
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** Characters of an event. A device keeps 1 MiB of all its events. */
export const MAX_EVENT = 128 * 1024
const MAX_RETRY_MS = 60_000
/** Milliseconds of silence after which it is opened anew: two heartbeats and more. */
const SILENCE_MS = 40_000
/** Milliseconds until the device is asked again for what it has refused. */
const ABSENT_MS = 300_000
/** Bytes that are read in a second, and before that at once: a device keeps 1 MiB of all its events. */
const BYTES_PER_S = 256 * 1024
const BURST_BYTES = 2 * 1024 * 1024
/** The cost of an event besides its bytes: 30 of them are worth a second. */
const EVENT_BYTES = 8 * 1024
/** Of what is somebody else's, or that of another version, or of another kind of device. */
const ABSENT = [403, 404, 409]

/** Whether the device does not have what it was asked for, or not for us. */
export function isAbsent(error: unknown): error is Refused {
  return error instanceof Refused && ABSENT.includes(error.status)
}

/** Follows a topic of a device for as long as the program runs. After an interruption it begins with everything. */
export class Follower {
  readonly #options: FollowerOptions
  #cursor = BEGINNING
  #isResync = true
  #failures = 0
  /** Why the device is about to end the stream. */
  #closing = ''

  constructor(options: FollowerOptions) {
    this.#options = options
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
        // A new token is at hand, so the device is not away.
        if (this.#closing === 'expired' && performance.now() - began > STEADY_MS) continue
        lost(`it ended the stream${this.#closing === '' ? '' : `: ${this.#closing}`}`, undefined)
      } catch (error) {
        if (signal.aborted) return
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
    // Not AbortSignal.any, which leaves something behind at the signal of the whole program each time.
    const over = new AbortController()
    const fallSilent = () => over.abort(new CommandError(`it says nothing for ${SILENCE_MS / 1000} s`))
    const stop = () => over.abort(signal.reason)
    const timer = setTimeout(fallSilent, SILENCE_MS)
    signal.addEventListener('abort', stop)
    try {
      const chunks = await client().follow(path, this.#cursor, over.signal)
      const pace = new Pace(BYTES_PER_S, BURST_BYTES, performance.now())
      // Nothing is read meanwhile, so a flood is held up where it comes from.
      const take = async (bytes: number) => {
        const pauseMs = pace.take(bytes, performance.now())
        if (pauseMs > 0) await sleep(pauseMs, undefined, { signal: over.signal })
        timer.refresh()
      }
      let isFirst = true
      for await (const chunk of chunks) {
        timer.refresh()
        const events = parser.push(chunk)
        // Not before something has arrived: a proxy may answer, and swallow the rest.
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
