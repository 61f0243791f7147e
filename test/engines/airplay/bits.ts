/** Writes a raw byte sequence payload of H.264, bit by bit (ITU-T H.264 §7.2, §9.1). */
export class BitWriter {
  readonly #bytes: number[] = []
  #current = 0
  #filled = 0

  /** u(n): `bits` bits, at most 31. */
  u(bits: number, value: number): this {
    for (let bit = bits - 1; bit >= 0; bit--) this.#push((value >>> bit) & 1)
    return this
  }

  /** ue(v): an unsigned number as an Exp-Golomb code. */
  ue(value: number): this {
    const bits = 32 - Math.clz32(value + 1)
    return this.u(bits - 1, 0).u(bits, value + 1)
  }

  /** Pads with zeros to the next byte. */
  align(): this {
    while (this.#filled > 0) this.#push(0)
    return this
  }

  /** Appends `count` bytes of one value. @throws if not byte-aligned. */
  fill(count: number, byte: number): this {
    if (this.#filled > 0) throw new Error('not byte-aligned')
    for (let written = 0; written < count; written++) this.#bytes.push(byte)
    return this
  }

  /** Appends rbsp_trailing_bits() and returns the payload. */
  finish(): readonly number[] {
    this.u(1, 1).align()
    return this.#bytes
  }

  #push(bit: number): void {
    this.#current = (this.#current << 1) | bit
    this.#filled += 1
    if (this.#filled < 8) return
    this.#bytes.push(this.#current)
    this.#current = 0
    this.#filled = 0
  }
}
