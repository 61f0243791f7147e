import { isObject, type JsonObject } from '../json.ts'
import { shown } from '../name.ts'
import * as texts from '../texts.ts'
import type { Goal } from './trial.ts'

/** The Wi-Fi network that the device is in; "" if none. */
export function connectedIn({ wifi }: JsonObject): string {
  return isObject(wifi) ? String(wifi.connected ?? '') : ''
}

/** That the device comes into a network. It can be reached as well if it has gone back to another one that it knows. */
export function joining(ssid: string): Goal {
  return {
    isReached: system => connectedIn(system) === ssid,
    failure: texts.notJoined(shown(ssid)),
    unchanged: texts.knownButAway(shown(ssid)),
    link: `&joining=${encodeURIComponent(ssid)}`,
  }
}
