/** Runs signature verifications off the event loop, a few at a time. The others wait, within limits. */
import { AddressCount } from '../address-count.ts'
import { MAX_SIGNATURES_PER_ADDRESS, MAX_VERIFYING, MAX_WAITING_SIGNATURES } from '../limits.ts'
import { Problem } from '../problem.ts'

/** Seconds after which a refused client may try again. */
const RETRY_AFTER_S = '1'

export class Verifications {
  readonly #places = new AddressCount(MAX_SIGNATURES_PER_ADDRESS)
  readonly #waiting: (() => void)[] = []
  #running = 0

  /**
   * Runs a verification when its turn has come.
   * @param network The network under which the client is counted.
   * @throws {Problem} 503 if too many verifications wait, of this client or in total.
   */
  run<T>(network: string, verify: () => Promise<T>): Promise<T> {
    if (!this.#places.hasRoom(network)) throw busy('Too many new tokens of this address are being verified.')
    if (this.#waiting.length >= MAX_WAITING_SIGNATURES) throw busy('Too many new tokens are being verified.')
    return this.#run(network, verify)
  }

  async #run<T>(network: string, verify: () => Promise<T>): Promise<T> {
    this.#places.enter(network)
    try {
      if (this.#running < MAX_VERIFYING) this.#running++
      // A verification that ends hands over its place.
      else await new Promise<void>(resolve => this.#waiting.push(resolve))
      return await verify()
    } finally {
      this.#places.leave(network)
      const next = this.#waiting.shift()
      if (next) next()
      else this.#running--
    }
  }
}

function busy(detail: string): Problem {
  return new Problem('unavailable', detail, { headers: ['Retry-After', RETRY_AFTER_S] })
}
