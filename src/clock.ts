/** The wall clock, passed as an argument. Durations are measured with timers instead, which are monotonic in Node. */
export interface Clock {
  /** Milliseconds since 1970. Jumps when someone sets the time. */
  now(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
}

/** The last second that RFC 3339 can express, in seconds since 1970: its years have four digits (§1). */
export const LAST_SECOND = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000

/** Formats a time as RFC 3339 in UTC, without fractions of a second. @param ms Milliseconds since 1970. */
export function rfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '')
}
