import { isObject, type JsonObject } from '../json.ts'
import * as texts from '../texts.ts'
import type { Goal } from './trial.ts'

/** A name that others have chosen, without what would not be seen or would turn the text around it. */
export function shown(ssid: string): string {
  return ssid.replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu, '\ufffd')
}

/** The Wi-Fi network that the device is in; "" if none. */
export function connectedIn({ wifi }: JsonObject): string {
  return isObject(wifi) ? String(wifi.connected ?? '') : ''
}

/** That the device comes into a network. It can be reached as well if it has gone back to another one that it knows. */
export function joining(ssid: string): Goal {
  return {
    isReached: system => connectedIn(system) === ssid,
    failure: texts.notJoined(shown(ssid)),
    link: `&joining=${encodeURIComponent(ssid)}`,
  }
}
