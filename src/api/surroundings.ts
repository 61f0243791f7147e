import type { System } from '../../hal/os/system.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Page } from './built-page.ts'

/** What the service takes from its environment, and what tests may replace. */
export interface Surroundings {
  readonly system: System
  readonly clock: Clock
  readonly log: Log
  /** Returns a number from 0 to 1. */
  readonly random: () => number
  /** Returns a UUID that has never been used before. */
  readonly newId: () => string
  readonly version: string
  /** When the program was built, in milliseconds since 1970. */
  readonly builtAt: number
  /**
   * Resolves once a factory reset is certain, even if the power fails.
   * @param forgetsCard Whether to also discard the settings that the card gave. Otherwise they are applied again.
   */
  readonly orderReset: (forgetsCard: boolean) => Promise<void>
  /** Finishes a factory reset that is certain, and restarts the device. */
  readonly reset: () => void
  /** Undefined if the program runs from its sources. */
  readonly page: Page | undefined
}
