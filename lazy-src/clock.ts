/** The wall clock as an argument. What lasts, rather than is dated, runs on timers: those of Node are monotonic. */
export interface Clock {
  /** Milliseconds since 1970. Steps when somebody sets the time. */
  now(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
}
