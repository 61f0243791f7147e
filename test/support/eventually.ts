import { setTimeout as sleep } from 'node:timers/promises'

/** Milliseconds until a test gives up on what must happen: far more than it takes on a busy machine. */
export const DEADLINE_MS = Number(process.env.TEST_DEADLINE_MS ?? 15_000)

const LOOK_MS = 5

/** Looks until there is something, and returns it. Rejects if there is still nothing after `ms`. */
export async function eventually<T>(
  look: () => T | false | undefined | Promise<T | false | undefined>,
  ms = DEADLINE_MS,
): Promise<T> {
  const deadline = performance.now() + ms
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${look}`)
    await sleep(LOOK_MS)
  }
}
