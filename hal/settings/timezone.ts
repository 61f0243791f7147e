import { posix } from 'node:path'
import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'
import { closest } from '../format/closest.ts'
import type { System } from '../os/system.ts'
import { refuse, type Setting } from '../setting.ts'

const LINK = '/etc/localtime'
const FILE = '/etc/timezone'
const ZONES = '/usr/share/zoneinfo'
/** Entries of that folder that duplicate every zone, without and with leap seconds, or link to a single zone. */
const COPIES = ['posix', 'right', 'localtime', 'posixrules']
/** Maximum number of entries searched for a suggestion. The tz database has 600. */
const MAX_LISTED = 2_048

const PATTERN = '^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$'
const WELL_FORMED = new RegExp(PATTERN)
const schema = Type.String({
  description: 'Time zone, such as Europe/Brussels.',
  maxLength: 64,
  pattern: PATTERN,
})

/** The time zone: the link /etc/localtime, localtime(5), and Debian's /etc/timezone if it exists. */
export function timezone(system: System): Setting<typeof schema> {
  return {
    name: 'timezone',
    schema,
    files: [LINK, FILE],
    links: [LINK],
    withoutActivate: 'systemd watches the link, and programs read it when they convert a time (tzset(3))',
    async read() {
      const target = await system.readLink(LINK)
      if (target === undefined) throw new HalError('ABSENT', 'no time zone is set')
      const zone = zoneOf(target)
      if (zone === undefined) throw new HalError('UNREADABLE', 'the file is not a link to a time zone')
      return zone
    },
    // localtime(5): without the link, the time zone is UTC.
    fallback: async () => 'UTC',
    async check(next) {
      if (await isZone(system, next)) return []
      const names = await zoneNames(system)
      const ending = `/${next.toLowerCase()}`
      const meant = names.find(name => name.toLowerCase().endsWith(ending)) ?? closest(next, names)
      const hint = meant !== undefined && (await isZone(system, meant)) ? `; did you mean ${meant}?` : ''
      return refuse('', `this device has no time zone of that name${hint}`)
    },
    choices: () => zones(system),
    async write(next) {
      const isMoved = await system.writeLink(LINK, posix.relative(posix.dirname(LINK), `${ZONES}/${next}`))
      return ((await system.exists(FILE)) && (await system.writeAtomic(FILE, `${next}\n`))) || isMoved
    },
  }
}

/** Returns the zone of a link: `../usr/share/zoneinfo/Europe/Brussels` → `Europe/Brussels`. */
export function zoneOf(target: string): string | undefined {
  const path = posix.resolve(posix.dirname(LINK), target)
  return path.startsWith(`${ZONES}/`) ? path.slice(ZONES.length + 1) : undefined
}

/** Returns the paths in the folder of the zones, or the names that Node has. Most of them are time zones. */
async function zoneNames(system: System): Promise<readonly string[]> {
  if (!(await system.exists(ZONES))) return Intl.supportedValuesOf('timeZone')
  const listed = async (path: string) => system.list(path).catch(() => [])
  const names = (await listed(ZONES)).filter(name => !COPIES.includes(name)).slice(0, MAX_LISTED)
  const folders = new Set<string>()
  // The loop also visits the names that it appends, for nested folders.
  for (const name of names) {
    if (names.length >= MAX_LISTED) break
    const inner = await listed(`${ZONES}/${name}`)
    if (inner.length > 0) folders.add(name)
    names.push(...inner.slice(0, MAX_LISTED - names.length).map(inner => `${name}/${inner}`))
  }
  return names.filter(name => !folders.has(name))
}

/** Returns the time zones of the device, sorted. Checks each top-level name, because the folder also has other files. */
async function zones(system: System): Promise<readonly string[]> {
  const names = await zoneNames(system)
  const isListed = await Promise.all(names.map(name => name.includes('/') || isZone(system, name)))
  return names.filter((name, at) => isListed[at] && WELL_FORMED.test(name)).sort()
}

/** Reports whether the device has a time zone. Without zone files, the zones built into Node decide. */
async function isZone(system: System, name: string): Promise<boolean> {
  if (await system.exists(ZONES)) return system.beginsWith(`${ZONES}/${name}`, 'TZif').catch(() => false)
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    // Intl also accepts offsets such as +0100, which are not names of the tz database.
    return /^[A-Za-z]/.test(name)
  } catch {
    return false
  }
}
