/** avahi.service(5): what avahi-daemon(8) announces by DNS-SD. */
import { xmlText } from './xml.ts'

export interface Announced {
  /** The instance name (RFC 6763 §4.1.1). A name that is too long is cut off. */
  readonly name: string
  readonly services: readonly {
    /** A service type such as `_http._tcp`. */
    readonly type: string
    readonly port: number
    /**
     * The TXT record (RFC 6763 §6). Empty values are left out, and long ones cut off. A list is written with commas, without
     * the items at its end that do not fit.
     */
    readonly txt: Readonly<Record<string, string | readonly string[]>>
  }[]
}

/** Limit on a label (RFC 1035 §2.3.4). */
const MAX_NAME_BYTES = 63
/** Limit on a string in a TXT record (RFC 1035 §3.3.14). */
const MAX_TXT_BYTES = 255

export function serviceGroup({ name, services }: Announced): string {
  const all = services.map(({ type, port, txt }) => {
    const records = Object.entries(txt).map(([key, value]) => [`${key}=`, value] as const)
    const texts = records.flatMap(([key, value]) => (value.length === 0 ? [] : textOf(key, value)))
    const strings = texts.map(text => element('txt-record', text))
    return `  <service>\n${[element('type', type), element('port', `${port}`), ...strings].map(line => `    ${line}\n`).join('')}  </service>\n`
  })
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE service-group SYSTEM "avahi-service.dtd">
<!-- Written by receiverd. -->
<service-group>
  ${element('name', cut(name, MAX_NAME_BYTES))}
${all.join('')}</service-group>
`
}

function element(name: string, text: string): string {
  return `<${name}>${xmlText(text)}</${name}>`
}

function textOf(key: string, value: string | readonly string[]): string {
  if (typeof value === 'string') return cut(key + value, MAX_TXT_BYTES)
  const lists = value.map((_, at) => key + value.slice(0, at + 1).join(','))
  return lists.findLast(list => Buffer.byteLength(list) <= MAX_TXT_BYTES) ?? key
}

/** The beginning of a text, as many whole characters as fit. */
function cut(text: string, maxBytes: number): string {
  let bytes = 0
  let end = 0
  for (const character of text) {
    bytes += Buffer.byteLength(character)
    if (bytes > maxBytes) break
    end += character.length
  }
  return text.slice(0, end)
}
