import { isDeepStrictEqual } from 'node:util'
import { reasonOf } from '../../hal/errors.ts'
import { Serial } from '../../hal/serial.ts'
import { POLL_MS } from '../limits.ts'
import { Complaint, type Log } from '../log.ts'
import type { SystemStore } from './store.ts'

export interface FollowOptions<T> {
  /** The configuration, unless the value depends on other sources alone. */
  readonly configuration?: SystemStore
  /** Derives the value. */
  readonly derive: () => T
  /** Applies the value. Called at once, whenever the value changes, and again a while after it has thrown. */
  readonly apply: (derived: T) => Promise<void>
  /** A clause for the log, which says what failed if `apply` throws. */
  readonly failure: string
  readonly log: Log
  /** Registers a function to be called whenever other sources change. */
  readonly onOther?: ((refresh: () => void) => void) | undefined
  /** Milliseconds until `apply` is called again after it has thrown. */
  readonly retryMs?: number
}

/** Keeps something in sync with the configuration, or with other sources. */
export function follow<T>(options: FollowOptions<T>): void {
  const { configuration, derive, apply, failure, log, onOther, retryMs = POLL_MS } = options
  const queue = new Serial()
  const complaint = new Complaint(log)
  /** The value that is in effect; undefined if that is unknown. */
  let applied: { readonly value: T } | undefined
  let retry: NodeJS.Timeout | undefined
  const refresh = () => {
    // A waiting refresh will see this change, too.
    if (queue.length > 1) return
    queue
      .run(async () => {
        const value = derive()
        if (applied && isDeepStrictEqual(value, applied.value)) return
        // If this throws, part of it may be done.
        applied = undefined
        await apply(value)
        applied = { value }
        complaint.end()
      })
      .catch(error => {
        complaint.say(`${failure}: ${reasonOf(error)}`)
        clearTimeout(retry)
        retry = setTimeout(refresh, retryMs).unref()
      })
  }
  configuration?.topic.log.onAppend(refresh)
  onOther?.(refresh)
  refresh()
}
