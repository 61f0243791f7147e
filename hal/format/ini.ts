/** Unit-file syntax, systemd.syntax(7): sections, keys that may be assigned more than once, comments, continuation lines. */

interface Statement {
  readonly section: string
  /** The key of an assignment; empty for a section header. */
  readonly key: string
  readonly value: string
  /** The range of lines: from `start` up to, but not including, `end`. */
  readonly start: number
  readonly end: number
}

/** A section with its header, or the text before the first header, under an empty name. */
interface Section {
  readonly name: string
  readonly text: string
}

const COMMENT = /^\s*[#;]/
/** A line that ends in a backslash which is not itself escaped. */
const CONTINUES = /(?<!\\)(\\\\)*\\\r?$/

/** A text that was parsed once, to look up several keys. */
export type Ini = readonly Statement[]

export function parseIni(text: string): Ini {
  return statements(text.split('\n'))
}

/**
 * All values that `key` is assigned in `section`, in order. The meaning of an empty value is up to the key; for most lists it
 * discards the values before it (see `getWords`).
 */
export function getValues(text: string | Ini, section: string, key: string): readonly string[] {
  return (typeof text === 'string' ? parseIni(text) : text)
    .filter(statement => statement.section === section && statement.key === key)
    .map(statement => statement.value)
}

/** The words of a list: assignments add to it, and an empty one discards what came before. */
export function getWords(text: string | Ini, section: string, key: string): readonly string[] {
  return sinceReset(getValues(text, section, key)).flatMap(words)
}

/** The assignments of a list that count: those after the last empty one. */
export function sinceReset(values: readonly string[]): readonly string[] {
  return values.slice(values.lastIndexOf('') + 1)
}

export function words(value: string): readonly string[] {
  return value.split(/\s+/).filter(word => word !== '')
}

/** The text with exactly these values for `key` in `section`, one line each. Every other line is kept. */
export function setValues(text: string, section: string, key: string, values: readonly string[]): string {
  const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n')
  const own = statements(lines).filter(statement => statement.section === section)
  const present = own.filter(statement => statement.key === key)
  let at = present[0]?.start ?? own[0]?.end ?? 0
  const kept = withoutStatements(lines, present)
  if (at === 0 && values.length > 0) at = kept.push(...(kept.length > 0 ? [''] : []), `[${section}]`)
  else if (present.length === 0 && CONTINUES.test(kept[at - 1] ?? '')) kept.splice(at++, 0, '')
  kept.splice(at, 0, ...values.map(value => `${key}=${value}`))
  return kept.length === 0 ? '' : `${kept.join('\n')}\n`
}

/**
 * The text cut before each section header, and before the comment above it; the comment above the first header is about
 * the whole text. Joined again, the parts are the text.
 */
export function splitSections(text: string): readonly Section[] {
  const lines = text.split('\n')
  const headers = statements(lines).filter(({ key }) => key === '')
  const starts = headers.map(({ start }, n) => (n === 0 ? start : startOfComment(lines, start)))
  return ['', ...headers.map(({ section }) => section)].map((name, n) => {
    const start = starts[n - 1] ?? 0
    const end = starts[n] ?? lines.length
    const part = lines.slice(start, end).join('\n')
    return { name, text: end < lines.length && end > start ? `${part}\n` : part }
  })
}

function startOfComment(lines: readonly string[], end: number): number {
  let at = end
  while (COMMENT.test(lines[at - 1] ?? '')) at--
  return at
}

/** Comments between the lines of a statement are kept. */
function withoutStatements(lines: readonly string[], dropped: readonly Statement[]): string[] {
  const isDropped = new Set<number>()
  for (const { start, end } of dropped)
    for (let at = start; at < end; at++) if (!COMMENT.test(lines[at] ?? '')) isDropped.add(at)
  return lines.filter((_, at) => !isDropped.has(at))
}

/** Joins continuation lines; comments between them are skipped. */
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
      logical += line.trimStart().replace(CONTINUES, '$1 ')
    }
    if ((isComment || CONTINUES.test(line)) && at < lines.length - 1) continue
    const [, name, key = '', value = ''] = /^\[(.*)\]$|^([^=]+)=(.*)$/s.exec(logical.trim()) ?? []
    section = name ?? section
    if (name !== undefined || key) found.push({ section, key: key.trim(), value: value.trim(), start, end })
    logical = ''
  }
  return found
}
