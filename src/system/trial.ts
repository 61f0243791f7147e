import type { Undone } from '../../hal/transaction/transaction.ts'

/** A change that is undone unless it is confirmed in time. */
export class Trial {
  readonly #deadline: NodeJS.Timeout

  /** @param expired Called after `seconds`, unless the trial has ended by then. */
  constructor(seconds: number, expired: (trial: Trial) => void) {
    this.#deadline = setTimeout(() => expired(this), seconds * 1000)
  }

  end(): void {
    clearTimeout(this.#deadline)
  }
}

/** Why a change was undone. */
export type RevertReason = 'not confirmed' | 'restarted'

/** The data of `system.reverted`. */
export function revertedData({ settings, notUndone }: Undone, reason: RevertReason): string {
  return JSON.stringify({ reason, properties: settings, notUndone })
}

/** A sentence that names what a failed or reverted change has left changed. */
export function outcome(notUndone: readonly string[]): string {
  return notUndone.length === 0 ? 'Nothing has changed.' : `Could not be undone: ${notUndone.join(', ')}.`
}
