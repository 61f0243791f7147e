import type { Undone } from '../../hal/transaction/transaction.ts'

/** A change that will be undone unless it is confirmed in time. */
export class Trial {
  /** The ID of the event for the change, which is also the ETag of the response to it. */
  readonly id: string
  /** The names of the changed settings. */
  readonly properties: readonly string[]
  /** Milliseconds of the monotonic clock. */
  readonly #endsAt: number
  readonly #deadline: NodeJS.Timeout

  /** @param expired Called after `seconds`, unless the trial ends earlier. */
  constructor(id: string, properties: readonly string[], seconds: number, expired: (trial: Trial) => void) {
    this.id = id
    this.properties = properties
    this.#endsAt = performance.now() + seconds * 1000
    this.#deadline = setTimeout(() => expired(this), seconds * 1000)
  }

  /** Whole seconds until the change is undone, rounded up. */
  get remainingS(): number {
    return Math.max(0, Math.ceil((this.#endsAt - performance.now()) / 1000))
  }

  end(): void {
    clearTimeout(this.#deadline)
  }
}

/** Why a change was undone. */
export const REVERT_REASONS = ['not confirmed', 'cancelled', 'restarted'] as const
export type RevertReason = (typeof REVERT_REASONS)[number]

/** The data of `system.reverted`. */
export function revertedData({ settings, notUndone }: Undone, reason: RevertReason): string {
  return JSON.stringify({ reason, properties: settings, notUndone })
}

/** Returns a sentence that says what a failed or reverted change left behind. */
export function outcome(notUndone: readonly string[]): string {
  return notUndone.length === 0 ? 'Nothing has changed.' : `Could not be undone: ${notUndone.join(', ')}.`
}
