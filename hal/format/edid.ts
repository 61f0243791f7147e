/** A monitor's description of itself: VESA E-EDID 1.4 and its extension for television, CTA-861. */

export interface Edid {
  /** The product name, or without one the plug-and-play id, such as `SAM0F9C`. Empty if unknown. */
  readonly monitor: string
  /** Progressive timings as `WIDTHxHEIGHT@HZ`, in no particular order. Rates are rounded to whole numbers, as by the kernel. */
  readonly timings: readonly string[]
}

const BLOCK = 128
const HEADER = '00ffffffffffff00'
const DESCRIPTOR = 18
/** E-EDID 1.4 §3.10: four descriptors at the end of the base block. A descriptor other than a timing has its tag in byte 3. */
const DESCRIPTORS = 54
const NAME_TAG = 0xfc
/** E-EDID 1.4 §3.8: the bits of bytes 35 to 37, highest first. `-`: interlaced. */
const ESTABLISHED = (
  '720x400@70 720x400@88 640x480@60 640x480@67 640x480@73 640x480@75 800x600@56 800x600@60 ' +
  '800x600@72 800x600@75 832x624@75 - 1024x768@60 1024x768@70 1024x768@75 1280x1024@75 1152x870@75'
).split(' ')

const CTA_TAG = 2
/** CTA-861-H §7.5: the tag of a video data block. */
const VIDEO_TAG = 2
/**
 * CTA-861-H §4.1: progressive formats by code. Each run gives its first code, a resolution, and rates. Formats that repeat
 * another one in an aspect ratio other than 4:3 and 16:9 are left out, and so are those that hardly any monitor has: a kernel
 * mode whose rate is not listed here is shown without a rate.
 */
const VICS = vicTable(
  '1 640x480 60,2 720x480 60 60,4 1280x720 60,16 1920x1080 60,17 720x576 50 50,19 1280x720 50,31 1920x1080 50 24 25 30,' +
    '41 1280x720 100,47 1280x720 120,60 1280x720 24 25 30,63 1920x1080 120 100,93 3840x2160 24 25 30 50 60,' +
    '98 4096x2160 24 25 30 50 60,117 3840x2160 100 120,194 7680x4320 24 25 30 48 50 60',
)

/** Accepts any bytes. A broken base block yields nothing; a broken extension adds nothing to the base block. */
export function readEdid(bytes: Buffer): Edid {
  const base = blockAt(bytes, 0)
  if (base?.toString('hex', 0, 8) !== HEADER) return { monitor: '', timings: [] }
  const descriptors = [0, 1, 2, 3].map(n =>
    base.subarray(DESCRIPTORS + n * DESCRIPTOR, DESCRIPTORS + (n + 1) * DESCRIPTOR),
  )
  const timings = [
    ...ESTABLISHED.filter((_, at) => byte(base, 35 + (at >> 3)) & (0x80 >> (at & 7))),
    ...standardTimings(base.subarray(38, 54), byte(base, 19)),
    ...descriptors.flatMap(detailedTiming),
  ]
  // The kernel exposes the blocks that it has read, which may be fewer or more than the base block announces.
  for (let at = BLOCK; at + BLOCK <= bytes.length; at += BLOCK) timings.push(...ctaTimings(blockAt(bytes, at)))
  const names = descriptors.filter(one => one.readUInt16LE(0) === 0 && one[3] === NAME_TAG)
  const monitor = names.map(one => printable(one.toString('latin1', 5))).find(Boolean) ?? productId(base)
  return { monitor, timings: [...new Set(timings)].filter(one => one !== '-') }
}

/** A block with a valid checksum: its bytes add up to 0 (E-EDID 1.4 §3.11). */
function blockAt(bytes: Buffer, at: number): Buffer | undefined {
  const block = bytes.subarray(at, at + BLOCK)
  return block.length === BLOCK && block.reduce((sum, one) => sum + one, 0) % 256 === 0 ? block : undefined
}

/** E-EDID 1.4 §3.10.3.4: text ends at a line feed. Bytes beyond ASCII are code page 437, and rarely intended. */
function printable(text: string): string {
  return (text.split('\n')[0] ?? '').replace(/[^ -~]+/g, '').trim()
}

/** E-EDID 1.4 §3.4: the manufacturer as three letters of five bits each, and its product code. */
function productId(base: Buffer): string {
  const maker = base.readUInt16BE(8)
  const letters = [10, 5, 0].map(shift => String.fromCharCode(0x40 + ((maker >> shift) & 0x1f)))
  return letters.join('') + base.readUInt16LE(10).toString(16).toUpperCase().padStart(4, '0')
}

/** E-EDID 1.4 §3.9: pairs of width and aspect ratio. Before revision 3, ratio 0 was 1:1. */
function standardTimings(pairs: Buffer, revision: number): string[] {
  const ratios = [revision < 3 ? 1 : 10 / 16, 3 / 4, 4 / 5, 9 / 16]
  const found: string[] = []
  for (let at = 0; at < pairs.length; at += 2) {
    const width = (byte(pairs, at) + 31) * 8
    const ratio = byte(pairs, at + 1)
    // Unused pairs are 01 01; a first byte of 0 is reserved.
    if (width > 256 || (width === 256 && ratio !== 1))
      found.push(timing(width, Math.floor(width * (ratios[ratio >> 6] ?? 1)), (ratio & 0x3f) + 60))
  }
  return found
}

/** E-EDID 1.4 §3.10.2. A pixel clock of 0 marks another kind of descriptor. Interlaced timings are skipped. */
function detailedTiming(one: Buffer): string[] {
  const pixels = one.readUInt16LE(0) * 10_000
  const sum = (low: number, high: number, shift: number) => byte(one, low) | (((byte(one, high) >> shift) & 15) << 8)
  const width = sum(2, 4, 4)
  const height = sum(5, 7, 4)
  const hz = Math.round(pixels / ((width + sum(3, 4, 0)) * (height + sum(6, 7, 0))))
  return byte(one, 17) & 0x80 || !width || !height || !hz ? [] : [timing(width, height, hz)]
}

/** CTA-861-H §7: data blocks from byte 4 up to the offset in byte 2, then detailed timings. */
function ctaTimings(block: Buffer | undefined): string[] {
  const end = block?.[2] ?? 0
  if (block?.[0] !== CTA_TAG || end < 4 || end >= BLOCK) return []
  const found: string[] = []
  for (let at = 4, next = at; at < end; at = next) {
    next = at + 1 + (byte(block, at) & 0x1f)
    if (next > end || byte(block, at) >> 5 !== VIDEO_TAG) continue
    // CTA-861-H §7.5.1: codes 129 to 192 are codes 1 to 64, marked as native.
    for (const code of block.subarray(at + 1, next))
      found.push(...(VICS[code > 128 && code < 193 ? code - 128 : code] ?? []))
  }
  for (let at = end; at + DESCRIPTOR < BLOCK; at += DESCRIPTOR)
    found.push(...detailedTiming(block.subarray(at, at + DESCRIPTOR)))
  return found
}

function vicTable(runs: string): Readonly<Record<number, readonly string[]>> {
  const table: Record<number, readonly string[]> = {}
  for (const run of runs.split(',')) {
    const [first, resolution, ...rates] = run.split(' ')
    for (const [at, hz] of rates.entries()) table[Number(first) + at] = [`${resolution}@${hz}`]
  }
  return table
}

function timing(width: number, height: number, hz: number): string {
  return `${width}x${height}@${hz}`
}

function byte(bytes: Buffer, at: number): number {
  return bytes[at] ?? 0
}
