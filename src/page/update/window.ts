import { isObject, type JsonObject } from '../json.ts'
import { valueText } from '../labels.ts'
import * as texts from '../texts.ts'

/** Describes the configured window for restarts; undefined if none is set. */
export function windowText({ update }: JsonObject): string | undefined {
  const window = isObject(update) ? update.window : undefined
  if (!isObject(window) || !window.from) return undefined
  const days = Array.isArray(window.days) && window.days.length > 0 ? valueText('days', window.days) : ''
  return texts.windowOf(days, String(window.from), String(window.to))
}

/** Returns the address of the channel; empty if none is set. */
export function channelOf({ update }: JsonObject): string {
  return isObject(update) && typeof update.channel === 'string' ? update.channel : ''
}
