/** What a .network file says of an interface, systemd.network(5). */
import { globMatches } from './glob.ts'
import { getValues, setValues } from './ini.ts'

/** What of an interface can be set. With `dhcp` there is neither address nor gateway. */
export interface Configuration {
  readonly method: 'dhcp' | 'static'
  readonly address: string
  readonly gateway: string
  readonly dns: readonly string[]
}

/**
 * What the keys of [Match] are held against. `null` is what the interface has nothing of, such as a wired one of an SSID;
 * a key that is not here cannot be told.
 */
export type Facts = Readonly<Record<string, string | null>>

const MATCH_KEYS =
  'Name MACAddress PermanentMACAddress Type Kind Path Driver Property WLANInterfaceType SSID BSSID Host Virtualization ' +
  'KernelCommandLine KernelVersion Credential Architecture Firmware'
/** `yes` as systemd takes it, and the families by their present names and those of before. */
const DHCP_ON = /^(1|y|yes|t|true|on|both|(ip)?v[46])$/i
const DEFAULT_ROUTES = ['', '0.0.0.0/0', '::/0']

/** Whether a file is for an interface; undefined where that cannot be told. One that says nothing in [Match] is for none. */
export function matches(text: string, facts: Facts): boolean | undefined {
  const verdicts = MATCH_KEYS.split(' ').flatMap(key => {
    const patterns = patternsOf(getValues(text, 'Match', key))
    return patterns.length === 0 ? [] : [verdict(key, patterns, facts[key])]
  })
  if (verdicts.length === 0 || verdicts.includes(false)) return false
  return verdicts.includes(undefined) ? undefined : true
}

/** Whether a file is for any interface at all. */
export function hasConditions(text: string): boolean {
  return matches(text, {}) !== false
}

export function configurationOf(text: string): Configuration {
  const dns = [...new Set(wordsOf(text, 'Network', 'DNS'))]
  if (isDhcp(text)) return { method: 'dhcp', address: '', gateway: '', dns }
  const address = [...wordsOf(text, 'Network', 'Address'), ...sections(text, 'Address').map(addressOf)]
  const gateway = [...wordsOf(text, 'Network', 'Gateway'), ...sections(text, 'Route').map(gatewayOf)]
  return { method: 'static', address: first(address), gateway: first(gateway), dns }
}

/**
 * The text with the configuration in place of its own. Only what is different is written, and with it go the sections that
 * say the same thing; every other line stays.
 * @param template What a text that is made anew says beside it: the file that was in force.
 */
export function editNetworkFile(
  text: string | undefined,
  name: string,
  next: Configuration,
  template = '[Network]\n',
): string {
  let edited =
    text || `# Set through receiverd.\n[Match]\nName=${name}\n\n${withoutSections(template, 'Match').trimStart()}`
  // Without a condition it is for no interface at all: that is none of ours.
  if (!hasConditions(edited)) edited = setValues(edited, 'Match', 'Name', [name])
  const now = configurationOf(edited)
  const set = (key: string, values: readonly string[]) => {
    edited = setValues(edited, 'Network', key, values)
  }
  // Each goes to the top of the section: last comes first.
  if (now.dns.join() !== next.dns.join()) set('DNS', next.dns)
  if (now.gateway !== next.gateway) {
    edited = withoutSections(edited, 'Route', gatewayOf)
    set('Gateway', next.gateway ? [next.gateway] : [])
  }
  if (now.address !== next.address) {
    edited = withoutSections(edited, 'Address')
    set('Address', next.address ? [next.address] : [])
  }
  if (now.method !== next.method) set('DHCP', [next.method === 'dhcp' ? 'yes' : 'no'])
  return edited
}

interface Pattern {
  readonly isNegated: boolean
  readonly glob: string
}

/** Lists add up, an empty one forgets those before it, and a `!` in front of a list negates all of it. */
function patternsOf(values: readonly string[]): readonly Pattern[] {
  const since = values.slice(values.lastIndexOf('') + 1)
  return since.flatMap(value => {
    const isNegated = value.startsWith('!')
    return words(isNegated ? value.slice(1) : value).map(glob => ({ isNegated, glob }))
  })
}

/** A negated pattern that fits says no; one that is not must fit where there are any. */
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

function isDhcp(text: string): boolean {
  return DHCP_ON.test(getValues(text, 'Network', 'DHCP').at(-1) ?? '')
}

function addressOf(section: string): string {
  return getValues(section, 'Address', 'Address').at(-1) ?? ''
}

/** The gateway of a default route; one that begins with an underscore is whatever DHCP or a router says. */
function gatewayOf(section: string): string {
  const value = (key: string) => getValues(section, 'Route', key).at(-1) ?? ''
  return DEFAULT_ROUTES.includes(value('Destination')) && !value('Gateway').startsWith('_') ? value('Gateway') : ''
}

/** The text without the sections of a name, all or those that `has` something. */
function withoutSections(text: string, name: string, has: (section: string) => unknown = String): string {
  return sections(text, name)
    .filter(has)
    .reduce((rest, section) => rest.replace(section, ''), text)
}

/** [Address] and [Route] may stand more than once, and each is one thing. */
function sections(text: string, name: string): readonly string[] {
  return text.split(/^(?=[ \t]*\[)/m).filter(section => section.trimStart().startsWith(`[${name}]`))
}

function wordsOf(text: string, section: string, key: string): readonly string[] {
  const values = getValues(text, section, key)
  return values.slice(values.lastIndexOf('') + 1).flatMap(words)
}

function words(value: string): readonly string[] {
  return value.split(/\s+/).filter(word => word !== '')
}

function first(values: readonly string[]): string {
  return values.find(value => value !== '') ?? ''
}
