import type { Undone } from '../../hal/transaction/transaction.ts'

/** A change that is undone unless it is confirmed in time. */
export class Trial {
  /** Of the event that the change was, which is the ETag of the answer to it. */
  readonly id: string
  /** The settings that it has changed. */
  readonly properties: readonly string[]
  /** Of the monotonic clock, in milliseconds. */
  readonly #endsAt: number
  readonly #deadline: NodeJS.Timeout

  /** @param expired Called after `seconds`, unless the trial has ended by then. */
  constructor(id: string, properties: readonly string[], seconds: number, expired: (trial: Trial) => void) {
    this.id = id
    this.properties = properties
    this.#endsAt = performance.now() + seconds * 1000
    this.#deadline = setTimeout(() => expired(this), seconds * 1000)
  }

  /** Whole seconds until it is undone, rounded up. */
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

/** A sentence that names what a failed or reverted change has left changed. */
export function outcome(notUndone: readonly string[]): string {
  return notUndone.length === 0 ? 'Nothing has changed.' : `Could not be undone: ${notUndone.join(', ')}.`
}
