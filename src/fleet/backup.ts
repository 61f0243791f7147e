import { join } from 'node:path'
import { CommandError } from '../cli/failure.ts'
import type { JsonObject } from '../json.ts'
import { MAX_FILE_BYTES, settingsFile, settingsIn } from '../settings-file/settings-file.ts'
import type { Member } from './access.ts'
import type { Wanted } from './apply.ts'
import { readIfThere, requireFolder, writeOwn } from './files.ts'
import { causeIn } from './outcome.ts'
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
    const text = settingsFile(schema, system, withIdentity)
    if (Buffer.byteLength(text) > MAX_FILE_BYTES)
      throw new CommandError(`its settings have more than ${MAX_FILE_BYTES / 1024} KiB: it is no receiver`)
    await writeOwn(fileOf(folder, member), text, MODE)
    return { state: 'done' }
  })
  return report(options.ui, outcomes, options.stop.aborted)
}

/** The settings that `backup` saved of these devices. A device without a usable file has a problem instead. */
export async function backupsOf(members: readonly Member[], folder: string): Promise<readonly Wanted[]> {
  await requireFolder(folder)
  const wanted: Wanted[] = []
  for (const member of members) {
    const found = await savedOf(member, folder).catch(error => ({ settings: {}, problem: causeIn(error) }))
    wanted.push({ member, ...found })
  }
  return wanted
}

async function savedOf(member: Member, folder: string): Promise<Pick<Wanted, 'settings'>> {
  const path = fileOf(folder, member)
  const file = await readIfThere(path)
  if (!file) throw new CommandError(`there is no backup of it in ${folder}`)
  const settings = settingsIn(file.text)
  if (settings === 'newer') throw new CommandError(`${path} is of a newer version`)
  if (settings === 'foreign') throw new CommandError(`${path} has no settings of a receiver`)
  return { settings: settings as JsonObject }
}

function fileOf(folder: string, { device }: Member): string {
  return join(folder, `${device.name}.json`)
}
