/** What a monitor says of itself: VESA E-EDID 1.4, with its extension for television, CTA-861. */

export interface Edid {
  /** The name of the product, or where it has none its plug-and-play id, such as `SAM0F9C`; empty: unknown. */
  readonly monitor: string
  /** Progressive timings as `WIDTHxHEIGHT@HZ`, in no order. Rates are whole numbers, as the kernel rounds them. */
  readonly timings: readonly string[]
}

const BLOCK = 128
const HEADER = '00ffffffffffff00'
const DESCRIPTOR = 18
/** E-EDID 1.4 §3.10: four descriptors end the base block. The tag of one that is no timing is in its fourth byte. */
const DESCRIPTORS = 54
const NAME_TAG = 0xfc
const STANDARD_TIMINGS_TAG = 0xfa
/** E-EDID 1.4 §3.8: bit by bit from the highest, bytes 35 to 37. `-`: interlaced. */
const ESTABLISHED = (
  '720x400@70 720x400@88 640x480@60 640x480@67 640x480@73 640x480@75 800x600@56 800x600@60 ' +
  '800x600@72 800x600@75 832x624@75 - 1024x768@60 1024x768@70 1024x768@75 1280x1024@75 1152x870@75'
).split(' ')

const CTA_TAG = 2
/** CTA-861-H §7.5: tags of data blocks. */
const VIDEO_TAG = 2
const VENDOR_TAG = 3
const HDMI_OUI = '030c00'
/** HDMI 1.4b §8.2.3.1: the four formats that its own codes name, as VICs. */
const HDMI_VICS = [95, 94, 93, 98]
/** CTA-861-H §4.1: the progressive formats by their codes, each run as its first code, resolution and rates. */
const VICS = vicTable(
  '1 640x480 60,2 720x480 60 60,4 1280x720 60,14 1440x480 60 60,16 1920x1080 60,17 720x576 50 50,19 1280x720 50,' +
    '29 1440x576 50 50,31 1920x1080 50 24 25 30,35 2880x480 60 60,37 2880x576 50 50,41 1280x720 100,' +
    '42 720x576 100 100,47 1280x720 120,48 720x480 120 120,52 720x576 200 200,56 720x480 240 240,' +
    '60 1280x720 24 25 30,63 1920x1080 120 100,65 1280x720 24 25 30 50 60 100 120,' +
    '72 1920x1080 24 25 30 50 60 100 120,79 1680x720 24 25 30 50 60 100 120,86 2560x1080 24 25 30 50 60 100 120,' +
    '93 3840x2160 24 25 30 50 60,98 4096x2160 24 25 30 50 60,103 3840x2160 24 25 30 50 60,108 1280x720 48 48,' +
    '110 1680x720 48,111 1920x1080 48 48,113 2560x1080 48,114 3840x2160 48,115 4096x2160 48,' +
    '116 3840x2160 48 100 120 100 120,121 5120x2160 24 25 30 48 50 60 100,193 5120x2160 120,' +
    '194 7680x4320 24 25 30 48 50 60 100 120 24 25 30 48 50 60 100 120,210 10240x4320 24 25 30 48 50 60 100 120,' +
    '218 4096x2160 100 120',
)

/** Whatever the bytes: what is broken says nothing, an extension that is broken nothing beyond the base block. */
export function readEdid(bytes: Buffer): Edid {
  const base = blockAt(bytes, 0)
  if (base?.toString('hex', 0, 8) !== HEADER) return { monitor: '', timings: [] }
  const descriptors = [0, 1, 2, 3].map(n =>
    base.subarray(DESCRIPTORS + n * DESCRIPTOR, DESCRIPTORS + (n + 1) * DESCRIPTOR),
  )
  const tagged = (tag: number) => descriptors.filter(one => one.readUInt16LE(0) === 0 && one[3] === tag)
  const revision = byte(base, 19)
  const timings = [
    ...ESTABLISHED.filter((_, at) => byte(base, 35 + (at >> 3)) & (0x80 >> (at & 7))),
    ...standardTimings(base.subarray(38, 54), revision),
    ...tagged(STANDARD_TIMINGS_TAG).flatMap(one => standardTimings(one.subarray(5, 17), revision)),
    ...descriptors.flatMap(detailedTiming),
  ]
  // The kernel hands out the blocks that it has read: their number counts, not the one that the base block announces.
  for (let at = BLOCK; at + BLOCK <= bytes.length; at += BLOCK) timings.push(...ctaTimings(blockAt(bytes, at)))
  const name = tagged(NAME_TAG).map(one => printable(one.toString('latin1', 5)))
  return { monitor: name.find(Boolean) ?? productId(base), timings: [...new Set(timings)].filter(one => one !== '-') }
}

/** A block whose bytes sum up to 0 (E-EDID 1.4 §3.11). */
function blockAt(bytes: Buffer, at: number): Buffer | undefined {
  const block = bytes.subarray(at, at + BLOCK)
  return block.length === BLOCK && block.reduce((sum, one) => sum + one, 0) % 256 === 0 ? block : undefined
}

/** E-EDID 1.4 §3.10.3.4: ends in a line feed. The characters beyond ASCII are of code page 437, and rarely meant. */
function printable(text: string): string {
  return (text.split('\n')[0] ?? '').replace(/[^ -~]+/g, '').trim()
}

/** E-EDID 1.4 §3.4: three letters of five bits each, and the maker's number of the product. */
function productId(base: Buffer): string {
  const maker = base.readUInt16BE(8)
  const letters = [10, 5, 0].map(shift => String.fromCharCode(0x40 + ((maker >> shift) & 0x1f)))
  return letters.join('') + base.readUInt16LE(10).toString(16).toUpperCase().padStart(4, '0')
}

/** E-EDID 1.4 §3.9: pairs of width and shape. Before revision 3 the first shape was a square. */
function standardTimings(pairs: Buffer, revision: number): string[] {
  const shapes = [revision < 3 ? 1 : 10 / 16, 3 / 4, 4 / 5, 9 / 16]
  const found: string[] = []
  for (let at = 0; at < pairs.length; at += 2) {
    const width = (byte(pairs, at) + 31) * 8
    const shape = byte(pairs, at + 1)
    // Unused ones are 01 01; a first byte of 0 is reserved.
    if (width > 256 || (width === 256 && shape !== 1))
      found.push(timing(width, Math.floor(width * (shapes[shape >> 6] ?? 1)), (shape & 0x3f) + 60))
  }
  return found
}

/** E-EDID 1.4 §3.10.2: none where the clock is 0, which marks another descriptor, and none that is interlaced. */
function detailedTiming(one: Buffer): string[] {
  const pixels = one.readUInt16LE(0) * 10_000
  const sum = (low: number, high: number, shift: number) => byte(one, low) | (((byte(one, high) >> shift) & 15) << 8)
  const width = sum(2, 4, 4)
  const height = sum(5, 7, 4)
  const hz = Math.round(pixels / ((width + sum(3, 4, 0)) * (height + sum(6, 7, 0))))
  return byte(one, 17) & 0x80 || !width || !height || !hz ? [] : [timing(width, height, hz)]
}

/** CTA-861-H §7: data blocks from byte 4 up to the offset in byte 2, detailed timings from there on. */
function ctaTimings(block: Buffer | undefined): string[] {
  const end = block?.[2] ?? 0
  if (block?.[0] !== CTA_TAG || end < 4 || end >= BLOCK) return []
  const found: string[] = []
  for (let at = 4, next = at; at < end; at = next) {
    next = at + 1 + (byte(block, at) & 0x1f)
    if (next <= end)
      found.push(...vics(byte(block, at) >> 5, block.subarray(at + 1, next)).flatMap(vic => VICS[vic] ?? []))
  }
  for (let at = end; at + DESCRIPTOR < BLOCK; at += DESCRIPTOR)
    found.push(...detailedTiming(block.subarray(at, at + DESCRIPTOR)))
  return found
}

/** The codes of a data block: those of a video block, and the ones that HDMI 1.4 hid in its own for lack of a VIC. */
function vics(tag: number, data: Buffer): number[] {
  // CTA-861-H §7.5.1: 129 to 192 are 1 to 64, and native.
  if (tag === VIDEO_TAG) return [...data].map(code => (code > 128 && code < 193 ? code - 128 : code))
  if (tag !== VENDOR_TAG || data.toString('hex', 0, 3) !== HDMI_OUI) return []
  const flags = byte(data, 7)
  if (!(flags & 0x20)) return []
  const at = 9 + (flags & 0x80 ? 2 : 0) + (flags & 0x40 ? 2 : 0)
  return [...data.subarray(at + 1, at + 1 + (byte(data, at) >> 5))].map(code => HDMI_VICS[code - 1] ?? 0)
}

function vicTable(runs: string): Readonly<Record<number, string>> {
  const table: Record<number, string> = {}
  for (const run of runs.split(',')) {
    const [first, resolution, ...rates] = run.split(' ')
    for (const [at, hz] of rates.entries()) table[Number(first) + at] = `${resolution}@${hz}`
  }
  return table
}

function timing(width: number, height: number, hz: number): string {
  return `${width}x${height}@${hz}`
}

function byte(bytes: Buffer, at: number): number {
  return bytes[at] ?? 0
}
