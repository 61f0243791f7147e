import { getValue } from '../../format/key-value.ts'
import { matches } from '../../format/network-file.ts'
import { configFiles } from '../../os/config-files.ts'
import type { System } from '../../os/system.ts'
import type { Link } from './links.ts'

/** systemd.network(5), the last first in what counts: of files with one name that of the last folder is the one. */
export const FOLDERS = ['/lib', '/usr/lib', '/usr/local/lib', '/run', '/etc'].map(root => `${root}/systemd/network`)
/** What networkd tells of each link, by the link's number. */
export const STATE = '/run/systemd/netif/links'

/** A .network file and the drop-ins that add to it, as one text. */
export interface NetworkFile {
  readonly name: string
  readonly path: string
  readonly text: string
}

/** Every .network file in the order in which networkd looks for one that is for a link. */
export async function networkFiles(system: System): Promise<readonly NetworkFile[]> {
  const names = new Set((await Promise.all(FOLDERS.map(folder => system.list(folder)))).flat())
  // One that cannot be read, or is masked by a link to /dev/null, says nothing.
  const read = async (path: string) => (await system.readText(path).catch(() => '')) ?? ''
  const files = await configFiles(system, FOLDERS, '.network')
  return Promise.all(
    files.map(async ({ name, path }) => {
      const extension = `${name}.d`
      const dropIns = names.has(extension)
        ? await configFiles(
            system,
            FOLDERS.map(folder => `${folder}/${extension}`),
            '.conf',
          )
        : []
      const texts = await Promise.all([path, ...dropIns.map(dropIn => dropIn.path)].map(read))
      return { name, path, text: texts.join('\n') }
    }),
  )
}

/** The file that is in force for a link. Where it cannot be told from what stands in a file, networkd has told. */
export async function fileInForce(
  system: System,
  files: readonly NetworkFile[],
  { index, facts }: Link,
): Promise<NetworkFile | undefined> {
  const state = index && (await system.readText(`${STATE}/${index}`).catch(() => ''))
  const chosen = getValue(state || '', 'NETWORK_FILE')
  return files.find(({ path, text }) => matches(text, facts) ?? path === chosen)
}
