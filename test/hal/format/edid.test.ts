import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { readEdid } from '../../../hal/format/edid.ts'
import { needs } from '../../support/needs.ts'
import { Random } from '../../support/random.ts'
import { cta, dataBlock, detailed, edidOf, hdmi, sealed, text } from '../support/edid.ts'

const NOTHING = { monitor: '', timings: [] }
const FULL = edidOf({
  established: [0xff, 0xff, 0x80],
  standard: [
    [0xd1, 0xc0],
    [0x81, 0x80],
    [0xa9, 0x40],
    [0xb3, 0x00],
  ],
  descriptors: [detailed(1920, 1200, 60), text(0xfc, 'Panel 24'), detailed(1280, 800, 75)],
  extensions: [
    cta(
      [dataBlock(1, 0x09, 0x07, 0x07), dataBlock(2, 0x90, 31, 4, 5, 93), hdmi([1, 2, 3, 4], { latency: true })],
      [detailed(2560, 1440, 75), detailed(1920, 540, 60, { interlaced: true })],
    ),
    cta([dataBlock(2, 96, 194)]),
  ],
})

t.test('the name is the product name, without control characters', async t => {
  const cases: readonly (readonly [descriptors: readonly Buffer[], name: string])[] = [
    [[text(0xfc, 'Panel 24')], 'Panel 24'],
    [[text(0xff, 'SERIAL'), detailed(1920, 1080, 60), text(0xfe, 'any'), text(0xfc, 'Last')], 'Last'],
    [[text(0xfc, 'Thirteen long')], 'Thirteen long'],
    [[text(0xfc, '  padded  ')], 'padded'],
    [[text(0xfc, 'a\u001b[2Jb\u0000c')], 'a[2Jbc'],
    [[text(0xfc, 'M\u0081nchen')], 'Mnchen'],
    [[text(0xfc, ''), text(0xfc, 'Second')], 'Second'],
    [[text(0xfc, '')], 'RCV00A5'],
    [[], 'RCV00A5'],
  ]
  for (const [descriptors, name] of cases)
    t.equal(readEdid(edidOf({ product: 0xa5, descriptors })).monitor, name, JSON.stringify(name))
})

t.test('before revision 3, the aspect ratio of 16:10 is 1:1', async t => {
  const standard = [[0x61, 0x00]] as const
  t.strictSame(readEdid(edidOf({ revision: 2, standard })).timings, ['1024x1024@60'])
  t.strictSame(readEdid(edidOf({ revision: 3, standard })).timings, ['1024x640@60'])
})

t.test('broken blocks yield nothing', async t => {
  const plain = edidOf({ descriptors: [detailed(1920, 1080, 60), text(0xfc, 'Panel')] })
  const header = sealed(Buffer.from(plain).fill(1, 0, 1))
  const sum = Buffer.from(plain)
  sum.writeUInt8((sum.readUInt8(60) + 1) % 256, 60)
  for (const [what, bytes] of Object.entries({
    none: Buffer.alloc(0),
    header,
    sum,
    cut: plain.subarray(0, 127),
    zeros: Buffer.alloc(256),
  }))
    t.strictSame(readEdid(bytes), NOTHING, what)
  const timings = ['1920x1080@60']
  for (const [what, bytes] of Object.entries({
    'an extension that is missing': Buffer.concat([sealed(Buffer.from(plain).fill(9, 126, 127))]),
    'an extension that is cut': Buffer.concat([plain, cta([dataBlock(2, 4)]).subarray(0, 100)]),
    'an extension with a wrong sum': Buffer.concat([plain, cta([dataBlock(2, 4)]).fill(7, 127)]),
    'an extension of another kind': Buffer.concat([plain, sealed(cta([dataBlock(2, 4)]).fill(0x70, 0, 1))]),
    'a data block beyond its end': Buffer.concat([plain, sealed(cta([Buffer.from([0x5f, 4])]))]),
    'timings beyond the end': Buffer.concat([plain, sealed(cta([dataBlock(2, 4)]).fill(0xff, 2, 3))]),
  }))
    t.strictSame(readEdid(bytes), { monitor: 'Panel', timings }, what)
})

t.test('no bytes make it throw, loop or return an invalid timing', async t => {
  const random = new Random(20_260_101)
  for (let round = 0; round < 20_000; round++) {
    const bytes = Buffer.from(random.chance(0.2) ? Buffer.alloc(random.below(1025)) : FULL)
    for (let changes = random.below(40); changes > 0 && bytes.length > 0; changes--)
      bytes[random.below(bytes.length)] = random.pick([0, 1, 0x1f, 0x7f, 0xff, random.below(256)])
    // With valid checksums, or the blocks would not be read at all.
    const blocks = Array.from({ length: bytes.length >> 7 }, (_, at) => bytes.subarray(at << 7, (at + 1) << 7))
    const sent = random.chance(0.8)
      ? Buffer.concat(blocks.map(sealed))
      : bytes.subarray(0, random.below(bytes.length + 1))
    const { monitor, timings } = readEdid(sent)
    const isSound =
      /^[ -~]{0,13}$/.test(monitor) &&
      timings.every(one => /^[1-9]\d*x[1-9]\d*@[1-9]\d*$/.test(one)) &&
      new Set(timings).size === timings.length
    if (!isSound) return void t.fail(`round ${round}: ${monitor} ${timings} of ${sent.toString('hex')}`)
  }
  t.pass()
})

/** The codes that are read, and those of interlaced formats, which are skipped. */
const CODES = [
  [1, 2, 3, 4, 5, 6, 7, 10, 11, 16, 17, 18, 19, 20, 21, 22, 25, 26, 31, 32, 33, 34, 39, 40, 41, 44, 45, 46, 47],
  [50, 51, 54, 55, 58, 59, 60, 61, 62, 63, 64, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 117, 118],
  [194, 195, 196, 197, 198, 199],
]

t.test('names and timings are what edid-decode reads', { skip: needs('edid-decode') }, async t => {
  const cases = [
    FULL,
    edidOf({
      descriptors: [text(0xfc, 'Every code')],
      extensions: CODES.map(codes => cta([dataBlock(2, ...codes.map(native))])),
    }),
    ...[
      'receiver/sys/class/drm/card0-HDMI-A-1',
      'raspberry-pi-4/sys/class/drm/card1-HDMI-A-1',
      'x86-box/sys/class/drm/card0-DP-1',
    ].map(name => readFileSync(new URL(`../../fixtures/${name}/edid`, import.meta.url))),
  ]
  const random = new Random(4_711)
  for (let n = 0; n < 60; n++) cases.push(randomEdid(random))
  for (const bytes of cases) {
    const decoded = execFileSync('edid-decode', ['--skip-hex-dump', '--skip-sha'], { input: bytes, encoding: 'utf8' })
    const { monitor, timings } = readEdid(bytes)
    const [expected, wanted] = [decodedTimings(decoded), /Display Product Name: '(.*?) *'/.exec(decoded)?.[1]]
    if (wanted !== monitor || timings.toSorted().join() !== expected.join())
      return void t.strictSame(
        { monitor, timings: timings.toSorted() },
        { monitor: wanted, timings: expected },
        decoded,
      )
  }
  t.pass(`${cases.length} EDIDs`)
})

/** Codes 1 to 64 also exist with a mark for formats that are native to the monitor. */
function native(code: number): number {
  return code <= 64 && code % 3 === 0 ? code + 128 : code
}

/** Lines such as `VIC 16: 1920x1080 60.000000 Hz`, without those of HDMI's own codes. */
function decodedTimings(decoded: string): string[] {
  const lines = decoded.matchAll(/^ +(?!HDMI)[A-Z][\w ]*: +(\d+x\d+)(i?) +([\d.]+) Hz/gm)
  const progressive = [...lines].filter(([, , interlaced]) => interlaced === '')
  return [...new Set(progressive.map(([, resolution, , hz]) => `${resolution}@${Math.round(Number(hz))}`))].sort()
}

function randomEdid(random: Random): Buffer {
  const some = <T>(most: number, make: () => T) => Array.from({ length: random.below(most + 1) }, make)
  const timing = () =>
    detailed(640 + random.below(1_900), 300 + random.below(1_300), 24 + random.below(96), {
      interlaced: random.chance(0.2),
    })
  // Standard timings that VESA's DMT lists: others are computed, and formulas differ.
  const standard = [
    [0x31, 0x40],
    [0x45, 0x40],
    [0x61, 0x40],
    [0x81, 0xc0],
    [0x81, 0x00],
    [0x81, 0x40],
    [0x81, 0x80],
    [0x95, 0x00],
    [0xa9, 0x40],
    [0xb3, 0x00],
    [0xc1, 0x40],
    [0xd1, 0xc0],
    [0xd1, 0x00],
    [0xe1, 0x40],
  ] as const
  return edidOf({
    maker: 'XYZ',
    product: random.below(65_536),
    established: [random.below(256), random.below(256), random.below(2) << 7],
    standard: some(8, () => random.pick(standard)),
    descriptors: [text(0xfc, `Monitor ${random.below(1_000)}`), ...some(3, timing)],
    extensions: some(3, () =>
      cta(
        [
          dataBlock(1, 0x09, 0x07, 0x07),
          dataBlock(2, ...some(20, () => native(random.pick(CODES.flat())))),
          hdmi(
            some(4, () => 1 + random.below(4)),
            { latency: random.chance(0.5) },
          ),
        ],
        some(3, timing),
      ),
    ),
  })
}
