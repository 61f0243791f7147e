/** The host table, hosts(5). */

const LOCAL_NAME = '127.0.1.1'

/**
 * The table with `previous` renamed to `next` on the 127.0.1.1 line, where Debian keeps the host's own name. Aliases,
 * comments and the domain of `previous.domain` are kept, unless `next` has a domain of its own. A table without that line
 * is returned unchanged.
 */
export function renameLocalHost(text: string, previous: string | undefined, next: string): string {
  const lines = text.split('\n')
  // Aliases may share its first label.
  if (previous === next && lines.some(line => isLocal(line) && namesOf(line).includes(next))) return text
  const label = firstLabel(previous ?? '')
  const isKnown = lines.some(line => isLocal(line) && namesOf(line).some(name => firstLabel(name) === label))
  return lines.map(line => (isLocal(line) ? renameLine(line, isKnown ? label : undefined, next) : line)).join('\n')
}

function renameLine(line: string, previous: string | undefined, next: string): string {
  const comment = line.indexOf('#')
  const body = comment < 0 ? line : line.slice(0, comment)
  const names = namesOf(line)
  if (names.length === 0) return `${body.trimEnd()}\t${next}${comment < 0 ? '' : ` ${line.slice(comment)}`}`
  // If the old name is unknown, take the first label of the first name: that is what Debian's installer wrote.
  const old = previous ?? firstLabel(names[0] ?? '')
  const label = firstLabel(next)
  const isQualified = names.some(name => name !== old && firstLabel(name) === old)
  const start = body.indexOf(LOCAL_NAME) + LOCAL_NAME.length
  const renamed = body.slice(start).replace(/\S+/g, word => {
    const name = word.toLowerCase()
    if (firstLabel(name) !== old) return word
    if (name === old) return isQualified ? label : next
    return label === next ? next + word.slice(old.length) : next
  })
  return body.slice(0, start) + renamed + (comment < 0 ? '' : line.slice(comment))
}

function isLocal(line: string): boolean {
  return line.trimStart().split(/\s/, 1)[0] === LOCAL_NAME
}

/** The names on a line, in lower case: names are case-insensitive (RFC 4343). */
function namesOf(line: string): string[] {
  return line.toLowerCase().replace(/#.*/s, '').trim().split(/\s+/).slice(1)
}

function firstLabel(name: string): string {
  return name.split('.', 1)[0] ?? ''
}
