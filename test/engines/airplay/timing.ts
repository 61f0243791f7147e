import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'

const PACKET_BYTES = 32
/** RTP version 2, payload type 0x53 (timing response) with the marker bit, and a length of 7 words. */
const RESPONSE = [0x80, 0xd3, 0, 7]
/** Seconds from the NTP epoch (1900) to the Unix epoch (RFC 5905 §6). */
const SECONDS_TO_1970 = 2_208_988_800n
const SECOND_NS = 1_000_000_000n

/** Time since boot, as seconds in 32.32 fixed point. */
export function deviceTime(): bigint {
  const ns = process.hrtime.bigint()
  return ((ns / SECOND_NS) << 32n) | (((ns % SECOND_NS) << 32n) / SECOND_NS)
}

/**
 * Answers a receiver's requests for the device's time, on a UDP port. UxPlay asks every 3 s, and drops a device that leaves
 * five requests unanswered.
 */
export class TimingServer {
  readonly port: number
  readonly #socket: Socket
  #requests = 0
  #isMute = false

  private constructor(socket: Socket) {
    this.#socket = socket
    this.port = socket.address().port
    socket.on('message', (request, from) => {
      this.#requests += 1
      if (this.#isMute || request.length < PACKET_BYTES) return
      socket.send(answer(request), from.port, from.address)
    })
  }

  /** @param host the receiver. */
  static async open(host: string, localAddress?: string): Promise<TimingServer> {
    const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4')
    socket.bind(0, localAddress).unref()
    await once(socket, 'listening')
    return new TimingServer(socket)
  }

  get requests(): number {
    return this.#requests
  }

  /** Stops answering, like a device out of range. */
  mute(): void {
    this.#isMute = true
  }

  close(): void {
    this.#socket.close()
  }
}

/** Echoes the request's transmit time; the receive and transmit times are both now. */
function answer(request: Buffer): Buffer {
  const packet = Buffer.alloc(PACKET_BYTES)
  packet.set(RESPONSE)
  request.copy(packet, 8, 24, PACKET_BYTES)
  const now = BigInt.asUintN(64, deviceTime() + (SECONDS_TO_1970 << 32n))
  packet.writeBigUInt64BE(now, 16)
  packet.writeBigUInt64BE(now, 24)
  return packet
}
