import { posix } from 'node:path'
import { absentUnlessRefused } from '../errors.ts'
import { getWords } from '../format/ini.ts'
import { configFiles } from './config-files.ts'
import type { System } from './system.ts'

/** Where `systemctl enable` and `systemctl mask` make their links. */
export const ADMIN_UNITS = '/etc/systemd/system'
/** The folders of unit files, systemd.unit(5). The first folder that has a unit overrides the others. */
const FOLDERS = [
  ADMIN_UNITS,
  '/usr/local/lib/systemd/system',
  '/usr/lib/systemd/system',
  '/lib/systemd/system',
] as const
const MASK = '/dev/null'
/** Folders of links to the units that another unit pulls in. */
const DEPENDENCIES = /\.(wants|requires|upholds)$/
/** The links that `systemctl enable` makes for the keys of [Install]. */
const PULLED_IN_BY = { WantedBy: 'wants', RequiredBy: 'requires', UpheldBy: 'upholds' } as const
/** The name of a unit, systemd.unit(5), without the specifiers that are expanded in [Install]. */
const UNIT_NAME = /^[A-Za-z0-9:_.@-]+\.[a-z]+$/
/** An instance of a template: `wpa_supplicant@wlan0.service`. */
const INSTANCE = /^([^@]+@)[^@]+(\.[a-z]+)$/
/** Limit on the units that are followed through `Also=`. */
const MAX_ALSO = 16

/** An installed unit, as described by its files and the links to it. */
export interface UnitFile {
  readonly name: string
  /** The path of its unit file. */
  readonly path: string
  readonly isMasked: boolean
  /** Links in /etc by which other units pull it in: made by `systemctl enable`, or by hand. */
  readonly links: readonly string[]
}

/** The units among these that are installed. A name that is an alias of another unit does not count. */
export async function readUnitFiles(system: System, names: readonly string[]): Promise<readonly UnitFile[]> {
  const folders = await dependencyFolders(system, ADMIN_UNITS)
  const read = async (name: string) => {
    const path = await findUnit(system, name)
    if (path === undefined) return undefined
    const isMasked = (await system.linkTarget(`${ADMIN_UNITS}/${name}`)) === MASK
    return { name, path, isMasked, links: await linksIn(system, folders, name) }
  }
  return (await Promise.all(names.map(read))).filter(unit => unit !== undefined)
}

/** The first unit that is pulled in by a link of the system image, which `systemctl disable` does not remove. */
export async function findBuiltIn(system: System, units: readonly UnitFile[]): Promise<UnitFile | undefined> {
  const folders = (await Promise.all(FOLDERS.slice(1).map(folder => dependencyFolders(system, folder)))).flat()
  for (const unit of units) if (!unit.isMasked && (await linksIn(system, folders, unit.name)).length > 0) return unit
  return undefined
}

/** Whether a path is a link in /etc by which another unit pulls this one in. */
export function isLinkTo(name: string, path: string): boolean {
  const [folder, ...rest] = path.startsWith(`${ADMIN_UNITS}/`) ? path.slice(ADMIN_UNITS.length + 1).split('/') : []
  return folder !== undefined && DEPENDENCIES.test(folder) && UNIT_NAME.test(folder) && rest.join('/') === name
}

export async function isUnitInstalled(system: System, name: string): Promise<boolean> {
  return (await findUnit(system, name)) !== undefined
}

async function findUnit(system: System, name: string): Promise<string | undefined> {
  for (const folder of FOLDERS) {
    const path = `${folder}/${name}`
    const target = await system.linkTarget(path)
    if (target === MASK) continue
    if (target !== undefined && posix.basename(target) !== name) return undefined
    if (await system.exists(path)) return path
  }
  const template = name.replace(INSTANCE, '$1$2')
  return template === name ? undefined : findUnit(system, template)
}

async function dependencyFolders(system: System, folder: string): Promise<readonly string[]> {
  return (await system.list(folder)).filter(entry => DEPENDENCIES.test(entry)).map(entry => `${folder}/${entry}`)
}

async function linksIn(system: System, folders: readonly string[], name: string): Promise<readonly string[]> {
  const paths = folders.map(folder => `${folder}/${name}`)
  // A folder that is part of a loop of links holds none.
  const targets = await Promise.all(paths.map(path => system.linkTarget(path).catch(absentUnlessRefused)))
  return paths.filter((_, at) => targets[at] !== undefined && targets[at] !== MASK)
}

/** The folders of a unit's drop-ins, lowest priority first. Most units have none, and listing missing folders is slow. */
async function dropInFolders(system: System, name: string): Promise<readonly string[]> {
  const folders = FOLDERS.toReversed().map(folder => `${folder}/${name}.d`)
  const isThere = await Promise.all(folders.map(folder => system.exists(folder)))
  return folders.filter((_, at) => isThere[at])
}

/**
 * The links that `systemctl enable` makes, from the [Install] sections of the unit, of its drop-ins, and of the units that are
 * enabled with it (`Also=`). Empty if no section lists any: then the unit cannot be enabled.
 */
export async function installLinks(
  system: System,
  { name, path }: Pick<UnitFile, 'name' | 'path'>,
  seen = new Set<string>(),
): Promise<readonly string[]> {
  seen.add(name)
  const dropIns = await configFiles(system, await dropInFolders(system, name), '.conf')
  const read = async (path: string) => (await system.readText(path).catch(absentUnlessRefused)) ?? ''
  const text = (await Promise.all([path, ...dropIns.map(dropIn => dropIn.path)].map(read))).join('\n')
  const names = (key: string) => getWords(text, 'Install', key).filter(word => UNIT_NAME.test(word))
  const links = Object.entries(PULLED_IN_BY).flatMap(([key, ending]) =>
    names(key).map(other => `${ADMIN_UNITS}/${other}.${ending}/${name}`),
  )
  links.push(...names('Alias').map(alias => `${ADMIN_UNITS}/${alias}`))
  for (const also of names('Also')) {
    const path = seen.has(also) || seen.size >= MAX_ALSO ? undefined : await findUnit(system, also)
    if (path !== undefined) links.push(...(await installLinks(system, { name: also, path }, seen)))
  }
  return links
}
