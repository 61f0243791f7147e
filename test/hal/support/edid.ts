/** Builds EDIDs as a monitor would send them: E-EDID 1.4 and CTA-861, checksums included. */

export interface EdidParts {
  /** Three letters. */
  readonly maker?: string
  readonly product?: number
  readonly revision?: number
  /** Bytes 35 to 37. */
  readonly established?: readonly [number, number, number]
  /** Pairs of bytes, at most eight. */
  readonly standard?: readonly (readonly [width: number, shape: number])[]
  /** At most four, of 18 bytes each. */
  readonly descriptors?: readonly Buffer[]
  readonly extensions?: readonly Buffer[]
}

export function edidOf(parts: EdidParts): Buffer {
  const base = Buffer.alloc(128)
  base.write('00ffffffffffff00', 'hex')
  const [a = 0, b = 0, c = 0] = Buffer.from(parts.maker ?? 'RCV').map(letter => letter - 0x40)
  base.writeUInt16BE((a << 10) | (b << 5) | c, 8)
  base.writeUInt16LE(parts.product ?? 0x1234, 10)
  // Week 1 of 2020; 1.3; digital; 52 x 29 cm, gamma 2.2, RGB with the first timing preferred; sRGB primaries.
  base.write('011e', 16, 'hex')
  base.writeUInt8(1, 18)
  base.writeUInt8(parts.revision ?? 3, 19)
  base.write('80341d780eee91a3544c99260f5054', 20, 'hex')
  base.set(parts.established ?? [0, 0, 0], 35)
  base.fill(1, 38, 54)
  base.set((parts.standard ?? []).flat(), 38)
  for (let at = 0; at < 4; at++) base.set(parts.descriptors?.[at] ?? text(0x10, ''), 54 + at * 18)
  base.writeUInt8(parts.extensions?.length ?? 0, 126)
  return Buffer.concat([base, ...(parts.extensions ?? [])].map(sealed))
}

/** A block with its checksum, which is the last byte: all of them add up to 0. */
export function sealed(block: Buffer): Buffer {
  const bytes = Buffer.from(block)
  bytes[127] = 0
  bytes[127] = 256 - (bytes.reduce((sum, one) => sum + one, 0) % 256 || 256)
  return bytes
}

/** A text descriptor: 0xfc for the name, 0xff for the serial number, 0xfe for any text; 0x10 is a dummy. */
export function text(tag: number, value: string): Buffer {
  const bytes = Buffer.alloc(18, tag === 0x10 ? 0 : ' ')
  bytes.set([0, 0, 0, tag, 0])
  if (tag !== 0x10) bytes.write(value.length < 13 ? `${value}\n` : value, 5, 13, 'latin1')
  return bytes
}

/** The range limits that a monitor with several timings must have: 24 to 120 Hz, 15 to 135 kHz, 600 MHz, no formula. */
export function limits(): Buffer {
  return Buffer.from('000000fd0018780f873c000a202020202020', 'hex')
}

/** A detailed timing with about the blanking of CVT's reduced blanking. */
export function detailed(width: number, height: number, hz: number, options: { interlaced?: boolean } = {}): Buffer {
  const blankWidth = 160
  const blankHeight = 45
  const bytes = Buffer.alloc(18)
  bytes.writeUInt16LE(Math.round(((width + blankWidth) * (height + blankHeight) * hz) / 10_000), 0)
  bytes.set([width & 255, blankWidth, (width >> 8) << 4, height & 255, blankHeight, (height >> 8) << 4], 2)
  // Front porches and sync widths 48+32 and 3+5, 527 x 296 mm, separate sync.
  bytes.write('30203500', 8, 'hex')
  bytes.set([527 & 255, 296 & 255, ((527 >> 8) << 4) | (296 >> 8)], 12)
  bytes[17] = options.interlaced ? 0x9a : 0x1a
  return bytes
}

/** A CTA-861 extension with data blocks and detailed timings. */
export function cta(blocks: readonly Buffer[], timings: readonly Buffer[] = []): Buffer {
  const bytes = Buffer.alloc(128)
  const data = Buffer.concat(blocks)
  bytes.set([2, 3, 4 + data.length, 0x81], 0)
  bytes.set(data, 4)
  bytes.set(Buffer.concat(timings), 4 + data.length)
  return bytes
}

/** A data block of CTA-861: tag 2 is video, 3 vendor-specific. */
export function dataBlock(tag: number, ...data: readonly number[]): Buffer {
  return Buffer.from([(tag << 5) | data.length, ...data])
}

/** The vendor-specific block of HDMI 1.4, with these of its own formats, 1 to 4. */
export function hdmi(vics: readonly number[], options: { latency?: boolean } = {}): Buffer {
  const latency = options.latency ? [0x20 | 0x80, 1, 1] : [0x20]
  return dataBlock(3, 0x03, 0x0c, 0x00, 0x10, 0x00, 0x00, 0x3c, ...latency, 0, vics.length << 5, ...vics)
}
