/**
 * The file of wpa_supplicant.conf(5), as wpa_supplicant 2.10 reads it: global lines, and blocks that end with
 * `}`. A `network` block with a passphrase or a key, or without any protection, is a network of ours; all other lines and
 * blocks, such as those of enterprise networks, are kept as they are.
 */
import { pbkdf2Sync } from 'node:crypto'
import { HalError } from '../errors.ts'
import { KEPT } from '../secret.ts'
import { decodeLossless, encodeLossless } from './lossless.ts'
import { printfDecode } from './printf.ts'

/** A network to join. */
export interface WifiNetwork {
  /** 1 to 32 bytes of UTF-8. */
  readonly ssid: string
  /** A passphrase of 8 to 63 ASCII characters, or a key of 64 hexadecimal digits; "" for an open network; or `KEPT`. */
  readonly password: string
  /** Whether the network hides its name, so that clients must ask for it. */
  readonly hidden: boolean
}

export interface WpaConfiguration {
  /** ISO 3166-1, two capital letters; "" if unknown. It decides which channels may be used. */
  readonly country: string
  /** In order of preference. */
  readonly networks: readonly WifiNetwork[]
}

/** Limit on the networks that are listed. Further ones in a file are kept. */
export const MAX_NETWORKS = 8
/** Limit on a network's name (IEEE 802.11). */
export const MAX_SSID_BYTES = 32
/** Where wpa_cli(8) reaches the daemon, unless the file says otherwise. */
export const CONTROL_FOLDER = '/run/wpa_supplicant'

const COUNTRY = /^[A-Z]{2}$/
/** IEEE 802.11: a passphrase. */
const PASSPHRASE = /^[ -~]{8,63}$/
/** A key instead of a passphrase. */
const KEY = /^[0-9A-Fa-f]{64}$/
/** Values of key_mgmt that need nothing but a passphrase or a key. */
const BY_PASSWORD = ['WPA-PSK', 'WPA-PSK-SHA256', 'FT-PSK', 'SAE', 'FT-SAE']
/** Keys of a block that depend on its password. */
const OF_PASSWORD = ['psk', 'sae_password', 'key_mgmt', 'ieee80211w', 'proto', 'pairwise', 'group', 'auth_alg']
/** Keys of other kinds of networks: enterprise, WEP, hotspots, and passwords that are not in the file. */
const FOREIGN = /^(eap|identity|anonymous_identity|password|ca_cert|client_cert|private_key|wep_key\d|mem_only_psk)$/

/** A line without its end, or a block from its first line to its `}`. */
interface Part {
  readonly lines: readonly string[]
  /** The keys that a `network` block sets, with the last value of each; undefined for anything else. */
  readonly network?: ReadonlyMap<string, string>
  /** A block without an end, for which wpa_supplicant refuses the whole file. */
  readonly isUnfinished?: true
}

/** A block that is a network of ours. */
interface Listed {
  readonly part: Part
  readonly network: WifiNetwork
  readonly priority: number
}

/** The faults of a network, by its members: each a predicate, such as `must be …`. */
export function whyNoNetwork({ ssid, password }: Omit<WifiNetwork, 'hidden'>): {
  readonly ssid?: string
  readonly password?: string
} {
  return {
    ...((ssid === '' || Buffer.byteLength(ssid) > MAX_SSID_BYTES) && {
      ssid: `must be 1 to ${MAX_SSID_BYTES} bytes`,
    }),
    ...(!(password === '' || PASSPHRASE.test(password) || KEY.test(password)) && {
      password:
        'must be 8 to 63 plain letters, digits, blanks and punctuation marks, without accents and curly quotes; or a key of 64 hexadecimal digits',
    }),
  }
}

/**
 * The fault of a country, as a predicate; undefined if it has none. With a code that it does not know, the kernel allows only
 * the channels that are allowed everywhere.
 */
export function whyNoCountry(country: string): string | undefined {
  if (country !== '' && !COUNTRY.test(country)) return 'must be the two capital letters of a country, such as DE'
  const official = officialCode(country)
  return official === country ? undefined : `must be ${official}, because no country has the code ${country}`
}

/** The code of ISO 3166-1 for one that people take for it, such as GB for UK, or for a former one; others as they are. */
export function officialCode(country: string): string {
  return COUNTRY.test(country) ? (new Intl.Locale(`und-${country}`).region ?? country) : country
}

/** The networks in the text of a file; passwords read as `KEPT`. */
export function readWpa(text: string): WpaConfiguration {
  const parts = partsOf(text)
  return { country: countryIn(parts), networks: listedIn(parts).map(({ network }) => network) }
}

/** The folder of the control sockets; undefined if the file opens none. */
export function controlFolder(text: string): string | undefined {
  const value = partsOf(text).findLast(part => globalKey(part) === 'ctrl_interface')
  if (!value) return undefined
  const [, folder] = /=(?:DIR=)?(\/\S*)/.exec(significant(value.lines[0] ?? '')) ?? []
  return folder
}

/**
 * The text with these networks and this country, and a control socket. Blocks whose values stay are kept as they are.
 * @throws {HalError} if there is no password to keep.
 */
export function editWpa(text: string, next: WpaConfiguration): string {
  const parts = partsOf(text).filter(part => !part.isUnfinished)
  const listed = listedIn(parts)
  const edited = next.networks.map(network => editedBlock(network, listed.find(isNamed(network.ssid))))
  const ordered = inOrder(edited)
  /** The lines that replace each block of ours. */
  const replaced = new Map(ordered.flatMap(({ from, lines }) => (from ? [[from, lines] as const] : [])))
  // Of two blocks with one name, wpa_supplicant would use both.
  const names = new Set([...listed.map(({ network }) => network), ...next.networks].map(({ ssid }) => ssid))
  const dropped = new Set(allOf(parts).flatMap(({ part, network }) => (names.has(network.ssid) ? [part] : [])))
  const kept = parts.flatMap(part => replaced.get(part) ?? (dropped.has(part) ? [] : part.lines))
  const added = ordered.filter(({ from }) => from === undefined).flatMap(({ lines }) => lines)
  while (kept.at(-1) === '') kept.pop()
  const whole = withGlobals(partsOf([...kept, ...added].join('\n')), next.country)
  return whole.length === 0 ? '' : `${whole.join('\n')}\n`
}

/** A block as it will be, and the part that it comes from; undefined for a new one. */
interface Edited {
  readonly lines: readonly string[]
  readonly from?: Part | undefined
  readonly priority: number
}

function editedBlock(network: WifiNetwork, present: Listed | undefined): Edited {
  const { ssid, password, hidden } = network
  if (!present) {
    if (password === KEPT) throw new HalError('UNREADABLE', 'the password to be kept is not there')
    // In hexadecimal digits, which can express any name.
    const lines = [`ssid=${Buffer.from(ssid).toString('hex')}`, ...credentialOf(network), ...(hidden ? [HIDDEN] : [])]
    return { lines: ['network={', ...lines.map(line => `\t${line}`), '}'], priority: 0 }
  }
  const { part, priority, network: before } = present
  let { lines } = part
  if (password === KEPT && before.password !== KEPT)
    throw new HalError('UNREADABLE', 'the password to be kept is not there')
  const isSame = password === KEPT || (password === '' && before.password === '')
  if (!isSame && !holds(part, network)) lines = withKeys(lines, OF_PASSWORD, credentialOf(network))
  if (hidden !== before.hidden) lines = withKeys(lines, ['scan_ssid'], hidden ? [HIDDEN] : [])
  return { lines, from: part, priority }
}

/** Finds the network even if it hides its name. */
const HIDDEN = 'scan_ssid=1'

function credentialOf({ ssid, password }: WifiNetwork): readonly string[] {
  if (password === '') return ['key_mgmt=NONE']
  if (KEY.test(password)) return [`psk=${password}`]
  return [
    ...(isCutShort(password)
      ? [`psk=${keyOf(password, ssid)}`, `sae_password=${Buffer.from(password).toString('hex')}`]
      : [`psk="${password}"`]),
    // WPA2, and WPA3 if the adapter supports it.
    'key_mgmt=WPA-PSK SAE',
    'ieee80211w=1',
  ]
}

/** Whether quotes may not hold a passphrase: it ends at the last quote of its line, but a comment may begin after the second. */
function isCutShort(password: string): boolean {
  const quote = password.indexOf('"')
  return quote >= 0 && password.includes('#', quote)
}

/** IEEE 802.11-2020 §J.4.1. */
function keyOf(password: string, ssid: string): string {
  return pbkdf2Sync(password, ssid, 4096, 32, 'sha1').toString('hex')
}

/** Whether a block already has a network's password. */
function holds({ network: present }: Part, network: WifiNetwork): boolean {
  const wanted = valuesIn(['', ...credentialOf(network), ''])
  return ['psk', 'sae_password'].every(key => present?.get(key) === wanted.get(key))
}

/**
 * wpa_supplicant joins the network with the highest priority that it finds, and the one with the best signal among equals. So
 * the priorities express the order. They are renumbered if the present ones do not.
 */
function inOrder(blocks: readonly Edited[]): readonly Edited[] {
  const isOrdered = blocks.every(({ priority }, at) => at === 0 || (blocks[at - 1]?.priority ?? 0) > priority)
  if (isOrdered) return blocks
  return blocks.map((block, at) => {
    const priority = blocks.length - 1 - at
    if (priority === block.priority) return block
    return {
      ...block,
      priority,
      lines: withKeys(block.lines, ['priority'], priority === 0 ? [] : [`priority=${priority}`]),
    }
  })
}

/** The lines of a block, with these lines in place of all that set one of the keys. */
function withKeys(block: readonly string[], keys: readonly string[], lines: readonly string[]): readonly string[] {
  const kept = block.filter(line => !keys.includes(assignment(line)?.key ?? ''))
  return [...kept.slice(0, -1), ...lines.map(line => `\t${line}`), ...kept.slice(-1)]
}

function withGlobals(parts: readonly Part[], country: string): readonly string[] {
  const lines: string[] = []
  const isKept = countryIn(parts) === country
  let isSet = isKept || country === ''
  for (const part of parts) {
    if (!isKept && globalKey(part) === 'country') continue
    // Before the first block.
    if (!isSet && part.lines.length > 1) {
      lines.push(`country=${country}`)
      isSet = true
    }
    lines.push(...part.lines)
  }
  if (!isSet) lines.push(`country=${country}`)
  const hasControl = parts.some(part => globalKey(part) === 'ctrl_interface')
  return hasControl ? lines : [`ctrl_interface=${CONTROL_FOLDER}`, ...lines]
}

function partsOf(text: string): readonly Part[] {
  const lines = text === '' ? [] : text.replace(/\n$/, '').split('\n')
  const parts: Part[] = []
  for (let at = 0; at < lines.length; ) {
    const start = at++
    const first = significant(lines[start] ?? '')
    if (!/^[\w-]+=\{$/.test(first)) {
      parts.push({ lines: lines.slice(start, at) })
      continue
    }
    while (at < lines.length && significant(lines[at] ?? '') !== '}') at++
    const isUnfinished = at === lines.length
    const block = lines.slice(start, ++at)
    if (isUnfinished) parts.push({ lines: block, isUnfinished })
    else parts.push({ lines: block, ...(first === 'network={' && { network: valuesIn(block) }) })
  }
  return parts
}

function valuesIn(block: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>()
  for (const line of block.slice(1, -1)) {
    const { key, value } = assignment(line) ?? {}
    if (key !== undefined && value !== undefined) values.set(key, value)
  }
  return values
}

function assignment(line: string): { readonly key: string; readonly value: string } | undefined {
  const text = significant(line)
  const cut = text.indexOf('=')
  return cut < 0 ? undefined : { key: text.slice(0, cut), value: text.slice(cut + 1) }
}

/** A line without blanks around it, and without its comment, which begins at the first `#` that is not between two quotes. */
function significant(line: string): string {
  return (/^(?:[^"#]+|"[^"]*")*[^#]*/.exec(line)?.[0] ?? '').trim()
}

function globalKey({ lines }: Part): string | undefined {
  const [line = '', ...others] = lines
  return others.length > 0 ? undefined : assignment(line)?.key
}

function countryIn(parts: readonly Part[]): string {
  const part = parts.findLast(part => globalKey(part) === 'country')
  const { value = '' } = assignment(part?.lines[0] ?? '') ?? {}
  return COUNTRY.test(value) ? value : ''
}

/** Our networks in order of preference; of two blocks with the same name, only the preferred one. */
function listedIn(parts: readonly Part[]): readonly Listed[] {
  const listed: Listed[] = []
  const seen = new Set<string>()
  for (const one of allOf(parts)) {
    if (seen.has(one.network.ssid)) continue
    seen.add(one.network.ssid)
    listed.push(one)
  }
  return listed.slice(0, MAX_NETWORKS)
}

function allOf(parts: readonly Part[]): readonly Listed[] {
  return parts.flatMap(part => listedOf(part) ?? []).sort((one, other) => other.priority - one.priority)
}

function listedOf(part: Part): Listed | undefined {
  const values = part.network
  const ssid = ssidOf(values)
  if (!values || ssid === undefined || [...values.keys()].some(key => FOREIGN.test(key))) return undefined
  const isOff = (key: string) => (values.get(key) ?? '0') === '0'
  // The network is an access point, or somebody switched it off.
  if (!isOff('mode') || !isOff('disabled')) return undefined
  const password = passwordOf(values)
  if (password === undefined) return undefined
  const network = { ssid, password, hidden: values.get('scan_ssid') === '1' }
  return { part, network, priority: Number.parseInt(values.get('priority') ?? '', 10) || 0 }
}

/** `KEPT` for a network with a password, "" for an open one; undefined for any other. */
function passwordOf(values: ReadonlyMap<string, string>): string | undefined {
  const suites = values.get('key_mgmt')?.split(/\s+/) ?? BY_PASSWORD
  const psk = values.get('psk')
  if (suites.every(suite => BY_PASSWORD.includes(suite))) {
    const isThere = values.has('sae_password') || (psk !== undefined && (KEY.test(psk) || /^".{8,63}"$/.test(psk)))
    return isThere ? KEPT : undefined
  }
  return suites.length === 1 && suites[0] === 'NONE' && psk === undefined ? '' : undefined
}

/** The name of a network; undefined if it is not 1 to 32 bytes of UTF-8. */
function ssidOf(values: ReadonlyMap<string, string> | undefined): string | undefined {
  const bytes = bytesOf(values?.get('ssid') ?? '')
  if (!bytes || bytes.length === 0 || bytes.length > MAX_SSID_BYTES) return undefined
  const text = decodeLossless(bytes)
  return text.isWellFormed() ? text : undefined
}

/** A value in one of the three forms of a string: "text", P"text with escapes", or hexadecimal digits. */
function bytesOf(value: string): Buffer | undefined {
  const [, escaped, text] = /^(P?)"(.*)"$/s.exec(value) ?? []
  if (text !== undefined) return escaped === 'P' ? printfDecode(text) : encodeLossless(text)
  return /^([0-9A-Fa-f]{2})+$/.test(value) ? Buffer.from(value, 'hex') : undefined
}

function isNamed(ssid: string): (listed: Listed) => boolean {
  return ({ network }) => network.ssid === ssid
}
