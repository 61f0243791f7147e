/** Unit-file syntax, systemd.syntax(7): sections, assignments that may repeat, comments, continued lines. */

interface Assignment {
  readonly section: string
  readonly key: string
  readonly value: string
  /** Its lines in the text: from the first up to, not including, `end`. */
  readonly start: number
  readonly end: number
}

/**
 * Every value that `key` is given in `section`, in their order. What an empty one means (for most lists: forget what came
 * before) is the key's own affair.
 */
export function getValues(text: string, section: string, key: string): readonly string[] {
  return assignments(text.split('\n'))
    .filter(assignment => assignment.section === section && assignment.key === key)
    .map(assignment => assignment.value)
}

/** The text with `key` given these values in `section`, one line each, and no others. Every other line stays. */
export function setValues(text: string, section: string, key: string, values: readonly string[]): string {
  const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n')
  const present = assignments(lines).filter(assignment => assignment.section === section && assignment.key === key)
  let at = present[0]?.start ?? lines.findIndex(line => line.trim() === `[${section}]`) + 1
  for (const { start, end } of present.toReversed()) lines.splice(start, end - start)
  if (at === 0 && values.length > 0) at = lines.push(...(lines.length > 0 ? [''] : []), `[${section}]`)
  lines.splice(at, 0, ...values.map(value => `${key}=${value}`))
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}

/** A line that ends in a backslash goes on in the next; comments in between are passed over. */
function assignments(lines: readonly string[]): Assignment[] {
  const found: Assignment[] = []
  let section = ''
  let logical = ''
  let start = 0
  for (const [at, raw] of lines.entries()) {
    const line = raw.trim()
    if (line.startsWith('#') || line.startsWith(';')) continue
    if (logical === '') start = at
    const goesOn = line.endsWith('\\')
    logical += goesOn ? `${line.slice(0, -1)} ` : line
    if (goesOn && at < lines.length - 1) continue
    const equals = logical.indexOf('=')
    if (logical.startsWith('[') && logical.endsWith(']')) section = logical.slice(1, -1)
    else if (equals > 0) {
      const key = logical.slice(0, equals).trimEnd()
      found.push({
        section,
        key,
        value: logical.slice(equals + 1).trim(),
        start,
        end: at + 1,
      })
    }
    logical = ''
  }
  return found
}
