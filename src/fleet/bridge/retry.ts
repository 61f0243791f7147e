/** Milliseconds that a connection lasts if the other side is well: after one that has lasted, the pauses begin anew. */
export const STEADY_MS = 10_000
const FIRST_MS = 1_000
const MAX_DOUBLINGS = 16

/**
 * Milliseconds until the next attempt to connect: longer after each failure, and different for each of many.
 * @param failures Attempts in a row that have failed before the last one.
 * @param random Returns 0 to 1.
 * @param leastMs What the other side has asked for.
 */
export function retryMs(failures: number, maxMs: number, random: () => number, leastMs = 0): number {
  const doubled = FIRST_MS * 2 ** Math.min(failures, MAX_DOUBLINGS)
  return Math.min(maxMs, Math.max(leastMs, doubled)) * (0.5 + random())
}
