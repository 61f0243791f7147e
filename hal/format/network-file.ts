/** Reads and edits the settings of an interface in a .network file: systemd.network(5). */
import { globMatches } from './glob.ts'
import { getValues, getWords, type Ini, parseIni, setValues, sinceReset, splitSections, words } from './ini.ts'

/** The part of an interface's configuration that can be set. With `dhcp`, `address` and `gateway` are empty. */
export interface Configuration {
  readonly method: 'dhcp' | 'static'
  readonly address: string
  readonly gateway: string
  readonly dns: readonly string[]
}

/**
 * The properties of an interface that the keys of [Match] are compared with. `null`: the interface has no such property, as
 * a wired interface has no SSID. A property that cannot be determined is missing.
 */
export type Facts = Readonly<Record<string, string | null>>

const MATCH_KEYS =
  'Name MACAddress PermanentMACAddress Type Kind Path Driver Property WLANInterfaceType SSID BSSID Host Virtualization ' +
  'KernelCommandLine KernelVersion Credential Architecture Firmware'
/** The spellings of `yes`, and the address families by their present and their former names. */
const DHCP_ON = /^(1|y|yes|t|true|on|both|(ip)?v[46])$/i
const DEFAULT_ROUTES = ['', '0.0.0.0/0', '::/0']

/**
 * Whether a file applies to an interface; undefined where that cannot be determined. A file with an empty [Match] section
 * applies to none.
 */
export function matches(text: string, facts: Facts): boolean | undefined {
  const ini = parseIni(text)
  const verdicts = MATCH_KEYS.split(' ').flatMap(key => {
    const patterns = patternsOf(getValues(ini, 'Match', key))
    return patterns.length === 0 ? [] : [verdict(key, patterns, facts[key])]
  })
  if (verdicts.length === 0 || verdicts.includes(false)) return false
  return verdicts.includes(undefined) ? undefined : true
}

/** Whether a file can apply to any interface at all. */
export function hasConditions(text: string): boolean {
  return matches(text, {}) !== false
}

export function configurationOf(text: string): Configuration {
  const ini = parseIni(text)
  const dns = [...new Set(getWords(ini, 'Network', 'DNS'))]
  if (isDhcp(ini)) return { method: 'dhcp', address: '', gateway: '', dns }
  const address = statedAddress(text)
  const isItsRouter = (gateway: string) => address === '' || isOneFamily(address, gateway)
  return { method: 'static', address, gateway: statedGateway(text, isItsRouter), dns }
}

/**
 * The text with `next` as its configuration. Only differences are written, and sections that would contradict them are
 * removed; every other line is kept.
 * @param template The content of a new file, apart from its [Match] section: the file in force so far.
 */
export function editNetworkFile(
  text: string | undefined,
  name: string,
  next: Configuration,
  template = '[Network]\n',
): string {
  let edited =
    text || `# Set through receiverd.\n[Match]\nName=${name}\n\n${withoutSections(template, 'Match').trimStart()}`
  // A file without a condition applies to no interface, so it was not written by us.
  if (!hasConditions(edited)) edited = setValues(edited, 'Match', 'Name', [name])
  const now = configurationOf(edited)
  // With DHCP, an address or a gateway in the file is added to those of the lease: it is kept until the method changes.
  const stayDhcp = now.method === 'dhcp' && next.method === 'dhcp'
  const isMoved = now.method === 'static' && next.method === 'static'
  /** The router of the other family stays. */
  const isReplaced = (gateway: string) =>
    !isMoved || [now.gateway, next.gateway, next.address].some(other => isOneFamily(other, gateway))
  const metric = leaseMetric(edited)
  const set = (key: string, values: readonly string[]) => {
    edited = setValues(edited, 'Network', key, values)
  }
  const isOtherGateway = now.gateway !== next.gateway || statedGateway(edited, isReplaced) !== next.gateway
  const isOtherAddress = statedAddress(edited) !== next.address
  /** Whether one gets the metric because the other one does. */
  const isDrawnIn = (key: string, value: string) =>
    metric !== undefined && (isOtherGateway || isOtherAddress) && getWords(edited, 'Network', key).includes(value)
  // Each key that is new goes to the top of the section: the last one set comes first.
  if (now.dns.join() !== next.dns.join()) set('DNS', next.dns)
  if (!stayDhcp && (isOtherGateway || isDrawnIn('Gateway', next.gateway))) {
    edited = withoutSections(edited, 'Route', section => first([gatewayOf(section)].filter(isReplaced)))
    const kept = getWords(edited, 'Network', 'Gateway').filter(gateway => !isReplaced(gateway))
    const isOwn = next.gateway !== '' && metric !== undefined
    set('Gateway', next.gateway && !isOwn ? [next.gateway, ...kept] : kept)
    if (isOwn) edited = withSection(edited, 'Route', [`Gateway=${next.gateway}`, `Metric=${metric}`])
  }
  if (!stayDhcp && (isOtherAddress || isDrawnIn('Address', next.address))) {
    const [first, ...others] = getWords(edited, 'Network', 'Address')
    // Further static addresses stay.
    if (!isMoved) edited = withoutSections(edited, 'Address')
    else if (first === undefined) edited = withoutSections(edited, 'Address', isFirst(now.address))
    const kept = isMoved ? others.filter(address => address !== next.address) : []
    // The first address is the one that is read, and those in [Network] come before all others.
    const isOwn = next.address !== '' && metric !== undefined && kept.length === 0
    set('Address', next.address && !isOwn ? [next.address, ...kept] : [])
    if (isOwn) edited = withSection(edited, 'Address', [`Address=${next.address}`, `RouteMetric=${metric}`])
  }
  if (now.method !== next.method) set('DHCP', [next.method === 'dhcp' ? 'yes' : 'no'])
  return edited
}

interface Pattern {
  readonly isNegated: boolean
  readonly glob: string
}

/** A `!` in front of a list negates the whole list. */
function patternsOf(values: readonly string[]): readonly Pattern[] {
  return sinceReset(values).flatMap(value => {
    const isNegated = value.startsWith('!')
    return words(isNegated ? value.slice(1) : value).map(glob => ({ isNegated, glob }))
  })
}

/** False if a negated pattern matches, or if there are other patterns and none of them matches. */
function verdict(key: string, patterns: readonly Pattern[], fact: string | null | undefined): boolean | undefined {
  if (fact === undefined) return undefined
  const fitting = patterns.filter(({ glob }) => fact !== null && fits(key, glob, fact))
  if (fitting.some(({ isNegated }) => isNegated)) return false
  return fitting.length > 0 || patterns.every(({ isNegated }) => isNegated)
}

function fits(key: string, pattern: string, fact: string): boolean {
  return key.endsWith('MACAddress') ? digits(pattern) === digits(fact) : globMatches(pattern, fact)
}

/** A hardware address is written with colons, hyphens or dots. */
function digits(mac: string): string {
  return mac.replace(/[:.-]/g, '').toLowerCase()
}

function isDhcp(ini: Ini): boolean {
  return DHCP_ON.test(getValues(ini, 'Network', 'DHCP').at(-1) ?? '')
}

/** The metric of routes from a lease, such as one by which a cable takes precedence: routes that are set must have it, too. */
function leaseMetric(text: string): string | undefined {
  const metric = ['DHCP', 'DHCPv4'].flatMap(section => getValues(text, section, 'RouteMetric')).at(-1)
  return /^\d+$/.test(metric ?? '') ? metric : undefined
}

/** The first address in the text, whatever the method. */
function statedAddress(text: string): string {
  return first([...getWords(text, 'Network', 'Address'), ...sections(text, 'Address').map(addressOf)])
}

/** The first gateway of a default route that counts, whatever the method. */
function statedGateway(text: string, counts: (gateway: string) => boolean): string {
  return first([...getWords(text, 'Network', 'Gateway'), ...sections(text, 'Route').map(gatewayOf)].filter(counts))
}

/** Whether both are of IPv4, or both of IPv6. */
function isOneFamily(one: string, other: string): boolean {
  return one !== '' && one.includes(':') === other.includes(':')
}

/** Finds the first section with an address, and no other. */
function isFirst(address: string): (section: string) => string {
  let isFound = false
  return section => {
    if (isFound || addressOf(section) !== address) return ''
    isFound = true
    return address
  }
}

function addressOf(section: string): string {
  return getValues(section, 'Address', 'Address').at(-1) ?? ''
}

/** The gateway of a default route. A name such as `_dhcp4` stands for the gateway from DHCP or router discovery. */
function gatewayOf(section: string): string {
  const ini = parseIni(section)
  const value = (key: string) => getValues(ini, 'Route', key).at(-1) ?? ''
  return DEFAULT_ROUTES.includes(value('Destination')) && !value('Gateway').startsWith('_') ? value('Gateway') : ''
}

/** Each [Address] and each [Route] is a section of its own. */
function sections(text: string, name: string): readonly string[] {
  return splitSections(text)
    .filter(section => section.name === name)
    .map(section => section.text)
}

/** The text without the sections of a name, or without those of them in which `valueIn` finds something. */
function withoutSections(text: string, name: string, valueIn: (section: string) => string = String): string {
  return splitSections(text)
    .filter(section => section.name !== name || valueIn(section.text) === '')
    .map(section => section.text)
    .join('')
}

/** The text with a section more: before those of the same name, or at the end. */
function withSection(text: string, name: string, lines: readonly string[]): string {
  const parts = splitSections(text)
  const at = parts.findIndex(section => section.name === name)
  const textOf = (some: typeof parts) => some.map(section => section.text).join('')
  const [before, after] = at < 0 ? [text, ''] : [textOf(parts.slice(0, at)), textOf(parts.slice(at))]
  const gap = /(^|\n\n)$/.test(before) ? '' : before.endsWith('\n') ? '\n' : '\n\n'
  return `${before}${gap}[${name}]\n${lines.join('\n')}\n${after && `\n${after}`}`
}

function first(values: readonly string[]): string {
  return values.find(value => value !== '') ?? ''
}
