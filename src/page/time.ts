import * as texts from './texts.ts'

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
