/** The wall clock, passed as an argument. Durations are measured by timers instead: Node's are monotonic. */
export interface Clock {
  /** Milliseconds since 1970. Jumps when someone sets the time. */
  now(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
}
