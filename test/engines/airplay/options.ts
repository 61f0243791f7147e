import type { Size } from './h264.ts'
import type { Identity } from './pairing.ts'

/** How a device presents itself and behaves. */
export interface ClientOptions {
  readonly host: string
  readonly port?: number
  readonly name?: string
  readonly model?: string
  /** In the form of a MAC address, upper case. Undefined: none is sent. */
  readonly deviceId?: string | undefined
  /** Local address to connect from. */
  readonly localAddress?: string | undefined
  /** How the receiver is to ask for the time. UxPlay knows NTP alone, and mirrors all the same. */
  readonly timingProtocol?: string
  /** Milliseconds to wait for an answer. */
  readonly timeoutMs?: number
  readonly size?: Size
  readonly framesPerSecond?: number
  /** Whether to open the video connection. */
  readonly hasVideo?: boolean
  /** Whether to send a keep-alive request every 2 s. */
  readonly hasFeedback?: boolean
  /** Whether to say that it can be remotely controlled, as Apple's devices do. Default: true. */
  readonly hasRemote?: boolean
  /** `returning` skips pair-setup, like a device that was paired before. */
  readonly pairing?: 'full' | 'returning' | 'none'
  /** The PIN on the receiver's screen, or how a person reads it there once the device has asked for it. */
  readonly pin?: string | (() => Promise<string>) | undefined
  /** The receiver's password (UxPlay 1.72 and later). */
  readonly password?: string | undefined
  /** The device's key. Default: a new one. */
  readonly identity?: Identity
}

type Defaulted =
  | 'port'
  | 'name'
  | 'model'
  | 'deviceId'
  | 'timeoutMs'
  | 'timingProtocol'
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
  timingProtocol: 'NTP',
  size: { width: 320, height: 176 },
  framesPerSecond: 5,
  hasVideo: true,
  hasFeedback: true,
  pairing: 'full',
}
