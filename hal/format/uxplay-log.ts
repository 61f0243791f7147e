/** Reads UxPlay 1.71's messages about the device that is connected, a line at a time. */

/** A device as it describes itself: untrusted text. */
export interface Caller {
  readonly name: string
  readonly model: string
  /** The ID as in `allow`: a MAC address in capitals. */
  readonly deviceId: string
}

/** A device ID that an `allow` can list. UxPlay takes only an exact match. */
export const DEVICE_ID = /^(?:[0-9A-F]{2}:){5}[0-9A-F]{2}$/
/** The end of `connection request from NAME (MODEL) with deviceID = ID`, or all of it unless NAME or MODEL has line feeds. */
const REQUEST = /^(?:connection request from (.*) \(([^()]*)\)|.*) with deviceID = (\S+)$/s
/** Without the blank after it, which is trimmed before a line feed. */
const REQUEST_START = 'connection request from'
/** Comes before a header that the device sent. Without the blank after it, too, because the header may be empty. */
const AGENT = 'Client identified as User-Agent:'
const RESTRICTED = 'client connections have been restricted to those with listed deviceID,'
const ALLOW = /^use "-allow (\S+)" to allow this client to connect\.$/
/** Precedes the connection through which a device plays a video of its own accord (`hls`). */
const REVERSE = 'client requested reverse connection: '
/**
 * Messages that may follow a refusal: the device leaves or goes on, or another one comes, finds UxPlay busy, or speaks another
 * language. Devices choose nothing in them that could be another message.
 */
const NOISE = new RegExp(
  `^(?:${[
    'Accepted IPv[46] client on socket (?<opened>\\d+)',
    'Local : .*',
    'Remote: .*',
    '\\*{3} WARNING: rejecting new connection .*',
    '(?:Connection closed|Removing connection) for socket (?<closed>\\d+)',
    '(?<removed>Disconnecting on software request|\\*{3} ERROR: httpd error in parsing: \\w+)',
    'ignoring AirPlay video streaming request \\(use option -hls to activate HLS support\\)',
    "\\*{3} WARNING: (?:httpd didn't get response|connection from unknown connection type)",
    '\\*{3} WARNING: RAOP not initialized at (?:SET_PARAMETER(?: coverart| metadata)?|FLUSH)',
    '\\*{3} ERROR: httpd(?:: recv socket error \\d+:.*| error in sending data)',
    '\\*{3} ERROR: (?:Mirroring|RAOP) not initialized at SETUP, playing will fail!',
    '\\*{3} ERROR: (?:Invalid (?:pair-setup data|pair-verify data|fp-setup data length)|Incorrect pair-verify signature)',
    '\\*{3} ERROR: SETUP tries to setup stream of unknown type \\d+',
    'client HTTP request POST stop',
    '\\*{3} WARNING: client HTTP request POST fp-setup2 is unhandled',
    '\\*{3} ERROR: only FairPlay version 0x03 is implemented, version is 0x[\\da-f]{2,}',
    'Unhandled Client Request: .*',
  ].join('|')})$`,
)
const REJECTED = '*** WARNING: rejecting new connection '
/** Printed before any device connects. */
export const SERVER_START = 'Initialized server socket(s)'
/** UxPlay draws the PIN in eight lines, and then prints it. */
const PIN_REQUEST = 'client sent PAIR-PIN-START request'
const DRAWN = /^[ 8bdoPY."]*8[ 8bdoPY."]*$/
const PIN = /^\*{3} CLIENT MUST NOW ENTER PIN = "(\d{4})" AS AIRPLAY PASSWORD$/
/** A PIN, wherever it is printed. */
const PRINTED = /\b(pin = "?)\d{1,4}\b/gi
/** Printed once when the device announces itself, and again when it proves that it knows the PIN: then UxPlay is satisfied. */
const ANSWER = 'client requested pair-setup-pin, '
const MASK = '****'

/** A device that was refused. */
export interface Refusal extends Caller {
  /** The index of the last line about it. */
  readonly line: number
  /** How many connections were accepted after it, and are still open. */
  readonly newer: number
}

/**
 * The device that UxPlay has refused because no `allow` lists it; undefined if there is none.
 *
 * UxPlay prints names unescaped, so a line feed in a name, a model or an ID can forge lines. UxPlay's own text comes after
 * them. So the block counts only if nothing but noise follows it, and the name counts only if it stands right before the block,
 * with the same ID. A device can still forge a whole block, because nothing follows the name that it gives for a PIN
 * (`pair-setup-pin:  device_id =`). It gains nothing: it could have asked with the same ID.
 */
export function refusedCaller(lines: readonly string[]): Refusal | undefined {
  const at = lines.findLastIndex(line => !NOISE.test(line))
  const [, deviceId = ''] = ALLOW.exec(lines[at] ?? '') ?? []
  if (!DEVICE_ID.test(deviceId) || lines[at - 1] !== RESTRICTED) return undefined
  const caller = callerIn(lines[at - 2] ?? '')
  const known = caller?.deviceId === deviceId ? caller : { name: '', model: '', deviceId }
  const newer = new Set<string>()
  // UxPlay does not say which connections it removes for what they say: they are taken for those of others.
  let removed = 0
  for (const line of lines.slice(at + 1)) {
    const groups = NOISE.exec(line)?.groups
    if (groups?.removed && removed < newer.size) removed++
    // The number of a socket is used again.
    if (groups?.opened && newer.has(groups.opened) && removed > 0) removed--
    if (groups?.opened) newer.add(groups.opened)
    if (groups?.closed) newer.delete(groups.closed)
  }
  return { ...known, line: at, newer: Math.max(0, newer.size - removed) }
}

/**
 * The last device that asked, if UxPlay let it in; undefined if no line has its ID.
 *
 * Once a device is in, UxPlay also prints text from it (`Client specified timingProtocol=`), which can forge such a line.
 * @param allowed The IDs of the devices that may come, if not all may: a forged line with another ID is skipped.
 */
export function lastCaller(lines: readonly string[], allowed?: ReadonlySet<string>): Caller | undefined {
  const isAgent = (line: string | undefined) => line?.startsWith(AGENT)
  // The end of a name or a model may look like such a header, but then the header itself comes next.
  const callers = lines.map((line, at) => (isAgent(line) && !isAgent(lines[at + 1]) ? undefined : callerIn(line)))
  return callers.findLast(caller => caller && (allowed?.has(caller.deviceId) ?? true))
}

/**
 * The PIN that the connected device asks for: four digits; undefined if it asks for none, or has answered.
 *
 * The PIN counts only if no text from the device was printed before it, because such text may contain line feeds. So a second
 * PIN for the same connection is not found.
 * @param lines All lines printed since the device connected.
 */
export function pinIn(lines: readonly string[]): string | undefined {
  if (isPinAnswered(lines)) return undefined
  const own = lines.findIndex(line => !(NOISE.test(line) || line === PIN_REQUEST || DRAWN.test(line) || PIN.test(line)))
  const trusted = own < 0 ? lines : lines.slice(0, own)
  const [, pin] = PIN.exec(trusted.findLast(line => PIN.test(line)) ?? '') ?? []
  return pin
}

/** Whether the connected device has answered, or goes on without an answer. @param lines Lines printed since it connected. */
export function isPinAnswered(lines: readonly string[]): boolean {
  return lines.filter(line => line.startsWith(ANSWER)).length > 1 || lines.some(line => line.startsWith(REQUEST_START))
}

/** Whether UxPlay plays for the connected device, so that it notices when that is gone. @param lines As of `isPinAnswered`. */
export function hasComeIn(lines: readonly string[]): boolean {
  return lines.some(line => line.startsWith(AGENT) || line.startsWith(REVERSE))
}

/**
 * Whether the connected device has spoken so that UxPlay serves no other one: a connection that says nothing occupies nothing.
 * @param lines As of `isPinAnswered`.
 */
export function hasSpoken(lines: readonly string[]): boolean {
  return lines.some(line => line === PIN_REQUEST || line.startsWith(ANSWER) || line.startsWith(REJECTED))
}

/** A line without a PIN, whether printed or drawn. */
export function withoutPin(line: string): string {
  return DRAWN.test(line) ? MASK : line.replace(PRINTED, `$1${MASK}`)
}

function callerIn(line: string): Caller | undefined {
  const [, name = '', model = '', deviceId = ''] = REQUEST.exec(line) ?? []
  return DEVICE_ID.test(deviceId) ? { name, model, deviceId } : undefined
}
