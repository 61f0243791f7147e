/** The names that a line may begin with, in the form used in the file. */
const NAMES = [
  'hostname',
  'name',
  'api-key',
  'wifi-ssid',
  'wifi-password',
  'wifi-country',
  'address',
  'gateway',
  'dns',
] as const
export type Name = (typeof NAMES)[number]
/** The path of an issuer's file, next to receiver.txt. */
export type IssuerFile = `issuers/${string}.json`
/**
 * Values by name; for an issuer, the JSON in its file. `link` is in no file: the kind of interface that the address is for,
 * `ether` or `wlan`.
 */
export type Given = Readonly<Partial<Record<Name | IssuerFile | 'link', string>>>

/** A setting that was found in a line. */
export interface Assignment {
  /** Line number, from 1. */
  readonly number: number
  readonly value: string
}

export interface Parsed {
  readonly lines: Readonly<Partial<Record<Name, Assignment>>>
  /** Clauses that never quote a value. */
  readonly mistakes: readonly string[]
}

const BYTE_ORDER_MARK = '\u{feff}'
/** A name that may be quoted in an error, because it cannot be a secret that was put in the wrong place. */
const PLAIN_NAME = /^[a-z0-9-]{1,32}$/
const QUOTED = /^(["'])(.*)\1$/s
const SECRETS: readonly string[] = ['api-key', 'wifi-password'] satisfies Name[]
const COMMENT = /^[#\s]+/
const SETTING = /^\s*[^#\s]/

/**
 * Parses the lines `NAME=VALUE` of receiver.txt. Names are in any case, with `-` or `_`. Blanks around names and values are
 * ignored, and quotes around a value are removed. A name with an empty value sets nothing.
 */
export function parseReceiverTxt(text: string): Parsed {
  const lines: Partial<Record<Name, Assignment>> = {}
  const mistakes: string[] = []
  for (const [at, raw] of withoutMark(text).split('\n').entries()) {
    const [number, line] = [at + 1, raw.trim()]
    if (line === '' || line.startsWith('#')) continue
    const cut = line.indexOf('=')
    if (cut < 0) {
      mistakes.push(`line ${number}: has no =; write it as hostname=lobby`)
      continue
    }
    const written = nameIn(line)
    const value = line
      .slice(cut + 1)
      .trim()
      .replace(QUOTED, '$2')
    if (value === '') continue
    const name = NAMES.find(name => name === written)
    if (!name) mistakes.push(`line ${number}: ${unknown(written)}`)
    else if (lines[name]) mistakes.push(`line ${number}: ${name} is set twice`)
    else lines[name] = { number, value }
  }
  return { lines, mistakes }
}

/** Returns the text before the `=` of a line, also of one that is commented out, spelled like the names above. */
function nameIn(line: string): string {
  return line.slice(0, line.indexOf('=')).replace(COMMENT, '').trim().toLowerCase().replaceAll('_', '-')
}

function unknown(name: string): string {
  const what = PLAIN_NAME.test(name) ? `"${name}"` : 'the text before the ='
  return `${what} is not a setting; use ${NAMES.slice(0, -1).join(', ')} or ${NAMES.at(-1)}`
}

/** Returns the text with each setting commented out, and without its secrets. */
export function commentedOut(text: string): string {
  const lines = withoutMark(text)
    .split('\n')
    .map(line => (SECRETS.includes(nameIn(line)) ? line.replace(/=.*?(\r?)$/s, '=$1') : line).replace(SETTING, '#$&'))
  return lines.join('\n')
}

function withoutMark(text: string): string {
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text
}
