/**
 * The startup file of UxPlay: command line options, one per line, without the first hyphen. A `#` in the first column makes
 * the line a comment.
 *
 * Parsed as by read_config_file() in uxplay.cpp since 1.65. Release 1.64 has no quoting, so names cannot contain spaces.
 */

/** The options that are settings. */
export interface Startup {
  /** The name that clients see, before the host name is appended; undefined for UxPlay's own default. */
  readonly name: string | undefined
  /** Whether the name was written as the device's own name, and has not been edited since. */
  readonly isDeviceName: boolean
  readonly appendsHostName: boolean
  /** Whether clients must enter a code or a password. */
  readonly isGuarded: boolean
  /** WIDTHxHEIGHT; undefined for UxPlay's own default. */
  readonly resolution: string | undefined
  /** Whether devices that no `allow` lists are refused. */
  readonly isRestricted: boolean
  /** The device IDs of all `allow`, as written. */
  readonly allowed: readonly string[]
}

interface Option {
  readonly name: string
  readonly value: string | undefined
  /** The option on a line of its own; undefined if no line is read so, as with the empty name of a lone hyphen. */
  readonly raw: string | undefined
}

const MARK = "# The device's name: "
/** A DNS-SD instance name has at most 63 bytes (RFC 6763 §4.1.1), and UxPlay prefixes a MAC address and `@`. */
const MAX_NAME_BYTES = 50
/** A code shown on the screen, random or fixed, or a password. The last of these options is in force. */
const GUARDS: readonly string[] = ['pin', 'pw']
/** get_display_settings(): up to four digits for width and height, up to three for the rate. */
const RESOLUTION = /^0{0,3}([1-9]\d{0,3})x0{0,3}([1-9]\d{0,3})(@\d{1,3})?$/
/** Items end at a space. A quoted item ends at the same quote before a space or the end of the line, unless escaped. */
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
    isRestricted: last('restrict') !== undefined && last('restrict')?.value !== 'no',
    allowed: all.flatMap(({ name, value }) => (name === 'allow' && value !== undefined ? [value] : [])),
  }
}

/** Sets the name, without an appended host name. With `isDeviceName` it is marked as the device's own. */
export function setName(text: string, name: string, isDeviceName: boolean): string {
  const unmarked = text
    .split('\n')
    .filter(line => !line.startsWith(MARK))
    .join('\n')
  const lines = [...(isDeviceName ? [MARK + name] : []), `n ${quote(name)}`]
  return replace(unmarked, ['n'], readStartup(text).appendsHostName ? [...lines, 'nh'] : lines)
}

/** Requires a code that is shown on the screen; or requires nothing, which removes a password as well. */
export function setGuarded(text: string, isGuarded: boolean): string {
  return replace(text, GUARDS, isGuarded ? ['pin'] : [])
}

/** Keeps the refresh rate of the resolution. An empty resolution removes both, for UxPlay's default. */
export function setResolution(text: string, resolution: string): string {
  const present = text
    .split('\n')
    .flatMap(options)
    .findLast(({ name }) => name === 's')
  const rate = RESOLUTION.exec(present?.value ?? '')?.[3] ?? ''
  return replace(text, ['s'], resolution === '' ? [] : [`s ${resolution}${rate}`])
}

/** Refuses devices that no `allow` lists, or lets everybody in. */
export function setRestricted(text: string, isRestricted: boolean): string {
  return replace(text, ['restrict'], isRestricted ? ['restrict'] : [])
}

/** Why UxPlay would not show a name unchanged; undefined if it would. */
export function whyNotName(name: string): string | undefined {
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return `must not be longer than ${MAX_NAME_BYTES} bytes in UTF-8`
  if (name.startsWith('-')) return 'must not begin with a hyphen'
  if (name.includes('.local')) return 'must not contain .local'
  if (quote(name) === undefined)
    return 'must not combine spaces with these quotes or a final backslash: UxPlay cannot read such a name'
  return undefined
}

/** The closest name to the device's own that UxPlay can read. */
export function nearestName(deviceName: string): string {
  let name = ''
  for (const character of deviceName.replaceAll('.local', '').replace(/^[- ]+/, '')) {
    if (Buffer.byteLength(name + character) > MAX_NAME_BYTES) break
    name += character
  }
  if (quote(name) === undefined) name = name.replace(/["\\]/g, '')
  return name === '' || whyNotName(name) !== undefined ? 'AirPlay' : name
}

/** An item that UxPlay reads as a value of an option; undefined if there is none. */
function quote(value: string): string | undefined {
  return value.startsWith('-') ? undefined : itemOf(value)
}

/** An item that has this text, also at the beginning of a line, where `#` would begin a comment; undefined if there is none. */
function itemOf(text: string): string | undefined {
  const marks = /^[^"' #][^ ]*$/.test(text) ? [''] : ['"', "'"]
  const isRead = (item: string) => {
    const [first, ...more] = item.matchAll(ITEM)
    return more.length === 0 && (first?.[2] ?? first?.[0]) === text
  }
  return text === '' ? undefined : marks.map(mark => mark + text + mark).find(isRead)
}

/** The options on a line. A later item that begins with a hyphen is another option, followed by its value. */
function options(line: string): Option[] {
  const found: { name: string; value: string | undefined; raw: string | undefined }[] = []
  if (line.startsWith('#')) return found
  for (const { 0: item, 2: quoted = item } of line.matchAll(ITEM)) {
    if (quoted === '') continue
    const last = found.at(-1)
    if (!last) found.push({ name: quoted, value: undefined, raw: item })
    else if (quoted.startsWith('-')) {
      const name = quoted.slice(1)
      found.push({ name, value: undefined, raw: itemOf(name) })
    } else {
      last.value ??= quoted
      last.raw &&= `${last.raw} ${item}`
    }
  }
  return found
}

/** Replaces all options of these names by `lines`, or appends them. Other options on the same line are kept. */
function replace(text: string, names: readonly string[], lines: readonly string[]): string {
  let own = lines
  const kept = (text === '' ? [] : text.replace(/\n$/, '').split('\n')).flatMap(line => {
    const present = options(line)
    const others = present.filter(option => !names.includes(option.name))
    if (others.length === present.length) return [line]
    const replaced = [...own, ...others.flatMap(({ raw }) => raw ?? [])]
    own = []
    return replaced
  })
  return [...kept, ...own].map(line => `${line}\n`).join('')
}
