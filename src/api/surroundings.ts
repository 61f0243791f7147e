import type { System } from '../../hal/os/system.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Page } from './built-page.ts'

/** Everything that the service takes from outside and that a test may replace. */
export interface Surroundings {
  readonly system: System
  readonly clock: Clock
  readonly log: Log
  /** Returns 0 to 1. */
  readonly random: () => number
  /** Returns a UUID that was never used before. */
  readonly newId: () => string
  readonly version: string
  /** When the program was built, in milliseconds since 1970. */
  readonly builtAt: number
  /**
   * From when this resolves a factory reset is certain, whatever happens to the power.
   * @param forgetsCard Whether what the card gave is removed, too. Otherwise it is taken again.
   */
  readonly orderReset: (forgetsCard: boolean) => Promise<void>
  /** Called once a factory reset is certain: finishes it, and restarts the device. */
  readonly reset: () => void
  /** Undefined in a program that runs from its sources. */
  readonly page: Page | undefined
}
