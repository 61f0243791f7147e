import type { Device, SessionState } from '../../hal/engine.ts'

/** A device that mirrors or asks to, as clients see it. */
export interface Session extends Device {
  readonly id: string
  readonly state: SessionState
  /** When that state began, in RFC 3339 (UTC). */
  readonly since: string
  /**
   * When a pending session is denied if nobody decides, or an admitted one ends if its device does not connect; RFC 3339 in
   * UTC. Absent while the session is active.
   */
  readonly deadline?: string
}

/** An engine's claim that a session continues after a restart of the service. */
export interface Former {
  readonly id?: unknown
  readonly since?: unknown
}

/** The protocols that metrics distinguish, because engines may name any. */
const LABELS = ['airplay', 'miracast', 'cast']

export function protocolLabel(protocol: string): string {
  return LABELS.includes(protocol) ? protocol : 'other'
}

export const PROTOCOL = '^[a-z0-9-]{1,32}$'
/** Maximum number of code points of each text, and of an address. */
export const MAX_NAME = 128
export const MAX_MODEL = 64
export const MAX_DEVICE_ID = 64
export const MAX_ADDRESS = 64
/** Control characters, line separators, and characters that reorder the text around them (UAX #9). */
const UNSAFE = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** Returns the device with texts that are safe to show: limited in length, well formed, and on one line. */
export function safeDevice({ protocol, name, model, deviceId, address }: Device): Device {
  return {
    protocol,
    name: safeText(name, MAX_NAME),
    model: safeText(model, MAX_MODEL),
    deviceId: safeText(deviceId, MAX_DEVICE_ID),
    address: safeText(address, MAX_ADDRESS),
  }
}

function safeText(text: string, max: number): string {
  return [...text.toWellFormed()].slice(0, max).join('').replace(UNSAFE, '\u{fffd}')
}
