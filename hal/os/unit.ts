import type { System } from './system.ts'

/** Where a unit is, in the order of systemd.unit(5). A link to /dev/null in the first masks it. */
export const UNIT_FOLDERS = ['/etc/systemd/system', '/usr/lib/systemd/system', '/lib/systemd/system'] as const
const [ENABLED_IN] = UNIT_FOLDERS

export async function isUnitInstalled(system: System, unit: string): Promise<boolean> {
  for (const folder of UNIT_FOLDERS) if (await system.exists(`${folder}/${unit}`)) return true
  return false
}

export async function isUnitMasked(system: System, unit: string): Promise<boolean> {
  return (await system.readLink(`${ENABLED_IN}/${unit}`).catch(() => undefined)) === '/dev/null'
}

/** Whether a target pulls the unit in, by a link as `systemctl enable` makes it, and nothing masks the unit. */
export async function isUnitEnabled(system: System, unit: string): Promise<boolean> {
  const link = (path: string) => system.readLink(path).catch(() => undefined)
  if (await isUnitMasked(system, unit)) return false
  for (const name of await system.list(ENABLED_IN))
    if (/\.(wants|requires)$/.test(name) && (await link(`${ENABLED_IN}/${name}/${unit}`)) !== undefined) return true
  return false
}
