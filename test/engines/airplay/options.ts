import type { Size } from './h264.ts'
import type { Identity } from './pairing.ts'

/** A device as it shows itself, and how it behaves. */
export interface ClientOptions {
  readonly host: string
  readonly port?: number
  readonly name?: string
  readonly model?: string
  /** Like a MAC address, in capitals; undefined for a device that does not say. */
  readonly deviceId?: string | undefined
  /** The address to come from. */
  readonly localAddress?: string | undefined
  /** Milliseconds until an answer is given up. */
  readonly timeoutMs?: number
  readonly size?: Size
  readonly framesPerSecond?: number
  /** Without a picture there is no connection for it. */
  readonly hasVideo?: boolean
  /** Sends a sign of life every 2 s. */
  readonly hasFeedback?: boolean
  /** `none` leaves pairing out; `returning` does not show the key, as a device that was paired before. */
  readonly pairing?: 'full' | 'returning' | 'none'
  /** What the receiver shows on its screen. */
  readonly pin?: string | undefined
  /** Of a receiver that asks for one (UxPlay 1.72 and later). */
  readonly password?: string | undefined
  /** The device's key; a new one without it. */
  readonly identity?: Identity
}

type Defaulted =
  | 'port'
  | 'name'
  | 'model'
  | 'deviceId'
  | 'timeoutMs'
  | 'size'
  | 'framesPerSecond'
  | 'hasVideo'
  | 'hasFeedback'
  | 'pairing'

export const DEFAULTS: Required<Pick<ClientOptions, Defaulted>> = {
  port: 7001,
  name: 'Test iPhone',
  model: 'iPhone15,2',
  deviceId: 'AA:BB:CC:00:00:01',
  timeoutMs: 8_000,
  size: { width: 320, height: 176 },
  framesPerSecond: 5,
  hasVideo: true,
  hasFeedback: true,
  pairing: 'full',
}
