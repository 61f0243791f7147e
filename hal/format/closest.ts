const MAX_EDITS = 2
/** Short words are close to too many others. */
const CHARACTERS_PER_EDIT = 3

/** The candidate that a misspelled word most likely stands for; undefined if none is close. */
export function closest(word: string, candidates: readonly string[]): string | undefined {
  const limit = Math.min(MAX_EDITS, Math.floor(word.length / CHARACTERS_PER_EDIT))
  for (let edits = 1; edits <= limit; edits++) {
    const found = candidates.find(
      candidate => Math.abs(candidate.length - word.length) <= edits && isWithin(edits, word, candidate),
    )
    if (found !== undefined) return found
  }
  return undefined
}

/** Whether at most `edits` edits turn `one` into `other`: a character added, removed, replaced or swapped with the next. */
function isWithin(edits: number, one: string, other: string): boolean {
  if (one === other) return true
  if (one !== '' && one[0] === other[0]) return isWithin(edits, one.slice(1), other.slice(1))
  if (edits === 0) return false
  return (
    isWithin(edits - 1, one.slice(1), other) ||
    isWithin(edits - 1, one, other.slice(1)) ||
    isWithin(edits - 1, one.slice(1), other.slice(1)) ||
    (one[0] === other[1] && one[1] === other[0] && isWithin(edits - 1, one.slice(2), other.slice(2)))
  )
}
