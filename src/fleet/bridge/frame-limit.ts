/**
 * Watches the lengths of the packets that a broker sends (MQTT 5.0 section 2.1.4), so that a packet that is too long is noticed
 * before it has arrived.
 */
export class FrameLimit {
  readonly #maxBytes: number
  /** Bytes of the current packet that are still to come. */
  #rest = 0
  /** Bytes of its length field so far; undefined before its first byte. */
  #lengthBytes: number | undefined
  #length = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @returns false once a packet is too long, or has no valid length. */
  accepts(chunk: Uint8Array): boolean {
    let at = 0
    while (at < chunk.length) {
      if (this.#rest > 0) {
        const taken = Math.min(this.#rest, chunk.length - at)
        this.#rest -= taken
        at += taken
        continue
      }
      const byte = chunk[at++] ?? 0
      if (this.#lengthBytes === undefined) {
        this.#lengthBytes = 0
        this.#length = 0
        continue
      }
      this.#length += (byte & 0x7f) * 0x80 ** this.#lengthBytes++
      if (this.#length > this.#maxBytes || (byte >= 0x80 && this.#lengthBytes === 4)) return false
      if (byte >= 0x80) continue
      this.#rest = this.#length
      this.#lengthBytes = undefined
    }
    return true
  }
}
