/** The wall clock, passed as an argument. Durations are measured by timers instead: Node's are monotonic. */
export interface Clock {
  /** Milliseconds since 1970. Jumps when someone sets the time. */
  now(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
}

/** In seconds since 1970. RFC 3339 §1: years have four digits. */
export const LAST_SECOND = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000

/** RFC 3339 in UTC, without fractions of a second. @param ms Milliseconds since 1970. */
export function rfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '')
}
