/**
 * weston.ini(5): sections that may repeat, `key=value` lines, comments on lines of their own. As in weston's own parser,
 * there are no continuation lines, white space around values is ignored but white space around keys is not, and the first
 * of several assignments counts. More lenient than that parser, which rejects a whole file for one malformed line.
 */

const LINE = /^\[([^\]]*)\]\s*$|^([^#[=][^=]*)=/
/** The length of a chain of `same-as` at which weston gives up. */
const MAX_CLONES = 10

/** The value of `key` in the section of an output: the first `[output]` with this `name`. */
export function getOutput(text: string, name: string, key: string): string | undefined {
  const lines = linesOf(text)
  return valueIn(lines, outputIn(lines, name)?.get(key))
}

/** The output whose section applies to this one. With `same-as`, its own section does not apply (weston-drm(7)). */
export function outputShownBy(text: string, name: string): string {
  let at = name
  for (let clones = 0; clones < MAX_CLONES; clones++) {
    const other = getOutput(text, at, 'same-as')
    if (other === undefined) break
    at = other
  }
  return at
}

/** The text with `key` set in the section of an output, which is added if missing. Every other byte is kept. */
export function setOutput(text: string, name: string, key: string, value: string): string {
  const lines = linesOf(text)
  const end = /\r?\n/.exec(text)?.[0] ?? '\n'
  const output = outputIn(lines, name)
  const at = output?.get(key)
  if (at !== undefined) {
    lines[at] = replaceValue(lines[at] ?? '', value)
    return lines.join('')
  }
  const line = `${key}=${value}${end}`
  const last = output?.get('name') ?? lines.length - 1
  if (lines[last] && !lines[last].endsWith('\n')) lines[last] += end
  lines.splice(last + 1, 0, output ? line : `${text && end}[output]${end}name=${name}${end}${line}`)
  return lines.join('')
}

/** Lines, each with its line break. */
function linesOf(text: string): string[] {
  return text.split(/(?<=\n)/)
}

/** The index of the first line of each key in the section of an output. */
function outputIn(lines: readonly string[], name: string): ReadonlyMap<string, number> | undefined {
  let keys: Map<string, number> | undefined
  for (const [at, line] of [...lines, '[]'].entries()) {
    const [, section, key] = LINE.exec(line) ?? []
    if (section !== undefined) {
      if (valueIn(lines, keys?.get('name')) === name) return keys
      keys = section === 'output' ? new Map() : undefined
    } else if (key && !keys?.has(key)) keys?.set(key, at)
  }
  return undefined
}

function valueIn(lines: readonly string[], at: number | undefined): string | undefined {
  return at === undefined ? undefined : lines[at]?.replace(/^[^=]*=/, '').trim()
}

/** Keeps the white space around the value. */
function replaceValue(line: string, value: string): string {
  const start = /^[^=]*=[ \t]*/.exec(line)?.[0].length ?? 0
  return line.slice(0, start) + value + line.slice(Math.max(start, line.trimEnd().length))
}
