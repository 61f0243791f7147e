/**
 * Files of shell-like assignments: os-release(5), machine-info(5), locale.conf(5).
 *
 * Reads what systemd's own parser reads: single and double quotes, escapes, continuation lines, comments. If a name is
 * assigned more than once, the last assignment counts. Writing changes that assignment alone.
 */

interface Assignment {
  readonly name: string
  readonly value: string
  /** Its range in the text, from the name to the end of the line. */
  readonly start: number
  readonly end: number
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
/** A value that needs no quotes in any parser: the same set that systemd writes without quotes. */
const BARE = /^[A-Za-z0-9@%_+=:,./-]+$/
/** Special within double quotes unless escaped (POSIX, Shell Command Language, 2.2.3). */
const SPECIAL = /["\\`$]/g

export function getValue(text: string, name: string): string | undefined {
  return assignments(text).findLast(assignment => assignment.name === name)?.value
}

/** The text with `name` set to `value`; every other byte is kept. `value` must be a single line. */
export function setValue(text: string, name: string, value: string): string {
  const line = `${name}=${quote(value)}`
  const present = assignments(text).findLast(assignment => assignment.name === name)
  if (present) return text.slice(0, present.start) + line + text.slice(present.end)
  const appended = `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${line}\n`
  // After an unterminated quote, the new line would be part of the quoted value: put it first.
  return getValue(appended, name) === undefined ? `${line}\n${text}` : appended
}

function quote(value: string): string {
  return BARE.test(value) ? value : `"${value.replace(SPECIAL, '\\$&')}"`
}

function assignments(text: string): Assignment[] {
  const found: Assignment[] = []
  for (let at = 0; at < text.length; ) {
    const start = skip(text, at, /[ \t\r\n]/)
    if (start >= text.length) break
    const lineEnd = endOfLine(text, start)
    const length = text.slice(start, lineEnd).indexOf('=')
    if (text[start] === '#' || text[start] === ';' || length < 0) {
      at = lineEnd + 1
      continue
    }
    const name = text.slice(start, start + length).trimEnd()
    const { value, end } = readValue(text, start + length + 1)
    if (NAME.test(name)) found.push({ name, value, start, end })
    at = end + 1
  }
  return found
}

/** Reads quoted and bare pieces up to the end of the line. A backslash at its end continues the line. */
function readValue(text: string, start: number): { value: string; end: number } {
  let value = ''
  /** The length of `value` without trailing unquoted white space. */
  let kept = 0
  let at = skip(text, start, /[ \t]/)
  while (at < text.length && text[at] !== '\n') {
    const character = text[at] ?? ''
    if (character === "'" || character === '"') {
      const quoted = readQuoted(text, at)
      value += quoted.value
      kept = value.length
      at = quoted.end
    } else if (character === '\\') {
      if (text[at + 1] !== '\n') value += text[at + 1] ?? ''
      kept = value.length
      at += 2
    } else {
      value += character
      if (character !== ' ' && character !== '\t' && character !== '\r') kept = value.length
      at++
    }
  }
  return { value: value.slice(0, kept), end: Math.min(at, text.length) }
}

function readQuoted(text: string, open: number): { value: string; end: number } {
  const mark = text[open]
  let value = ''
  let at = open + 1
  for (; at < text.length && text[at] !== mark; at++) {
    if (mark === '"' && text[at] === '\\') {
      at++
      const escaped = text[at] ?? ''
      if (escaped !== '\n') value += '"\\`$'.includes(escaped) ? escaped : `\\${escaped}`
    } else value += text[at]
  }
  return { value, end: at + 1 }
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end < 0 ? text.length : end
}

function skip(text: string, from: number, what: RegExp): number {
  let at = from
  while (at < text.length && what.test(text[at] ?? '')) at++
  return at
}
