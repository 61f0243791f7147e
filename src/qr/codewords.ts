/** The text of a QR code as codewords: which version it needs, its data, and the error correction of level L. */
import { errorCorrection } from './reed-solomon.ts'

/** By version: the error correction of each block in bytes, and the number of blocks (ISO/IEC 18004 table 9, level L). */
const CORRECTION = [
  0, 7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28, 28, 28, 30, 30, 26, 28, 30, 30, 30,
  30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30,
]
const BLOCKS = [
  0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8, 8, 9, 9, 10, 12, 12, 12, 13, 14, 15, 16, 17, 18, 19,
  19, 20, 21, 22, 24, 25,
]
const MAX_VERSION = 40
const BYTE_MODE = 0b0100
const PADDING = [0xec, 0x11]

/** Where alignment patterns are, in both directions (ISO/IEC 18004 annex E). */
export function alignmentPositions(version: number): readonly number[] {
  if (version === 1) return []
  const count = Math.floor(version / 7) + 2
  const step = Math.floor((version * 8 + count * 3 + 5) / (count * 4 - 4)) * 2
  const last = version * 4 + 10
  return [6, ...Array.from({ length: count - 1 }, (_, at) => last - (count - 2 - at) * step)]
}

/** The bytes of a version, data and error correction together. */
function capacity(version: number): number {
  const aligned = alignmentPositions(version).length
  const patterns = version === 1 ? 0 : (25 * aligned - 10) * aligned - 55
  return ((16 * version + 128) * version + 64 - patterns - (version >= 7 ? 36 : 0)) >> 3
}

/**
 * The codewords of a text in the order in which they are drawn.
 * @throws {RangeError} if it is too long for any QR code: 2,953 bytes.
 */
export function codewordsOf(text: string): { readonly version: number; readonly codewords: readonly number[] } {
  const bytes = [...new TextEncoder().encode(text)]
  for (let version = 1; version <= MAX_VERSION; version++) {
    const blocks = BLOCKS[version] ?? 0
    const room = capacity(version) - (CORRECTION[version] ?? 0) * blocks
    const lengthBits = version < 10 ? 8 : 16
    if (bytes.length * 8 + 4 + lengthBits > room * 8) continue
    return { version, codewords: interleaved(version, dataOf(bytes, lengthBits, room)) }
  }
  throw new RangeError('too long for a QR code')
}

function dataOf(bytes: readonly number[], lengthBits: number, room: number): readonly number[] {
  const binary = (value: number, width: number) => value.toString(2).padStart(width, '0')
  const bits = binary(BYTE_MODE, 4) + binary(bytes.length, lengthBits) + bytes.map(byte => binary(byte, 8)).join('')
  const ended = bits.padEnd(Math.min(bits.length + 4, room * 8), '0')
  const data = (ended.padEnd(Math.ceil(ended.length / 8) * 8, '0').match(/.{8}/g) ?? []).map(byte => parseInt(byte, 2))
  for (let at = 0; data.length < room; at++) data.push(PADDING[at % 2] ?? 0)
  return data
}

/**
 * Divides data into blocks, the shorter ones first, and adds error correction to each: takes the first byte of each, and so on.
 */
function interleaved(version: number, data: readonly number[]): readonly number[] {
  const blocks = BLOCKS[version] ?? 0
  const correction = CORRECTION[version] ?? 0
  const longer = data.length % blocks
  const size = Math.floor(data.length / blocks)
  let from = 0
  const parts = Array.from({ length: blocks }, (_, at) => {
    const part = data.slice(from, from + size + (at < blocks - longer ? 0 : 1))
    from += part.length
    return part
  })
  const corrections = parts.map(part => errorCorrection(part, correction))
  const columns = (rows: readonly (readonly number[])[], count: number) =>
    Array.from({ length: count }, (_, at) => rows.flatMap(row => row[at] ?? [])).flat()
  return [...columns(parts, size + 1), ...columns(corrections, correction)]
}
