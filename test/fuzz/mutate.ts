import type { Random } from '../support/random.ts'

const INTERESTING = [
  0, 1, 9, 10, 13, 0x20, 0x22, 0x23, 0x27, 0x2d, 0x3d, 0x5b, 0x5c, 0x7f, 0x80, 0xc3, 0xed, 0xf0, 0xff,
]
const BLOCK = 32
const MAX_STEPS = 6

export interface Material {
  /** Other inputs, to take parts from. */
  readonly others: readonly Buffer[]
  readonly words: readonly Buffer[]
  /** Pairs that the product compared in vain: the one may be in the input where the other would lead further. */
  readonly compared: readonly (readonly [string, string])[]
  readonly maxLength: number
}

/** An input that differs from another one in a few places. */
export function mutate(input: Buffer, random: Random, material: Material): Buffer {
  let bytes = input
  for (let steps = 1 + random.below(MAX_STEPS); steps > 0; steps--) bytes = step(bytes, random, material)
  return bytes.subarray(0, material.maxLength)
}

function step(bytes: Buffer, random: Random, { others, words, compared }: Material): Buffer {
  const at = random.below(bytes.length + 1)
  const length = Math.min(1 + random.below(random.chance(0.5) ? 4 : BLOCK), bytes.length - at)
  const replace = (by: Uint8Array, removed = 0) => splice(bytes, at, removed, by)
  switch (random.below(11)) {
    case 0:
      return splice(bytes, at, 1, Uint8Array.of((bytes[at] ?? 0) ^ (1 << random.below(8))))
    case 1:
      return splice(bytes, at, 1, Uint8Array.of(random.below(256)))
    case 2:
      return replace(Uint8Array.of(random.pick(INTERESTING)), random.below(2))
    case 3:
      return replace(Uint8Array.of(), length)
    case 4: {
      const from = random.below(bytes.length + 1)
      return replace(bytes.subarray(from, from + 1 + random.below(BLOCK)), random.chance(0.5) ? length : 0)
    }
    case 5:
    case 6:
      return words.length === 0 ? bytes : replace(random.pick(words), random.chance(0.3) ? length : 0)
    case 7:
    case 8: {
      if (compared.length === 0) return bytes
      const pair = random.pick(compared)
      const [from = Buffer.of(), to = Buffer.of()] = (random.chance(0.5) ? pair : pair.toReversed()).map(text =>
        Buffer.from(text),
      )
      const found = bytes.indexOf(from, random.below(bytes.length + 1))
      return found < 0 ? replace(to) : splice(bytes, found, from.length, to)
    }
    case 9: {
      const other = others.length === 0 ? bytes : random.pick(others)
      const from = random.below(other.length + 1)
      return Buffer.concat([bytes.subarray(0, at), other.subarray(from)])
    }
    default: {
      const piece = bytes.subarray(at, at + length)
      return replace(Buffer.concat(Array.from({ length: 1 + random.below(8) }, () => piece)))
    }
  }
}

function splice(bytes: Buffer, at: number, removed: number, by: Uint8Array): Buffer {
  return Buffer.concat([bytes.subarray(0, at), by, bytes.subarray(at + removed)])
}
