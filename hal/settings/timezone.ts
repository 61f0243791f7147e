import { posix } from 'node:path'
import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'
import type { System } from '../os/system.ts'
import { refuse, type Setting } from '../setting.ts'

const LINK = '/etc/localtime'
const FILE = '/etc/timezone'
const ZONES = '/usr/share/zoneinfo'

const schema = Type.String({
  description: 'Time zone as named in the tz database, such as Europe/Brussels.',
  maxLength: 64,
  pattern: '^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$',
})

/** The time zone: the link /etc/localtime, localtime(5), and Debian's /etc/timezone if there is one. */
export function timezone(system: System): Setting<typeof schema> {
  return {
    name: 'timezone',
    schema,
    files: [LINK, FILE],
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
      return refuse('', (await isZone(system, next)) ? undefined : 'this device has no time zone of that name')
    },
    async write(next) {
      const isMoved = await system.writeLink(LINK, posix.relative(posix.dirname(LINK), `${ZONES}/${next}`))
      return ((await system.exists(FILE)) && (await system.writeAtomic(FILE, `${next}\n`))) || isMoved
    },
  }
}

/** `../usr/share/zoneinfo/Europe/Brussels` → `Europe/Brussels`. */
export function zoneOf(target: string): string | undefined {
  const path = posix.resolve(posix.dirname(LINK), target)
  return path.startsWith(`${ZONES}/`) ? path.slice(ZONES.length + 1) : undefined
}

/** Without zone files on the device, those built into Node decide. */
async function isZone(system: System, name: string): Promise<boolean> {
  if (await system.exists(ZONES)) return system.beginsWith(`${ZONES}/${name}`, 'TZif').catch(() => false)
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    // Intl also takes offsets such as +0100, which are not names of the tz database.
    return /^[A-Za-z]/.test(name)
  } catch {
    return false
  }
}
