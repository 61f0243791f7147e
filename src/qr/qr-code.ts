/** QR codes (ISO/IEC 18004) of level L in byte mode: for a screen, where nothing covers them. */
import { alignmentPositions, codewordsOf } from './codewords.ts'
import { penalty } from './penalty.ts'

const MASKS: readonly ((x: number, y: number) => number)[] = [
  (x, y) => (x + y) % 2,
  (_, y) => y % 2,
  x => x % 3,
  (x, y) => (x + y) % 3,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2,
  (x, y) => ((x * y) % 2) + ((x * y) % 3),
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
]
const LEVEL_L = 1

/** Modules by row: true for dark. While a code is drawn, undefined for modules that are free for data. */
type Modules = (boolean | undefined)[][]

/** The rows of the code, without its quiet zone of 4 modules. @throws {RangeError} if the text is too long. */
export function qrCode(text: string): readonly (readonly boolean[])[] {
  const { version, codewords } = codewordsOf(text)
  const patterns = functionPatterns(version)
  const candidates = MASKS.map((mask, number) => {
    const modules = patterns.map(row => [...row])
    drawFormat(modules, number)
    drawData(modules, codewords, mask)
    return modules.map(row => row.map(module => module === true))
  })
  return candidates.reduce((best, other) => (penalty(other) < penalty(best) ? other : best))
}

function functionPatterns(version: number): Modules {
  const size = version * 4 + 17
  const modules: Modules = Array.from({ length: size }, () => new Array<undefined>(size).fill(undefined))
  for (let at = 0; at < size; at++) {
    set(modules, 6, at, at % 2 === 0)
    set(modules, at, 6, at % 2 === 0)
  }
  const far = size - 4
  for (const [x, y] of [
    [3, 3],
    [far, 3],
    [3, far],
  ] as const)
    square(modules, x, y, 4, [2, 4])
  const positions = alignmentPositions(version)
  const last = positions.length - 1
  positions.forEach((x, column) => {
    positions.forEach((y, row) => {
      const isCorner = (column === 0 && row % last === 0) || (column === last && row === 0)
      if (!isCorner) square(modules, x, y, 2, [1])
    })
  })
  if (version >= 7) drawVersion(modules, version)
  return modules
}

/** Draws concentric squares around a center: dark, except for the light ones. Squares outside the code are left out. */
function square(modules: Modules, x: number, y: number, radius: number, light: readonly number[]): void {
  for (let dy = -radius; dy <= radius; dy++)
    for (let dx = -radius; dx <= radius; dx++)
      set(modules, x + dx, y + dy, !light.includes(Math.max(Math.abs(dx), Math.abs(dy))))
}

/** Draws level and mask, twice (§7.9). */
function drawFormat(modules: Modules, mask: number): void {
  const size = modules.length
  const data = (LEVEL_L << 3) | mask
  const bits = ((data << 10) | remainder(data, 10, 0x537)) ^ 0x5412
  const bit = (at: number) => ((bits >> at) & 1) === 1
  for (let at = 0; at < 15; at++) {
    const inColumn = at < 6 ? at : at < 8 ? at + 1 : size - 15 + at
    const inRow = at < 8 ? size - 1 - at : at === 8 ? 7 : 14 - at
    set(modules, 8, inColumn, bit(at))
    set(modules, inRow, 8, bit(at))
  }
  set(modules, 8, size - 8, true)
}

/** Draws the version, twice, from version 7 on (§7.10). */
function drawVersion(modules: Modules, version: number): void {
  const bits = (version << 12) | remainder(version, 12, 0x1f25)
  for (let at = 0; at < 18; at++) {
    const far = modules.length - 11 + (at % 3)
    const near = Math.floor(at / 3)
    const isDark = ((bits >> at) & 1) === 1
    set(modules, far, near, isDark)
    set(modules, near, far, isDark)
  }
}

/** The remainder of a BCH code. */
function remainder(data: number, length: number, polynomial: number): number {
  let rest = data
  for (let at = 0; at < length; at++) rest = (rest << 1) ^ ((rest >> (length - 1)) * polynomial)
  return rest
}

/** Draws data in columns of two from the right, upwards and downwards in turn (§7.7.3). */
function drawData(modules: Modules, codewords: readonly number[], mask: (x: number, y: number) => number): void {
  const size = modules.length
  let bit = 0
  for (let right = size - 1; right > 0; right -= 2) {
    // The column of the timing pattern is skipped.
    if (right === 6) right = 5
    for (let step = 0; step < size; step++) {
      const y = ((right + 1) & 2) === 0 ? size - 1 - step : step
      for (const x of [right, right - 1]) {
        if (modules[y]?.[x] !== undefined) continue
        const isDark = (((codewords[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1
        set(modules, x, y, isDark !== (mask(x, y) === 0))
        bit++
      }
    }
  }
}

function set(modules: Modules, x: number, y: number, isDark: boolean): void {
  const row = modules[y]
  if (row && x >= 0 && x < modules.length) row[x] = isDark
}
