import { isDeepStrictEqual } from 'node:util'
import { reasonOf } from '../../hal/errors.ts'
import { Serial } from '../../hal/serial.ts'
import { POLL_MS } from '../limits.ts'
import { Complaint, type Log } from '../log.ts'
import type { SystemStore } from './store.ts'

export interface FollowOptions<T> {
  readonly configuration: SystemStore
  /** Derives a value from the configuration. */
  readonly derive: () => T
  /** Applies the value. Called at once, whenever the value changes, and again a while after it has thrown. */
  readonly apply: (derived: T) => Promise<void>
  /** A clause for the log, which says what failed if `apply` throws. */
  readonly failure: string
  readonly log: Log
  /** Registers a function to be called whenever other sources change. */
  readonly onOther?: ((refresh: () => void) => void) | undefined
}

/** Keeps something in sync with the configuration. */
export function follow<T>({ configuration, derive, apply, failure, log, onOther }: FollowOptions<T>): void {
  const queue = new Serial()
  const complaint = new Complaint(log)
  let applied: T | undefined
  let retry: NodeJS.Timeout | undefined
  const refresh = () => {
    // A waiting refresh will see this change, too.
    if (queue.length > 1) return
    queue
      .run(async () => {
        const derived = derive()
        if (isDeepStrictEqual(derived, applied)) return
        await apply(derived)
        applied = derived
        complaint.end()
      })
      .catch(error => {
        complaint.say(`${failure}: ${reasonOf(error)}`)
        clearTimeout(retry)
        retry = setTimeout(refresh, POLL_MS).unref()
      })
  }
  configuration.topic.log.onAppend(refresh)
  onOther?.(refresh)
  refresh()
}
