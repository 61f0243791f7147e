/** Milliseconds after which a connection counts as stable. After a stable connection, the pauses start over. */
export const STEADY_MS = 10_000
const FIRST_MS = 1_000
const MAX_DOUBLINGS = 16

/**
 * Milliseconds until the next attempt to connect: longer after each failure, and random, so that many do not connect at once.
 * @param failures Attempts in a row that failed before the last one.
 * @param random Returns a number from 0 to 1.
 * @param leastMs The pause that the other side asked for.
 */
export function retryMs(failures: number, maxMs: number, random: () => number, leastMs = 0): number {
  const doubled = FIRST_MS * 2 ** Math.min(failures, MAX_DOUBLINGS)
  return Math.min(maxMs, Math.max(leastMs, doubled)) * (0.5 + random())
}
