/** The window of the setting `update`: when the device may restart by itself, in local time. */
import { DAYS, type UpdateWindow } from '../../hal/settings/update.ts'

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
/** Days to search ahead: enough to reach every weekday again. */
const DAYS_AHEAD = 8

/** Moments in milliseconds since 1970. */
export interface Opening {
  readonly opensAt: number
  readonly closesAt: number
}

/** The formatter of the last time zone, kept because creating one takes a millisecond. */
let format: { readonly timeZone: string; readonly dates: Intl.DateTimeFormat } | undefined

export function isSet({ from, to }: UpdateWindow): boolean {
  return from !== '' && to !== ''
}

/**
 * Returns the window that is open at `now`, or else the next one; undefined if none is set.
 *
 * A window belongs to the day on which it begins. A local time that a clock change skips is read with the offset before the
 * change, and the first of two equal local times counts (RFC 5545 §3.3.5). If that leaves nothing of a window, the window keeps
 * its usual length, so that no week passes without one.
 */
export function nextOpening(window: UpdateWindow, timeZone: string, now: number): Opening | undefined {
  if (!isSet(window)) return undefined
  const [from, to] = [minutesOf(window.from), minutesOf(window.to)]
  const length = (to > from ? to - from : to - from + 24 * 60) * MINUTE_MS
  const today = Math.floor((now + offsetAt(now, timeZone)) / DAY_MS) * DAY_MS
  for (let day = -1; day <= DAYS_AHEAD; day++) {
    const midnight = today + day * DAY_MS
    if (!isOn(window, midnight)) continue
    const opensAt = instantOf(midnight + from * MINUTE_MS, timeZone)
    const ends = instantOf(midnight + to * MINUTE_MS + (to > from ? 0 : DAY_MS), timeZone)
    const closesAt = ends > opensAt ? ends : opensAt + length
    if (now < closesAt) return { opensAt, closesAt }
  }
  return undefined
}

/** Reports whether a window begins on the day. @param midnight Local midnight of the day, as if in UTC. */
function isOn({ days }: UpdateWindow, midnight: number): boolean {
  const day = DAYS[new Date(midnight).getUTCDay()]
  return days.length === 0 || (day !== undefined && days.includes(day))
}

function minutesOf(time: string): number {
  const [hours = 0, minutes = 0] = time.split(':').map(Number)
  return hours * 60 + minutes
}

/** Returns the instant of a local time. @param local The local time, as if in UTC. */
function instantOf(local: number, timeZone: string): number {
  const [before, after] = [offsetAt(local - DAY_MS, timeZone), offsetAt(local + DAY_MS, timeZone)]
  const found = [before, after].map(offset => local - offset).filter(at => at + offsetAt(at, timeZone) === local)
  return found.length === 0 ? local - before : Math.min(...found)
}

/** Returns the offset of local time from UTC in milliseconds. A zone that the runtime does not know counts as UTC. */
function offsetAt(ms: number, timeZone: string): number {
  const parts = formatOf(timeZone).formatToParts(ms)
  const [year = 0, month = 0, day, hour, minute, second] = (
    ['year', 'month', 'day', 'hour', 'minute', 'second'] as const
  ).map(type => Number(parts.find(part => part.type === type)?.value))
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  if (format?.timeZone !== timeZone) format = { timeZone, dates: datesIn(timeZone) }
  return format.dates
}

function datesIn(timeZone: string): Intl.DateTimeFormat {
  const numbers = { year: 'numeric', month: 'numeric', day: 'numeric' } as const
  const times = { hour: 'numeric', minute: 'numeric', second: 'numeric' } as const
  const make = (timeZone: string) =>
    new Intl.DateTimeFormat('en-US', { hourCycle: 'h23', ...numbers, ...times, timeZone })
  try {
    return make(timeZone)
  } catch {
    return make('UTC')
  }
}
