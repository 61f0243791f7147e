/**
 * Binary property lists, the body format of AirPlay: `bplist00`, the objects, a table of their offsets, and a 32-byte
 * trailer that locates the table (CFBinaryPList.c in Apple's CF).
 */

/** Integers above Number.MAX_SAFE_INTEGER are bigints. */
export type Plist = boolean | number | bigint | string | Buffer | readonly Plist[] | PlistDictionary
export interface PlistDictionary {
  readonly [key: string]: Plist
}

const MAGIC = 'bplist00'
const TRAILER_BYTES = 32
/** A marker's upper four bits are the type, the lower four the size; 15 means that an integer with the size follows. */
const SIZE_FOLLOWS = 15
const INTEGER = 1
const REAL = 2
const DATA = 4
const ASCII = 5
const UTF16 = 6
const ARRAY = 10
const DICTIONARY = 13

interface PlistObject {
  readonly value: Plist
  /** For a dictionary: all keys, then all values. */
  readonly references: readonly number[]
}

export function encodePlist(root: Plist): Buffer {
  const entries: PlistObject[] = []
  collect(root, entries)
  const referenceBytes = entries.length < 0x100 ? 1 : 2
  const parts: Buffer[] = [Buffer.from(MAGIC)]
  const offsets: number[] = []
  let end = MAGIC.length
  for (const entry of entries) {
    const part = encodeEntry(entry, referenceBytes)
    offsets.push(end)
    end += part.length
    parts.push(part)
  }
  const offsetBytes = end < 0x100 ? 1 : end < 0x10000 ? 2 : 4
  const trailer = Buffer.alloc(TRAILER_BYTES)
  trailer[6] = offsetBytes
  trailer[7] = referenceBytes
  trailer.writeBigUInt64BE(BigInt(entries.length), 8)
  trailer.writeBigUInt64BE(BigInt(end), 24)
  return Buffer.concat([...parts, ...offsets.map(offset => unsigned(offset, offsetBytes)), trailer])
}

/** Assigns object numbers, depth first. Returns the number of `value`. */
function collect(value: Plist, entries: PlistObject[]): number {
  const references: number[] = []
  const number = entries.push({ value, references }) - 1
  if (isArray(value)) for (const item of value) references.push(collect(item, entries))
  else if (isDictionary(value))
    for (const item of [...Object.keys(value), ...Object.values(value)]) references.push(collect(item, entries))
  return number
}

function encodeEntry({ value, references }: PlistObject, referenceBytes: number): Buffer {
  if (typeof value === 'boolean') return Buffer.from([value ? 9 : 8])
  if (typeof value === 'bigint') return integer(value)
  if (typeof value === 'number') return Number.isInteger(value) ? integer(BigInt(value)) : real(value)
  if (Buffer.isBuffer(value)) return Buffer.concat([marker(DATA, value.length), value])
  if (typeof value === 'string') {
    if (/^[\0-\x7f]*$/.test(value)) return Buffer.concat([marker(ASCII, value.length), Buffer.from(value)])
    return Buffer.concat([marker(UTF16, value.length), Buffer.from(value, 'utf16le').swap16()])
  }
  const type = isArray(value) ? ARRAY : DICTIONARY
  const size = isArray(value) ? references.length : references.length / 2
  return Buffer.concat([marker(type, size), ...references.map(reference => unsigned(reference, referenceBytes))])
}

function marker(type: number, size: number): Buffer {
  if (size < SIZE_FOLLOWS) return Buffer.from([(type << 4) | size])
  return Buffer.concat([Buffer.from([(type << 4) | SIZE_FOLLOWS]), integer(BigInt(size))])
}

/** Uses 1, 2, 4 or 8 bytes, or 16 if the sign bit of 8 would be set. */
function integer(value: bigint): Buffer {
  const power = value < 0x100n ? 0 : value < 0x10000n ? 1 : value < 2n ** 32n ? 2 : value < 2n ** 63n ? 3 : 4
  return Buffer.concat([Buffer.from([(INTEGER << 4) | power]), unsigned(value, 1 << power)])
}

function real(value: number): Buffer {
  const bytes = Buffer.alloc(9)
  bytes[0] = (REAL << 4) | 3
  bytes.writeDoubleBE(value, 1)
  return bytes
}

function unsigned(value: number | bigint, bytes: number): Buffer {
  return Buffer.from(
    BigInt(value)
      .toString(16)
      .padStart(bytes * 2, '0'),
    'hex',
  )
}

/** @throws if the bytes are not a binary property list. */
export function decodePlist(bytes: Buffer): Plist {
  if (bytes.length < MAGIC.length + TRAILER_BYTES || bytes.toString('latin1', 0, MAGIC.length) !== MAGIC)
    throw new Error('not a binary property list')
  const trailer = bytes.subarray(-TRAILER_BYTES)
  const offsetBytes = trailer[6] ?? 0
  const referenceBytes = trailer[7] ?? 0
  const table = Number(trailer.readBigUInt64BE(24))
  const numberAt = (at: number, size: number) => Number(`0x${bytes.toString('hex', at, at + size)}`)

  const read = (number: number): Plist => {
    let at = numberAt(table + number * offsetBytes, offsetBytes)
    const type = bytes.readUInt8(at) >> 4
    let size = bytes.readUInt8(at) & 15
    at += 1
    if (type === 0) return size === 9
    if (type === INTEGER) {
      const value = BigInt(`0x${bytes.toString('hex', at, at + (1 << size))}`)
      return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value
    }
    if (type === REAL) return size === 3 ? bytes.readDoubleBE(at) : bytes.readFloatBE(at)
    if (size === SIZE_FOLLOWS) {
      const sizeBytes = 1 << (bytes.readUInt8(at) & 15)
      size = numberAt(at + 1, sizeBytes)
      at += 1 + sizeBytes
    }
    if (type === DATA) return bytes.subarray(at, at + size)
    if (type === ASCII) return bytes.toString('latin1', at, at + size)
    if (type === UTF16)
      return Buffer.from(bytes.subarray(at, at + size * 2))
        .swap16()
        .toString('utf16le')
    const item = (index: number) => read(numberAt(at + index * referenceBytes, referenceBytes))
    if (type === ARRAY) return Array.from({ length: size }, (_, index) => item(index))
    if (type !== DICTIONARY) throw new Error(`a property list of type ${type} is not known`)
    return Object.fromEntries(Array.from({ length: size }, (_, index) => [String(item(index)), item(index + size)]))
  }
  return read(Number(trailer.readBigUInt64BE(16)))
}

/** @throws if the property list is not a dictionary. */
export function decodeDictionary(bytes: Buffer): PlistDictionary {
  const value = decodePlist(bytes)
  if (!isDictionary(value)) throw new Error('not a dictionary')
  return value
}

function isArray(value: Plist | undefined): value is readonly Plist[] {
  return Array.isArray(value)
}

export function isDictionary(value: Plist | undefined): value is PlistDictionary {
  return typeof value === 'object' && !Buffer.isBuffer(value) && !isArray(value)
}
