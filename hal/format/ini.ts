/** Unit-file syntax, systemd.syntax(7): sections, assignments that may repeat, comments, continued lines. */

interface Statement {
  readonly section: string
  /** Of an assignment; empty for the section's own line. */
  readonly key: string
  readonly value: string
  /** Its lines in the text: from the first up to, not including, `end`. */
  readonly start: number
  readonly end: number
}

const COMMENT = /^\s*[#;]/
/** Ends in a backslash that no other one escapes. */
const GOES_ON = /(?<!\\)(\\\\)*\\\r?$/

/**
 * Every value that `key` is given in `section`, in their order. What an empty one means (for most lists: forget what came
 * before) is the key's own affair.
 */
export function getValues(text: string, section: string, key: string): readonly string[] {
  return statements(text.split('\n'))
    .filter(statement => statement.section === section && statement.key === key)
    .map(statement => statement.value)
}

/** The text with `key` given these values in `section`, one line each, and no others. Every other line stays. */
export function setValues(text: string, section: string, key: string, values: readonly string[]): string {
  const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n')
  const own = statements(lines).filter(statement => statement.section === section)
  const present = own.filter(statement => statement.key === key)
  let at = present[0]?.start ?? own[0]?.end ?? 0
  for (const { start, end } of present.toReversed())
    lines.splice(start, end - start, ...lines.slice(start, end).filter(line => COMMENT.test(line)))
  if (at === 0 && values.length > 0) at = lines.push(...(lines.length > 0 ? [''] : []), `[${section}]`)
  else if (present.length === 0 && GOES_ON.test(lines[at - 1] ?? '')) lines.splice(at++, 0, '')
  lines.splice(at, 0, ...values.map(value => `${key}=${value}`))
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}

/** A line that ends in a backslash goes on in the next; comments in between are passed over. */
function statements(lines: readonly string[]): Statement[] {
  const found: Statement[] = []
  let section = ''
  let logical = ''
  let start = 0
  let end = 0
  for (const [at, line] of lines.entries()) {
    const isComment = COMMENT.test(line)
    if (!isComment) {
      if (logical === '') start = at
      end = at + 1
      logical += line.trimStart().replace(GOES_ON, '$1 ')
    }
    if ((isComment || GOES_ON.test(line)) && at < lines.length - 1) continue
    const [, name, key = '', value = ''] = /^\[(.*)\]$|^([^=]+)=(.*)$/s.exec(logical.trim()) ?? []
    section = name ?? section
    if (name ?? key) found.push({ section, key: key.trim(), value: value.trim(), start, end })
    logical = ''
  }
  return found
}
