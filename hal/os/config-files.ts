import type { System } from './system.ts'

/**
 * Returns the files that make up one configuration, ordered by name. Among files of the same name, the one in the last folder
 * counts (systemd-system.conf(5), "Configuration Directories and Precedence").
 */
export async function configFiles(
  system: System,
  folders: readonly string[],
  ending: string,
): Promise<readonly { readonly name: string; readonly path: string }[]> {
  const byName = new Map<string, string>()
  for (const folder of folders)
    for (const name of await system.list(folder)) if (name.endsWith(ending)) byName.set(name, `${folder}/${name}`)
  return Array.from(byName, ([name, path]) => ({ name, path })).sort((a, b) => (a.name < b.name ? -1 : 1))
}
