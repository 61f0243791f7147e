import { CLIENT_WARNING_MS, MAX_WARNED_CLIENTS } from '../limits.ts'
import type { Log } from '../log.ts'

interface Warned {
  /** Number of warnings since the last line. */
  count: number
  latest: string
}

const OTHERS = 'others'

/**
 * Logs warnings about clients, at most one line per minute for each: the first at once, then the number of further ones.
 * Beyond a limit, the remaining clients share their lines.
 */
export class ClientWarnings {
  readonly #log: Log
  readonly #periodMs: number
  readonly #warned = new Map<string, Warned>()

  constructor(log: Log, periodMs = CLIENT_WARNING_MS) {
    this.#log = log
    this.#periodMs = periodMs
  }

  /**
   * @param network The network under which the client is counted.
   * @param text A log line with the client's address but without its credential.
   */
  warn(network: string, text: string): void {
    const isKnown = this.#warned.has(network) || this.#warned.size < MAX_WARNED_CLIENTS
    const key = isKnown ? network : OTHERS
    const warned = this.#warned.get(key)
    if (warned) {
      warned.count++
      warned.latest = text
      return
    }
    this.#log('warning', text)
    const first = { count: 0, latest: text }
    this.#warned.set(key, first)
    this.#schedule(key, first)
  }

  #schedule(key: string, warned: Warned): void {
    setTimeout(() => {
      if (warned.count === 0) return void this.#warned.delete(key)
      const whose = key === OTHERS ? 'from other clients ' : ''
      this.#log('warning', `${warned.latest} (the last of ${warned.count} ${whose}in ${this.#periodMs / 1000} s)`)
      warned.count = 0
      this.#schedule(key, warned)
    }, this.#periodMs).unref()
  }
}
