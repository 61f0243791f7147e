import { absentUnlessRefused } from '../../errors.ts'
import { getValue } from '../../format/key-value.ts'
import { matches } from '../../format/network-file.ts'
import { configFiles } from '../../os/config-files.ts'
import type { System } from '../../os/system.ts'
import type { NetworkLink } from './links.ts'

/** The folders of systemd.network(5), lowest priority first. */
export const FOLDERS = ['/lib', '/usr/lib', '/usr/local/lib', '/run', '/etc'].map(root => `${root}/systemd/network`)
/** Where networkd keeps the state of each link, in a file named after the link's index. */
export const STATE = '/run/systemd/netif/links'

/** A .network file and its drop-ins, as one text. */
export interface NetworkFile {
  readonly name: string
  readonly path: string
  readonly text: string
}

/** Returns all .network files, in the order in which networkd looks for one that applies to a link. */
export async function networkFiles(system: System): Promise<readonly NetworkFile[]> {
  const names = new Set((await Promise.all(FOLDERS.map(folder => system.list(folder)))).flat())
  // An unreadable file, or one masked by a link to /dev/null, applies to no link.
  const read = async (path: string) => (await system.readLossless(path).catch(absentUnlessRefused)) ?? ''
  const files = await configFiles(system, FOLDERS, '.network')
  return Promise.all(
    files.map(async ({ name, path }) => {
      const extension = `${name}.d`
      const folders = FOLDERS.map(folder => `${folder}/${extension}`)
      const dropIns = names.has(extension) ? await configFiles(system, folders, '.conf') : []
      const texts = await Promise.all([path, ...dropIns.map(dropIn => dropIn.path)].map(read))
      return { name, path, text: texts.join('\n') }
    }),
  )
}

/** Returns the file in force for a link. If the files do not settle it, networkd's own state does. */
export async function fileInForce(
  system: System,
  files: readonly NetworkFile[],
  { index, facts }: NetworkLink,
): Promise<NetworkFile | undefined> {
  const state = index && (await system.readText(`${STATE}/${index}`).catch(() => ''))
  const chosen = getValue(state || '', 'NETWORK_FILE')
  return files.find(({ path, text }) => matches(text, facts) ?? path === chosen)
}
