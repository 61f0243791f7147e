import { setTimeout as sleep } from 'node:timers/promises'

/** Milliseconds until a test gives up on an effect: far more than it takes on a busy machine. */
export const DEADLINE_MS = Number(process.env.TEST_DEADLINE_MS ?? 60_000)

/** The first and the longest pause between two looks. A look may be a command on a machine, which also needs the processors. */
const FIRST_PAUSE_MS = 5
const LONGEST_PAUSE_MS = 100
/** An effect that takes a second is seen at most 50 ms late. */
const PAUSE_OF_WAITED = 0.05

/** Calls `look` until it finds something, and returns that. Rejects if it finds nothing within `ms`. */
export async function eventually<T>(
  look: () => T | false | undefined | Promise<T | false | undefined>,
  ms = DEADLINE_MS,
): Promise<T> {
  const began = performance.now()
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    const waited = performance.now() - began
    if (waited > ms) throw new Error(`not within ${ms} ms: ${look}`)
    await sleep(Math.min(Math.max(FIRST_PAUSE_MS, PAUSE_OF_WAITED * waited), LONGEST_PAUSE_MS))
  }
}
