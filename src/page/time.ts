import * as texts from './texts.ts'

/** Milliseconds by which the clocks may differ without effect: an answer states whole seconds, and is on its way for a while. */
const TOLERANCE_MS = 2_000

/** Milliseconds by which the clock of the device is ahead of the browser's. */
let aheadMs = 0

/** The time by the clock of the device, in milliseconds since 1970: deadlines are given by that clock. */
export function deviceNow(): number {
  return Date.now() + aheadMs
}

/** Sets the clock of the device by a time that has just come: in the field `Date` of an answer, or in an event. */
export function setDeviceClock(date: string | null): void {
  const ms = Date.parse(date ?? '') - Date.now()
  if (Math.abs(ms - aheadMs) > TOLERANCE_MS) aheadMs = ms
}

/** Formats a moment in the browser's language. */
export function momentText(time: string): string {
  const moment = new Date(time)
  return Number.isNaN(moment.getTime()) ? time : moment.toLocaleString()
}

/** Formats a duration in its largest whole unit. */
export function durationText(seconds: number): string {
  const minutes = Math.floor(seconds / 60)
  if (minutes < 1) return texts.sinceNow
  if (minutes < 60) return texts.minutes(minutes)
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? texts.hours(hours) : texts.days(Math.floor(hours / 24))
}
