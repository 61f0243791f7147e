/** Builds the beginning of a locale archive as localedef(1) writes it: glibc's locarchive.h. */

const HEAD = 56
const ENTRY = 12

/** @param names In the order of the table; an empty one is an unused entry. */
export function archiveOf(names: readonly string[]): Buffer {
  const strings = Buffer.from(names.map(name => `${name}\0`).join(''))
  const bytes = Buffer.alloc(HEAD + names.length * ENTRY)
  const table = HEAD
  bytes.writeUInt32LE(0xde020109, 0)
  bytes.writeUInt32LE(table, 8)
  bytes.writeUInt32LE(names.filter(Boolean).length, 12)
  bytes.writeUInt32LE(names.length, 16)
  bytes.writeUInt32LE(bytes.length, 20)
  bytes.writeUInt32LE(strings.length, 24)
  bytes.writeUInt32LE(strings.length, 28)
  let at = bytes.length
  for (const [n, name] of names.entries()) {
    bytes.writeUInt32LE(name === '' ? 0 : at, table + n * ENTRY + 4)
    bytes.writeUInt32LE(name === '' ? 0 : 0x1000, table + n * ENTRY + 8)
    at += Buffer.byteLength(name) + 1
  }
  return Buffer.concat([bytes, strings])
}
