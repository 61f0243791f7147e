import { decodeLossless } from '../../hal/format/lossless.ts'

/** Ends a chunk. No text in UTF-8 has it. */
const END = 0xff

/** The bytes of one execution, which a target reads as decisions, from the front. At their end they go on as zeros. */
export class Input {
  readonly bytes: Buffer
  #at = 0

  constructor(bytes: Uint8Array) {
    this.bytes = Buffer.from(bytes)
  }

  get isOver(): boolean {
    return this.#at >= this.bytes.length
  }

  byte(): number {
    return this.bytes[this.#at++] ?? 0
  }

  /** A whole number from 0 to `below`, which is excluded, and is at most 256. */
  below(below: number): number {
    return this.byte() % below
  }

  flag(): boolean {
    return (this.byte() & 1) === 1
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T
  }

  /** Bytes up to the next 0xff, or all. */
  chunk(): Buffer {
    const end = this.bytes.indexOf(END, this.#at)
    const chunk = this.bytes.subarray(this.#at, end < 0 ? undefined : end)
    this.#at = end < 0 ? this.bytes.length : end + 1
    return chunk
  }

  /** A chunk as text that is well-formed and on one line. */
  words(maxLength: number): string {
    return [
      ...this.chunk()
        .toString('utf8')
        .toWellFormed()
        .replace(/\p{Cc}/gu, ''),
    ]
      .slice(0, maxLength)
      .join('')
  }

  /** A chunk as the text of a file, of any encoding. */
  text(): string {
    return decodeLossless(this.chunk())
  }

  /** All that is left. */
  rest(): Buffer {
    const rest = this.bytes.subarray(this.#at)
    this.#at = this.bytes.length
    return rest
  }
}
