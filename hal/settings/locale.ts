import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'
import { getValue, setValue } from '../format/key-value.ts'
import { archivedLocales } from '../format/locale-archive.ts'
import type { System } from '../os/system.ts'
import { refuse, type Setting } from '../setting.ts'

const SYSTEMD = '/etc/locale.conf'
const DEBIAN = '/etc/default/locale'
const NAME = 'LANG'
/** The folder of compiled locales: each has a folder, and an archive may hold more. */
const COMPILED = '/usr/lib/locale'
const ARCHIVE = `${COMPILED}/locale-archive`
/** A file that the folder of every compiled locale has. */
const CHARACTERS = 'LC_CTYPE'
/** Bytes read from the archive, which can be 220 MiB in size. Its names come first, at about 30 bytes each. */
const ARCHIVE_NAMES_BYTES = 256 * 1024
/** The locales that this version of glibc can compile, one per line, each followed by its codeset. */
const SUPPORTED = '/usr/share/i18n/SUPPORTED'
/** Locales that need no file, including the one that systemd sets by default. */
const BUILT_IN = ['C', 'POSIX', 'C.UTF-8']
/** Maximum number of names that a refusal lists, of possibly hundreds. */
const MAX_LISTED = 8

const PATTERN = '^(C|POSIX|[a-z]{2,3}(_[A-Z]{2})?)(\\.[A-Za-z0-9-]+)?(@[A-Za-z0-9]+)?$'
const WELL_FORMED = new RegExp(PATTERN)
const schema = Type.String({
  description: 'Language and formats: a locale that is installed on the device, such as en_GB.UTF-8.',
  maxLength: 64,
  pattern: PATTERN,
})

/** The locale: LANG in /etc/locale.conf, or in /etc/default/locale if only that file exists. */
export function locale(system: System): Setting<typeof schema> {
  const file = async () => ((await system.exists(SYSTEMD)) || !(await system.exists(DEBIAN)) ? SYSTEMD : DEBIAN)
  return {
    name: 'locale',
    schema,
    files: [SYSTEMD, DEBIAN],
    withoutActivate:
      'programs take LANG from their environment, so a new value applies to programs started from now on',
    async read() {
      const text = await system.readLossless(await file())
      if (text === undefined) throw new HalError('ABSENT', 'no locale is set')
      const value = getValue(text, NAME)
      if (value === undefined) throw new HalError('UNREADABLE', `the file does not set ${NAME}`)
      return value
    },
    fallback: async () => 'C.UTF-8',
    async check(next) {
      const locales = await installedLocales(system)
      if (!locales || locales.some(name => normalized(name) === normalized(next))) return []
      const others = locales.toSorted((a, b) => Number(isRelated(b, next)) - Number(isRelated(a, next)))
      const listed = others.slice(0, MAX_LISTED).join(', ')
      const more = others.length > MAX_LISTED ? ` and ${others.length - MAX_LISTED} more` : ''
      const isKnown = (await supportedLocales(system)).some(name => normalized(name) === normalized(next))
      return refuse('', `${isKnown ? 'not generated' : 'not installed'} on this device; available: ${listed}${more}`)
    },
    choices: () => installedLocales(system),
    async write(next) {
      const path = await file()
      return system.writeAtomic(path, setValue((await system.readForEdit(path)) ?? '', NAME, next))
    },
  }
}

/** Returns the locales that the device has, sorted; undefined if that cannot be determined. */
async function installedLocales(system: System): Promise<readonly string[] | undefined> {
  const archive = await system.readStart(ARCHIVE, ARCHIVE_NAMES_BYTES).catch(() => undefined)
  const archived = archive && archivedLocales(archive)
  if (archive && !archived) return undefined
  const names = new Set(
    [...(await compiledFolders(system)), ...(archived ?? [])].filter(name => WELL_FORMED.test(name)),
  )
  // The device has another C library, or glibc with another file layout.
  if (names.size === 0) return undefined
  return [...new Set([...BUILT_IN, ...Array.from(names, spelled)])].sort()
}

async function compiledFolders(system: System): Promise<readonly string[]> {
  const names = await system.list(COMPILED)
  const isLocale = await Promise.all(names.map(name => system.exists(`${COMPILED}/${name}/${CHARACTERS}`)))
  return names.filter((_, at) => isLocale[at])
}

async function supportedLocales(system: System): Promise<readonly string[]> {
  const text = await system.readText(SUPPORTED).catch(() => undefined)
  return (text ?? '').split('\n').map(line => line.split(' ', 1)[0] ?? '')
}

/** Normalizes the codeset as glibc does to compare it: only letters and digits, in lower case (_nl_normalize_codeset). */
function normalized(name: string): string {
  return name.replace(/\.[^@]*/, codeset => {
    const plain = codeset.replace(/[^A-Za-z0-9]/g, '').toLowerCase()
    return /^\d+$/.test(plain) ? `.iso${plain}` : `.${plain}`
  })
}

/** Spells UTF-8 in the usual way, as localectl(1) does. */
function spelled(name: string): string {
  return name.replace(/\.utf8(?=@|$)/, '.UTF-8')
}

function isRelated(name: string, other: string): boolean {
  return name.slice(0, 2) === other.slice(0, 2)
}
