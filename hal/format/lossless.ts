/**
 * The text of a file that is edited, whatever its bytes: those that are not UTF-8 become lone surrogates, U+DC80 to U+DCFF, and
 * are written back unchanged. So a configuration file keeps every byte that is not ours. Python calls this surrogateescape (PEP
 * 383).
 */

/** A lone surrogate: with the flag `u`, the second half of a pair does not match. */
const ESCAPED = /([\u{dc80}-\u{dcff}])/u
const ESCAPE = 0xdc00

export function decodeLossless(bytes: Buffer): string {
  let text = ''
  let from = 0
  for (let at = 0; at < bytes.length; ) {
    const length = lengthAt(bytes, at)
    if (length === 0) {
      text += bytes.toString('utf8', from, at) + String.fromCharCode(ESCAPE + byteAt(bytes, at))
      from = at + 1
    }
    at += length || 1
  }
  return text + bytes.toString('utf8', from)
}

/** The inverse of `decodeLossless`. */
export function encodeLossless(text: string): Buffer {
  if (text.isWellFormed()) return Buffer.from(text)
  const toBytes = (part: string, n: number) =>
    n % 2 === 0 ? Buffer.from(part) : Buffer.of(part.charCodeAt(0) - ESCAPE)
  return Buffer.concat(text.split(ESCAPED).map(toBytes))
}

/** The length in bytes of the character at an offset; 0 if it is not a valid one (Unicode, table 3-7). */
function lengthAt(bytes: Buffer, at: number): number {
  const first = byteAt(bytes, at)
  if (first < 0x80) return 1
  const length = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
  const second = byteAt(bytes, at + 1)
  const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80
  const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
  if (length === 0 || second < least || second > most) return 0
  for (let n = 2; n < length; n++) if (byteAt(bytes, at + n) >> 6 !== 0b10) return 0
  return length
}

/** The byte at an offset; 0 after the end, which continues no character. */
function byteAt(bytes: Buffer, at: number): number {
  return bytes[at] ?? 0
}
