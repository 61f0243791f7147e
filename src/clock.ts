/** Time as an argument: the wall clock for what is dated, the monotonic one for what lasts. */
export interface Clock {
  /** Wall clock, milliseconds since 1970. Steps when somebody sets the time. */
  now(): number
  /** Milliseconds since an arbitrary moment; never steps. */
  monotonic(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
}
