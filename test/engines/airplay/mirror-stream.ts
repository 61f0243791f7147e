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
  /** As SETUP named the stream. */
  readonly id: bigint
  /** What both sides know, 16 bytes. */
  readonly key: Buffer
}

const HEADER_BYTES = 128
/** Payload types: parameter sets as they are; a picture coded by itself, encrypted. */
const CODEC = 0x0100
const PICTURE = 0x0010
/** What comes with parameter sets of H.264 while the device is awake. */
const AWAKE = 0x1601
/** Where the header of parameter sets has the picture's size: of the source twice, and as it is sent. */
const SIZES_AT = [16, 40, 56]

/** Colour bars on a connection of their own, until it is ended. */
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
    // The control connection tells of the end; here it shows as an error or a close.
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

  /** Sends no more pictures, and leaves the connection open. */
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

  /** Each picture with its parameters: UxPlay drops what comes before it knows the device's time. */
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
