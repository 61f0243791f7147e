import { join } from 'node:path'
import type { JsonObject } from '../json.ts'
import { settingsFile, settingsIn } from '../settings-file/settings-file.ts'
import { UsageError } from '../usage-error.ts'
import type { Member } from './access.ts'
import type { Wanted } from './apply.ts'
import { readOwn, requireFolder, writeOwn } from './files.ts'
import { schemaOf } from './preview.ts'
import { report } from './report.ts'
import { type RollOutOptions, rollOut } from './waves.ts'

/** Such a file has no secrets. */
const MODE = 0o644
/** A single wave, because nothing is changed. */
const WAVES = [Number.POSITIVE_INFINITY]

/**
 * Saves the settings of each device in a file of its own, NAME.json: the same file that its page and `receiverd config` save.
 * @param folder The absolute path of a folder. It must exist.
 * @returns the exit status.
 */
export async function backup(
  members: readonly Member[],
  folder: string,
  withIdentity: boolean,
  options: RollOutOptions,
): Promise<number> {
  await requireFolder(folder)
  const outcomes = await rollOut(members, { ...options, waves: WAVES }, async member => {
    const client = member.client()
    const schema = await schemaOf(client)
    const { body: system } = await client.send('GET', '/system')
    await writeOwn(fileOf(folder, member), settingsFile(schema, system, withIdentity), MODE)
    return { state: 'done' }
  })
  return report(options.ui, outcomes, options.stop.aborted)
}

/** The settings that `backup` saved of these devices. @throws {UsageError} if a device has no such file. */
export async function backupsOf(members: readonly Member[], folder: string): Promise<readonly Wanted[]> {
  await requireFolder(folder)
  const wanted: Wanted[] = []
  for (const member of members) {
    const path = fileOf(folder, member)
    const settings = settingsIn((await readOwn(path)).text)
    if (settings === 'newer') throw new UsageError(`${path} is of a newer version`)
    if (settings === 'foreign') throw new UsageError(`${path} has no settings of a receiver`)
    wanted.push({ member, settings: settings as JsonObject })
  }
  return wanted
}

function fileOf(folder: string, { device }: Member): string {
  return join(folder, `${device.name}.json`)
}
