/** glibc's locale archive: compiled locales in one file, with a hash table of their names (locarchive.h). */

const MAGIC = 0xde020109
/** struct locarhead: 14 words, of which the third is the offset of the name table and the fifth its number of entries. */
const HEAD_BYTES = 56
const NAME_TABLE = 8
const NAME_TABLE_SIZE = 16
/** struct namehashent: the hash of a name, the offset of the name, and the offset of its record, or 0 if unused. */
const ENTRY_BYTES = 12
/** Longer than any name. */
const MAX_NAME_BYTES = 64

/**
 * The names in an archive of a little-endian system, with their codesets as glibc normalizes them: `en_GB.utf8`.
 * @param start The beginning of the archive, where the names are.
 * @returns undefined if it is not such an archive, or if the names are not all in `start`.
 */
export function archivedLocales(start: Buffer): readonly string[] | undefined {
  if (start.length < HEAD_BYTES || start.readUInt32LE(0) !== MAGIC) return undefined
  const table = start.readUInt32LE(NAME_TABLE)
  const end = table + start.readUInt32LE(NAME_TABLE_SIZE) * ENTRY_BYTES
  if (end > start.length) return undefined
  const names: string[] = []
  for (let at = table; at < end; at += ENTRY_BYTES) {
    if (start.readUInt32LE(at + 8) === 0) continue
    const name = start.readUInt32LE(at + 4)
    const nul = start.subarray(name, name + MAX_NAME_BYTES).indexOf(0)
    if (nul < 0) return undefined
    names.push(start.toString('utf8', name, name + nul))
  }
  return names
}
