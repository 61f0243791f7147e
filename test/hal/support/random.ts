/** Numbers from 0 up to, not including, `below`. */
export type Random = (below: number) => number

/** A seed for a property's test: the same one each time, so that a run says something of the change and not of its luck. */
export const SEED = Number(process.env.SEED ?? 1)

/** mulberry32: the same numbers for the same seed. */
export function randomFrom(seed: number): Random {
  let state = seed
  return below => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

export function pick<T>(random: Random, from: readonly T[]): T {
  const one = from[random(from.length)]
  if (one === undefined) throw new RangeError('nothing to pick from')
  return one
}

/** Up to `most` of these pieces, one after the other. */
export function textOf(random: Random, pieces: readonly string[], most: number): string {
  return Array.from({ length: random(most + 1) }, () => pick(random, pieces)).join('')
}

/** Any text without control characters and lone surrogates: a third ASCII, the rest from everywhere. */
export function wordsOf(random: Random): string {
  let value = ''
  for (let length = 1 + random(24); length > 0; length--) {
    const point = random(3) === 0 ? random(0x110000) : random(0x7f)
    const character = String.fromCodePoint(point)
    if (!/\p{Cc}|\p{Cs}/u.test(character)) value += character
  }
  return value || '-'
}
