/** The output of `avahi-browse --parsable --resolve`: avahi-browse(1). */

export interface Found {
  readonly name: string
  readonly host: string
  readonly address: string
  readonly port: number
  /** The TXT record. */
  readonly txt: Readonly<Record<string, string>>
}

/** Fields: event, interface, protocol, name, type, domain, host, address, port, TXT strings. */
const FIELDS = 10
/** Sticky: the strings follow each other, and end at the first text that is not a string. */
const TXT_STRING = / ?"((?:[^"\\]|\\.)*)"/y

/** The service in a line; undefined unless the line is about a service that was resolved. */
export function foundIn(line: string): Found | undefined {
  const fields = line.split(';')
  const [event, , , name = '', , , host = '', address = '', port = ''] = fields
  if (event !== '=' || fields.length < FIELDS || !/^\d{1,5}$/.test(port)) return undefined
  // A string may contain semicolons.
  const strings = fields.slice(FIELDS - 1).join(';')
  const txt = texts(strings).map(string => string.split(/=(.*)/s, 2))
  return {
    name: unescaped(name),
    host,
    address,
    port: Number(port),
    txt: Object.fromEntries(txt.map(([key = '', value = '']) => [key, value])),
  }
}

function texts(strings: string): readonly string[] {
  const all: string[] = []
  TXT_STRING.lastIndex = 0
  for (let match = TXT_STRING.exec(strings); match; match = TXT_STRING.exec(strings))
    all.push(unescaped(match[1] ?? ''))
  return all
}

/** Resolves escapes: `\065` is a byte in decimal, and `\.` the character itself. */
function unescaped(text: string): string {
  const bytes: Buffer[] = []
  for (const [, code, character, plain = ''] of text.matchAll(/\\(\d{3})|\\(.)|([^\\]+)/gs))
    bytes.push(code === undefined ? Buffer.from(character ?? plain) : Buffer.of(Number(code) & 0xff))
  return Buffer.concat(bytes).toString()
}
