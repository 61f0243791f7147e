import { encodeLossless } from './lossless.ts'

const LETTERS: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', e: '\x1b' }
const ESCAPE = /\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))/gs

/** Decodes text with the escapes that wpa_supplicant writes (printf_encode() in its common.c). */
export function printfDecode(text: string): Buffer {
  const parts: Buffer[] = []
  let from = 0
  for (const found of text.matchAll(ESCAPE)) {
    const [whole, hex, octal, letter = ''] = found
    parts.push(encodeLossless(text.slice(from, found.index)))
    const code = hex !== undefined ? Number.parseInt(hex, 16) : octal && Number.parseInt(octal, 8) & 0xff
    parts.push(typeof code === 'number' ? Buffer.of(code) : encodeLossless(LETTERS[letter] ?? letter))
    from = found.index + whole.length
  }
  return Buffer.concat([...parts, encodeLossless(text.slice(from))])
}
