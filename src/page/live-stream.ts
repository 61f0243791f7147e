import { type Client, isRefusedForNow, Refusal } from './client.ts'
import { parseEvents, type ServerEvent } from './event-source.ts'

/** `connecting`: the page was hidden, and nothing has been heard since. `refused`: the device refuses the credential for now. */
export type StreamState = 'connected' | 'connecting' | 'lost' | 'refused'

export interface LiveStreamOptions {
  readonly client: Client
  readonly path: string
  /** The id of the event to resume from. */
  readonly cursor: string
  readonly receive: (event: ServerEvent) => void
  /** @param why The reason of the device for `refused`. */
  readonly changed: (state: StreamState, why?: string) => void
  /** Called after each reconnection, also if nothing was heard before: the page is older than that. */
  readonly returned: () => void
  /** Called when the credential is refused for good. */
  readonly refused: (why: string) => void
}

const FIRST_RETRY_MS = 1_000
const MAX_RETRY_MS = 30_000
/** Milliseconds to wait for the first bytes of a connection, and of silence before a reconnection: over two heartbeats. */
const FIRST_SIGN_MS = 10_000
const SILENCE_MS = 40_000

/** Follows a topic while the page is visible, and resumes at the last event after every interruption. */
export class LiveStream {
  readonly #options: LiveStreamOptions
  #cursor: string
  #retryMs = FIRST_RETRY_MS
  #failures = 0
  #attempt: AbortController | undefined
  readonly #over = new AbortController()
  #timer = 0
  #silence = 0
  /** Whether there was a connection, an attempt at one, or a time without, before the present one. */
  #isRepeated = false
  /** Whether the present connection was heard. */
  #isHeard = false

  constructor(options: LiveStreamOptions) {
    this.#options = options
    this.#cursor = options.cursor
    const { signal } = this.#over
    document.addEventListener('visibilitychange', this.#updateVisibility, { signal })
    addEventListener('pagehide', this.#leave, { signal })
    addEventListener('pageshow', this.#updateVisibility, { signal })
    addEventListener('online', this.retry, { signal })
    this.#updateVisibility()
  }

  /** Connects now if a reconnection is pending. */
  readonly retry = (): void => {
    if (this.#timer) this.#connect()
  }

  /**
   * Reconnects: the device did not answer another request, so this connection may be dead, or the last one that the browser
   * accepts. An attempt to connect goes on.
   */
  doubt(): void {
    if (!this.#isHeard) return
    this.#options.changed('lost')
    this.#connect()
  }

  end(): void {
    this.#over.abort()
    this.#leave()
  }

  /** Disconnects while the tab is hidden: a browser has only six connections to a device, for all tabs. */
  readonly #updateVisibility = (): void => {
    if (document.visibilityState === 'hidden') {
      this.#leave()
      // The phone may wake in another place: what it knows may be old. So it may in a tab that was opened in the background.
      this.#isRepeated = true
      this.#options.changed('connecting')
    } else if (!this.#attempt) this.#connect()
  }

  readonly #leave = (): void => {
    clearTimeout(this.#timer)
    clearTimeout(this.#silence)
    this.#timer = 0
    this.#isHeard = false
    this.#attempt?.abort()
    this.#attempt = undefined
  }

  async #connect(): Promise<void> {
    this.#leave()
    const attempt = new AbortController()
    this.#attempt = attempt
    const { client, path, changed, returned, refused } = this.#options
    let isReturn = this.#isRepeated
    this.#isRepeated = true
    try {
      this.#listenForSilence(attempt, FIRST_SIGN_MS, () => this.#lost())
      const headers = { Accept: 'text/event-stream', 'Last-Event-ID': this.#cursor }
      const { body } = await client.send('GET', path, { headers, signal: attempt.signal })
      if (!body || attempt.signal.aborted) return
      // An answer without data does not count: a proxy may answer, and swallow the rest.
      const heard = () => {
        // The device may be configured for rare heartbeats, so silence only leads to a new connection, not to `lost`.
        this.#listenForSilence(attempt, SILENCE_MS, () => this.#connect())
        this.#failures = 0
        changed('connected')
        this.#isHeard = true
        if (isReturn) returned()
        isReturn = false
      }
      for await (const event of parseEvents(body, heard)) {
        if (attempt.signal.aborted) return
        if ('retryMs' in event) this.#retryMs = event.retryMs
        else this.#receive(event)
      }
    } catch (error) {
      if (attempt.signal.aborted) return
      if (isRefusedForNow(error)) return this.#lost('refused', error.message)
      if (error instanceof Refusal && (error.status === 401 || error.status === 403)) return refused(error.message)
    }
    if (this.#attempt === attempt) this.#lost()
  }

  #receive(event: ServerEvent): void {
    if (event.id) this.#cursor = event.id
    this.#options.receive(event)
  }

  /** Schedules a reconnection: after the delay that the device asks for, plus a random one that grows with each failure. */
  #lost(state: StreamState = 'lost', why?: string): void {
    this.#leave()
    if (this.#over.signal.aborted) return
    this.#options.changed(state, why)
    // The clock may be set at any moment.
    if (state === 'refused') this.#failures = 0
    const most = Math.min(MAX_RETRY_MS, this.#retryMs * 2 ** this.#failures++)
    this.#timer = setTimeout(() => this.#connect(), this.#retryMs + Math.random() * most)
  }

  /** Calls `act` after `ms` of silence: a connection that was cut silently looks like an idle one. */
  #listenForSilence(attempt: AbortController, ms: number, act: () => void): void {
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => {
      if (this.#attempt === attempt) act()
    }, ms)
  }
}
