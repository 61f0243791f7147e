/** Whether a name matches a pattern of the shell, as fnmatch(3) without flags has it: `*`, `?`, `[a-z]`, `[!a]`, `\*`. */
export function globMatches(pattern: string, name: string): boolean {
  // A set in brackets (a bracket that comes first in it is one of its own), an escape, or one character.
  const source = pattern.replace(
    /\[([!^]?)(\][^\]]*|[^\]]+)\]|\\?./gs,
    (piece, not: string | undefined, set: string) => {
      if (not !== undefined) return `[${not && '^'}${set.replace(/[\\\]^[]/g, '\\$&')}]`
      if (piece === '*') return '.*'
      if (piece === '?') return '.'
      return piece.slice(-1).replace(/[^\w]/g, '\\$&')
    },
  )
  try {
    return new RegExp(`^${source}$`, 's').test(name)
  } catch {
    // A range that runs backwards fits nothing.
    return false
  }
}
