/**
 * The startup file of UxPlay: options as on its command line, one a line, without the first hyphen. A `#` at the very
 * start of a line makes it a comment.
 *
 * Read as read_config_file() in uxplay.cpp does it since 1.65. Release 1.64 has no quotes: it takes no name with spaces.
 */

/** What of it is a setting. */
export interface Startup {
  /** What is shown to clients, before the host name is appended; undefined for UxPlay's own default. */
  readonly name: string | undefined
  /** The name was taken from the device's, and nobody has changed it since. */
  readonly isDeviceName: boolean
  readonly appendsHostName: boolean
  /** A client must enter a code, or a password. */
  readonly isGuarded: boolean
  /** WIDTHxHEIGHT; undefined for UxPlay's own default. */
  readonly resolution: string | undefined
}

interface Option {
  readonly name: string
  readonly value: string | undefined
  /** As it would stand on a line of its own. */
  readonly raw: string
}

const MARK = "# The device's name: "
/** DNS-SD has 63 bytes for an instance's name (RFC 6763 §4.1.1), and UxPlay puts a MAC address and `@` in front. */
const MAX_NAME_BYTES = 50
/** A code that is shown, once or always the same, or a password: the last of them is in force. */
const GUARDS: readonly string[] = ['pin', 'pw']
/** get_display_settings(): up to four digits each, and up to three for the rate. */
const RESOLUTION = /^0{0,3}([1-9]\d{0,3})x0{0,3}([1-9]\d{0,3})(@\d{1,3})?$/
/** Items end at a space. One that begins with a quote ends at that quote before a space or the end, but not at `\"`. */
const ITEM = /(["'])(.*?)(?:(?<!\\)\1(?= |$)|$)|[^ ]+/gs

export function readStartup(text: string): Startup {
  const lines = text.split('\n')
  const all = lines.flatMap(options)
  const last = (name: string) => all.findLast(option => option.name === name)
  const name = last('n')?.value
  const appendsHostName = !last('nh')
  const [, width, height] = RESOLUTION.exec(last('s')?.value ?? '') ?? []
  return {
    name,
    isDeviceName: name !== undefined && !appendsHostName && lines.includes(MARK + name),
    appendsHostName,
    isGuarded: all.some(option => GUARDS.includes(option.name)),
    resolution: width && `${width}x${height}`,
  }
}

/** Shows this name and no host name after it; with `isDeviceName` it is read as the device's. */
export function setName(text: string, name: string, isDeviceName: boolean): string {
  const unmarked = text
    .split('\n')
    .filter(line => !line.startsWith(MARK))
    .join('\n')
  const lines = [...(isDeviceName ? [MARK + name] : []), `n ${quote(name)}`]
  return replace(unmarked, ['n'], readStartup(text).appendsHostName ? [...lines, 'nh'] : lines)
}

/** Asks clients for a code that is shown to them on the screen; or for nothing, and a password is gone, too. */
export function setGuarded(text: string, isGuarded: boolean): string {
  return replace(text, GUARDS, isGuarded ? ['pin'] : [])
}

/** A refresh rate that stands behind the resolution is kept; an empty one leaves both to UxPlay. */
export function setResolution(text: string, resolution: string): string {
  const present = text
    .split('\n')
    .flatMap(options)
    .findLast(({ name }) => name === 's')
  const rate = RESOLUTION.exec(present?.value ?? '')?.[3] ?? ''
  return replace(text, ['s'], resolution === '' ? [] : [`s ${resolution}${rate}`])
}

/** Why UxPlay would not show a name as it is; undefined where it does. */
export function whyNotName(name: string): string | undefined {
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return `must have at most ${MAX_NAME_BYTES} bytes in UTF-8`
  if (name.startsWith('-')) return 'must not begin with a hyphen'
  if (name.includes('.local')) return 'must not hold .local'
  if (quote(name) === undefined)
    return 'has spaces, and quotes or a last backslash that UxPlay would not take with them'
  return undefined
}

/** The nearest to a device's name that can be written. */
export function nearestName(deviceName: string): string {
  let name = ''
  for (const character of deviceName.replaceAll('.local', '').replace(/^[- ]+/, '')) {
    if (Buffer.byteLength(name + character) > MAX_NAME_BYTES) break
    name += character
  }
  if (quote(name) === undefined) name = name.replace(/["\\]/g, '')
  return name === '' || whyNotName(name) !== undefined ? 'AirPlay' : name
}

/** An item that is read as `value`; undefined where there is none. */
function quote(value: string): string | undefined {
  const marks = /^[^"' ][^ ]*$/.test(value) ? [''] : ['"', "'"]
  return marks.map(mark => mark + value + mark).find(item => options(`n ${item}`)[0]?.value === value)
}

/** The options of a line. A later item that begins with a hyphen is an option, too, with its value after it. */
function options(line: string): Option[] {
  const found: { name: string; value: string | undefined; raw: string }[] = []
  if (line.startsWith('#')) return found
  for (const { 0: item, 2: quoted = item } of line.matchAll(ITEM)) {
    if (quoted === '') continue
    const last = found.at(-1)
    if (!last) found.push({ name: quoted, value: undefined, raw: item })
    else if (quoted.startsWith('-')) found.push({ name: quoted.slice(1), value: undefined, raw: quoted.slice(1) })
    else {
      last.value ??= quoted
      last.raw += ` ${item}`
    }
  }
  return found
}

/** Puts `lines` in the place of every option of these names, or at the end. What else is on a line with them is kept. */
function replace(text: string, names: readonly string[], lines: readonly string[]): string {
  let own = lines
  const kept = (text === '' ? [] : text.replace(/\n$/, '').split('\n')).flatMap(line => {
    const present = options(line)
    const others = present.filter(option => !names.includes(option.name))
    if (others.length === present.length) return [line]
    const replaced = [...own, ...others.map(option => option.raw)]
    own = []
    return replaced
  })
  return [...kept, ...own].map(line => `${line}\n`).join('')
}
