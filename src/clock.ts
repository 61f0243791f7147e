/** The wall clock, passed as an argument. Durations are measured by timers instead: Node's are monotonic. */
export interface Clock {
  /** Milliseconds since 1970. Jumps when someone sets the time. */
  now(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
}

/** RFC 3339 in UTC, without fractions of a second. @param ms Milliseconds since 1970. */
export function rfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '')
}
