export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject
export type JsonObject = { [name: string]: JsonValue }

/** Maximum number of values in a document: more than any configuration has, yet few enough to validate quickly. */
const MAX_VALUES = 1_024
/** Maximum nesting depth: more than any valid document has, and far from overflowing recursive code. */
const MAX_DEPTH = 32

/** `ignoreBOM` leaves a byte-order mark in the text, so that the JSON parser refuses it (RFC 8259 §8.1). */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Parses UTF-8 JSON. Refuses some documents that JSON.parse accepts: objects with duplicate names (RFC 8259 §4 leaves open
 * which one counts, and two readers of a token or a patch must not differ), more than 32 levels, and more than 1,024 values.
 *
 * @throws {SyntaxError} with a clause for the sender, such as `not UTF-8`.
 */
export function parseJson(bytes: Uint8Array): JsonValue {
  const text = decode(bytes)
  let value: JsonValue
  try {
    value = JSON.parse(text)
  } catch {
    throw new SyntaxError('not JSON')
  }
  refuseDuplicates(text)
  return value
}

/**
 * Formats JSON on one line. Escapes three characters that JSON allows in strings, but that some readers treat as the end of
 * a line: the Unicode line breaks (UAX #14, BK and NL) that are not control characters in JSON.
 */
export function toJsonLine(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u0085\u2028\u2029]/g,
    end => `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/**
 * Formats canonical JSON (RFC 8785): the same text for the same value, in any program. Names are sorted by UTF-16 code
 * units, and numbers and strings are written as in ECMAScript.
 *
 * @throws {TypeError} for values that it cannot express: a number that is not finite, an unpaired surrogate.
 */
export function toCanonicalJson(value: unknown): string {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`${value} is no number in JSON`)
  if (typeof value === 'string' && !value.isWellFormed()) throw new TypeError('a string has an unpaired surrogate')
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join(',')}]`
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return `{${members.map(([name, member]) => `${toCanonicalJson(name)}:${toCanonicalJson(member)}`).join(',')}}`
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Returns a name or an index as a step of a JSON pointer (RFC 6901 §3). */
export function pointerStep(name: string | number): string {
  return `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new SyntaxError('not UTF-8')
  }
}

const [QUOTE, COMMA, COLON, OPEN_ARRAY, BACKSLASH, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [
  0x22, 0x2c, 0x3a, 0x5b, 0x5c, 0x5d, 0x7b, 0x7d,
] as const

/** Refuses duplicate names. `text` is known to be valid JSON, so a string before a colon is a name. */
function refuseDuplicates(text: string): void {
  const open: (Set<string> | undefined)[] = []
  let values = 1
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    switch (code) {
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        if (open.push(code === OPEN_OBJECT ? new Set() : undefined) > MAX_DEPTH)
          throw new SyntaxError(`more than ${MAX_DEPTH} levels`)
        break
      case CLOSE_OBJECT:
      case CLOSE_ARRAY:
        open.pop()
        break
      case COMMA:
        if (++values > MAX_VALUES) throw new SyntaxError(`more than ${MAX_VALUES} values`)
        break
      case QUOTE: {
        const start = at
        for (at++; text.charCodeAt(at) !== QUOTE; at++) if (text.charCodeAt(at) === BACKSLASH) at++
        const literal = text.slice(start, at + 1)
        while (isSpace(text.charCodeAt(at + 1))) at++
        if (text.charCodeAt(at + 1) !== COLON) break
        const name: string = literal.includes('\\') ? JSON.parse(literal) : literal.slice(1, -1)
        const names = open.at(-1)
        if (names?.has(name)) throw new SyntaxError(`duplicate name ${JSON.stringify(name.slice(0, 64))} in an object`)
        names?.add(name)
      }
    }
  }
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
}
