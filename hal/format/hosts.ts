/** The host table, hosts(5). */

const LOCAL_NAME = '127.0.1.1'

/**
 * The table with `previous` renamed to `next` on the line of 127.0.1.1, where Debian keeps the host's own name. The
 * domain of `previous.domain` is kept, aliases and comments too; a table without that line stays as it is.
 */
export function renameLocalHost(text: string, previous: string | undefined, next: string): string {
  return text
    .split('\n')
    .map(line => (line.trimStart().split(/\s/, 1)[0] === LOCAL_NAME ? renameLine(line, previous, next) : line))
    .join('\n')
}

function renameLine(line: string, previous: string | undefined, next: string): string {
  const comment = line.indexOf('#')
  const body = comment < 0 ? line : line.slice(0, comment)
  const names = body.trim().split(/\s+/).slice(1)
  // With an unknown old name, the first label of the first name is the one that Debian's installer wrote there.
  const old = names.some(name => firstLabel(name) === previous) ? previous : firstLabel(names[0] ?? '')
  if (names.length === 0) return `${body.trimEnd()}\t${next}${comment < 0 ? '' : ` ${line.slice(comment)}`}`
  const renamed = body.replace(/\S+/g, word =>
    word !== LOCAL_NAME && firstLabel(word) === old ? next + word.slice(old?.length) : word,
  )
  return renamed + (comment < 0 ? '' : line.slice(comment))
}

function firstLabel(name: string): string {
  return name.split('.', 1)[0] ?? ''
}
