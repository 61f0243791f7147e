import { Serial } from '../../hal/serial.ts'
import type { Authenticator, Credential } from '../auth/authenticator.ts'
import { Problem } from '../problem.ts'

/** @returns a 503 that asks for another attempt soon. @param detail What other requests are doing. */
export function busy(detail: string): Problem {
  return new Problem('unavailable', detail, { headers: ['Retry-After', '1'] })
}

/** Runs requests that each start a process one at a time, and lets only a few wait. */
export class Turns {
  readonly #queue = new Serial()
  readonly #max: number
  readonly #authenticator: Authenticator
  readonly #busy: string

  /** @param busy The detail of the 503: what other requests are doing. */
  constructor(max: number, authenticator: Authenticator, busy: string) {
    this.#max = max
    this.#authenticator = authenticator
    this.#busy = busy
  }

  /** @throws {Problem} 503 if too many requests wait; 401 if the credential was revoked in the meantime. */
  async run<T>(credential: Credential, act: () => Promise<T>): Promise<T> {
    if (this.#queue.length >= this.#max) throw busy(this.#busy)
    return this.#queue.run(() => {
      this.#authenticator.recheck(credential)
      return act()
    })
  }
}
