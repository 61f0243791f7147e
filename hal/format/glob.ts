/** Shell patterns as fnmatch(3) matches them without flags: `*`, `?`, `[a-z]`, `[!a]`, `\*`. */

/** Any number of characters, or one character that passes a test. */
type Token = '*' | ((character: string) => boolean)

/**
 * Whether the whole name matches. Takes at most as many steps as the product of both lengths: the text after a `*` is
 * looked for again only until the next `*`.
 */
export function globMatches(pattern: string, name: string): boolean {
  const tokens = tokensOf([...pattern])
  const characters = [...name]
  let token = 0
  let at = 0
  /** Where to resume when the text after the last `*` does not match: that `*` then takes one more character. */
  let retry: { readonly token: number; at: number } | undefined
  while (at < characters.length) {
    const next = tokens[token]
    if (next === '*') {
      retry = { token: ++token, at }
    } else if (next?.(characters[at] ?? '')) {
      token++
      at++
    } else if (retry) {
      token = retry.token
      at = ++retry.at
    } else return false
  }
  return tokens.slice(token).every(left => left === '*')
}

function tokensOf(pattern: readonly string[]): readonly Token[] {
  const tokens: Token[] = []
  let isUnclosed = false
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at] ?? ''
    const end = character === '[' && !isUnclosed ? endOfSet(pattern, at) : undefined
    if (end !== undefined) {
      tokens.push(setOf(pattern.slice(at + 1, end)))
      at = end
    } else if (character === '*') tokens.push('*')
    else if (character === '?') tokens.push(() => true)
    else {
      // If one set is not closed, no later one is: its bracket is an ordinary character.
      isUnclosed ||= character === '['
      const literal = character === '\\' ? pattern[++at] : character
      tokens.push(one => one === literal)
    }
  }
  return tokens
}

/** The index of the closing bracket; a bracket that comes first belongs to the set. */
function endOfSet(pattern: readonly string[], open: number): number | undefined {
  const first = open + (isNegation(pattern[open + 1]) ? 2 : 1)
  for (let at = first; at < pattern.length; at++) {
    if (pattern[at] === '\\') at++
    else if (pattern[at] === ']' && at > first) return at
  }
  return undefined
}

/** Characters, and ranges such as `a-z`; a range that runs backwards contains nothing. */
function setOf(set: readonly string[]): Token {
  const isNegated = isNegation(set[0])
  const ranges: [first: number, last: number][] = []
  let at = isNegated ? 1 : 0
  const next = () => {
    if (set[at] === '\\') at++
    return set[at++]?.codePointAt(0) ?? -1
  }
  while (at < set.length) {
    const first = next()
    const isRange = set[at] === '-' && at + 1 < set.length
    if (isRange) at++
    ranges.push([first, isRange ? next() : first])
  }
  return character => {
    const code = character.codePointAt(0) ?? -1
    return ranges.some(([first, last]) => first <= code && code <= last) !== isNegated
  }
}

function isNegation(character: string | undefined): boolean {
  return character === '!' || character === '^'
}
