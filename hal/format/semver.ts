/** Semantic Versioning 2.0.0. As in RAUC, a version may omit its minor and its patch number, which are then 0. */

const NUMBER = '(?:0|[1-9]\\d{0,15})'
const IDENTIFIER = `(?:${NUMBER}|\\d*[A-Za-z-][0-9A-Za-z-]*)`
const VERSION = new RegExp(
  `^(${NUMBER})(?:\\.(${NUMBER})(?:\\.(${NUMBER}))?)?` +
    `(?:-(${IDENTIFIER}(?:\\.${IDENTIFIER})*))?(?:\\+[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*)?$`,
)
/** No real version is longer. */
const MAX_LENGTH = 64

/** Compares the precedence of two versions (§11): below 0 if the second is higher; undefined if either is not a version. */
export function compareVersions(one: string, other: string): number | undefined {
  const [a, b] = [parse(one), parse(other)]
  if (!a || !b) return undefined
  for (const [at, number] of a.numbers.entries()) if (number !== b.numbers[at]) return number - (b.numbers[at] ?? 0)
  // A version comes after its pre-releases.
  if (a.preRelease.length === 0 || b.preRelease.length === 0) return b.preRelease.length - a.preRelease.length
  for (const [at, identifier] of a.preRelease.entries()) {
    const against = b.preRelease[at]
    if (against === undefined) break
    const order = compareIdentifiers(identifier, against)
    if (order !== 0) return order
  }
  return a.preRelease.length - b.preRelease.length
}

function parse(
  text: string,
): { readonly numbers: readonly number[]; readonly preRelease: readonly string[] } | undefined {
  const match = text.length <= MAX_LENGTH ? VERSION.exec(text) : null
  if (!match) return undefined
  const [, major, minor, patch, preRelease] = match
  return { numbers: [major, minor, patch].map(number => Number(number ?? 0)), preRelease: preRelease?.split('.') ?? [] }
}

/** Numbers by their value and before words; words in ASCII order. */
function compareIdentifiers(one: string, other: string): number {
  const [a, b] = [one, other].map(text => (/^\d+$/.test(text) ? Number(text) : Number.NaN))
  if (a === undefined || b === undefined) return 0
  if (Number.isNaN(a) && Number.isNaN(b)) return one < other ? -1 : Number(one > other)
  if (Number.isNaN(a)) return 1
  return Number.isNaN(b) ? -1 : a - b
}
