/** Reed–Solomon codes over GF(2^8) with the polynomial 0x11D, as QR codes use them (ISO/IEC 18004 §7.5.2). */

const EXP = new Uint8Array(255)
const LOG = new Uint8Array(256)
for (let power = 0, value = 1; power < 255; power++) {
  EXP[power] = value
  LOG[value] = power
  value = (value << 1) ^ (value > 127 ? 0x11d : 0)
}

function multiply(a: number, b: number): number {
  return a === 0 || b === 0 ? 0 : (EXP[((LOG[a] ?? 0) + (LOG[b] ?? 0)) % 255] ?? 0)
}

/** The coefficients of (x - 2^0)(x - 2^1)… of a degree, without the leading 1. */
function generator(degree: number): number[] {
  let terms = [1]
  for (let power = 0; power < degree; power++) {
    const root = EXP[power] ?? 0
    terms = [...terms, 0].map((term, at) => term ^ multiply(terms[at - 1] ?? 0, root))
  }
  return terms.slice(1)
}

/** The error correction of a block of data: the remainder of a polynomial division. */
export function errorCorrection(data: readonly number[], length: number): readonly number[] {
  const divisor = generator(length)
  const remainder = new Array<number>(length).fill(0)
  for (const byte of data) {
    const factor = byte ^ (remainder.shift() ?? 0)
    remainder.push(0)
    divisor.forEach((term, at) => {
      remainder[at] = (remainder[at] ?? 0) ^ multiply(term, factor)
    })
  }
  return remainder
}
