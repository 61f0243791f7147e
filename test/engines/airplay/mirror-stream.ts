import { type Cipher, createCipheriv } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { decoderConfiguration, picture, type Size } from './h264.ts'
import { derive } from './keys.ts'
import { deviceTime } from './timing.ts'

export interface StreamOptions {
  readonly host: string
  readonly port: number
  readonly localAddress?: string | undefined
  readonly timeoutMs: number
  readonly size: Size
  readonly framesPerSecond: number
  /** The streamConnectionID sent with SETUP. */
  readonly id: bigint
  /** The shared key, 16 bytes. */
  readonly key: Buffer
}

const HEADER_BYTES = 128
/** Payload types: unencrypted parameter sets, and an encrypted IDR picture. */
const CODEC = 0x0100
const PICTURE = 0x0010
/** Payload option of H.264 parameter sets while the device is awake. */
const AWAKE = 0x1601
/** Offsets of the picture's size in the header of parameter sets: of the source (twice), and as sent. */
const SIZES_AT = [16, 40, 56]

/** The video connection: sends colour bars until it is closed. */
export class MirrorStream {
  readonly #socket: Socket
  readonly #size: Size
  readonly #cipher: Cipher
  readonly #timer: NodeJS.Timeout
  #frames = 0

  private constructor(socket: Socket, { size, framesPerSecond, id, key }: StreamOptions) {
    this.#socket = socket
    this.#size = size
    this.#cipher = createCipheriv(
      'aes-128-ctr',
      derive(`AirPlayStreamKey${id}`, key),
      derive(`AirPlayStreamIV${id}`, key),
    )
    // The client reports the end when the control connection closes.
    socket.on('error', () => undefined).resume()
    socket.on('close', () => clearInterval(this.#timer))
    this.#timer = setInterval(() => this.#send(), 1_000 / framesPerSecond)
    this.#send()
  }

  static async open(options: StreamOptions): Promise<MirrorStream> {
    const { host, port, localAddress, timeoutMs } = options
    const socket = connect({ host, port, ...(localAddress === undefined ? {} : { localAddress }) })
    await once(socket, 'connect', { signal: AbortSignal.timeout(timeoutMs) })
    return new MirrorStream(socket, options)
  }

  /** Pictures sent. */
  get frames(): number {
    return this.#frames
  }

  /** Stops sending pictures, but keeps the connection open. */
  freeze(): void {
    clearInterval(this.#timer)
  }

  end(): void {
    this.freeze()
    this.#socket.end()
  }

  reset(): void {
    this.freeze()
    this.#socket.resetAndDestroy()
  }

  /** Repeats the parameters with each picture, because UxPlay drops pictures until its clock is synchronized. */
  #send(): void {
    const time = deviceTime()
    const parameters = decoderConfiguration(this.#size)
    const header = packetHeader(CODEC, AWAKE, time, parameters)
    for (const at of SIZES_AT) {
      header.writeFloatLE(this.#size.width, at)
      header.writeFloatLE(this.#size.height, at + 4)
    }
    const unit = picture(this.#size, this.#frames++)
    const length = Buffer.alloc(4)
    length.writeUInt32BE(unit.length)
    const payload = this.#cipher.update(Buffer.concat([length, unit]))
    this.#socket.write(Buffer.concat([header, parameters, packetHeader(PICTURE, 0, time, payload), payload]))
  }
}

function packetHeader(type: number, option: number, time: bigint, payload: Buffer): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt32LE(payload.length, 0)
  header.writeUInt16BE(type, 4)
  header.writeUInt16BE(option, 6)
  header.writeBigUInt64LE(time, 8)
  return header
}
