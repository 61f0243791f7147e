import { dirname, resolve } from 'node:path'
import { isUnreadable } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import { isObject, type JsonObject, type JsonValue, pointerStep } from '../json.ts'
import { printable } from '../log.ts'
import {
  type Difference,
  type Json,
  type LeftOut,
  type Preview,
  previewOf,
  type Schema,
  settingsFile,
  settingsIn,
} from '../settings-file/settings-file.ts'
import { CommandError } from './failure.ts'
import type { Person } from './person.ts'
import { Refused, type ServiceClient } from './service-client.ts'

/** The options of the command, besides the file. */
export interface LoadOptions {
  /** Whether to load without asking. */
  readonly isSure: boolean
  /** Whether to load what this device can take, without asking. */
  readonly isPartial: boolean
}

/** Maximum number of characters shown of a name or a value. */
const MAX_SHOWN = 200
const NOT_OURS = {
  foreign: 'the file has no settings of a receiver',
  newer: 'the file is of a newer version; update this device first',
}

/** Returns the text of a file with the settings of this device. @param schema The schema of the configuration. */
export async function saveSettings(client: ServiceClient, schema: Schema, withIdentity: boolean): Promise<string> {
  const { body } = await client.send('GET', '/system')
  return settingsFile(schema, body, withIdentity)
}

/**
 * Writes the file that a person has named. Does not replace a folder of that name, and creates no parent folder: a missing
 * one is misspelled, or on a stick that is not plugged in.
 * @throws {CommandError} for such names.
 */
export async function writeSettings(path: string, text: string): Promise<void> {
  const files = new Files('/')
  const at = resolve(path)
  const folder = dirname(at)
  if (folder !== '/' && !(await files.exists(folder)))
    throw new CommandError(`config save: there is no folder ${folder}`)
  await files.readStart(at, 1).catch(error => {
    if (isUnreadable(error)) throw new CommandError(`config save: ${at} is there, and is not a file`)
    throw error
  })
  await files.writeAtomic(at, text)
}

/**
 * Loads the settings in a file, as far as the person agrees. A change that could cut the person off is on trial until they
 * confirm it.
 * @throws {CommandError} if the settings are not loaded.
 */
export async function loadSettings(
  client: ServiceClient,
  schema: Schema,
  text: string,
  { isSure, isPartial }: LoadOptions,
  person: Person,
): Promise<void> {
  const settings = settingsIn(text)
  if (typeof settings === 'string') throw new CommandError(NOT_OURS[settings])
  const { body: system } = await client.send('GET', '/system')
  let accepted: Json = {}
  let seen: string | undefined
  const preview = await previewOf(settings, system, async patch => {
    const { body, etag } = await client.send('PATCH', '/system?validateOnly=true', patch as JsonObject)
    accepted = patch
    seen = etag
    return body
  })
  for (const line of describe(preview)) person.say(line)
  const { patch, leftOut } = preview
  const isWhole = leftOut.length === 0
  if (!isWhole && isHollow(accepted as JsonObject)) throw new CommandError('this device can take none of it')
  if (!isWhole && isSure && !isPartial)
    throw new CommandError('this device cannot take all of it; --partial loads the rest')
  if (Object.keys(patch).length === 0) return
  if (!isSure && !(await person.ask(isWhole ? 'Load these settings?' : 'Load the rest?')))
    throw new CommandError('nothing was loaded')
  const trials = Object.keys(patch).map(name => schema.properties?.[name]?.['x-confirm-within'] ?? 0)
  const trialS = isSure ? 0 : Math.max(...trials)
  const path = trialS > 0 ? `/system?confirmWithin=${trialS}` : '/system'
  const { etag } = await client.send('PATCH', path, patch as JsonObject, seen).catch(error => {
    if (!(error instanceof Refused) || error.status !== 412) throw error
    throw new CommandError('nothing was loaded, because the settings have changed meanwhile; give the command again')
  })
  if (trialS > 0) await settle(client, etag, trialS, person)
  person.say('Loaded.')
}

/** Reports whether nothing is left of an object but objects without members. */
function isHollow(value: JsonValue): boolean {
  return isObject(value) && Object.values(value).every(isHollow)
}

/** Asks whether to keep the settings. Somebody who came over the network may be cut off by now, and then nobody answers. */
async function settle(client: ServiceClient, etag: string | undefined, trialS: number, person: Person): Promise<void> {
  const isKept = await person.ask(`Keep them? Otherwise they are undone in ${trialS} s.`)
  await client.send(isKept ? 'POST' : 'DELETE', '/system/confirm', undefined, etag)
  if (!isKept) throw new CommandError('the settings are as before')
}

function describe({ differences, leftOut }: Preview): readonly string[] {
  return [
    differences.length === 0 ? 'No setting would change.' : 'These settings would change:',
    ...differences.map(difference => `  ${describeDifference(difference)}`),
    ...(leftOut.length === 0 ? [] : ['This device cannot take:']),
    ...leftOut.map(refused => `  ${describeLeftOut(refused)}`),
  ]
}

/** Formats a difference: `/ntp/servers: [] → ["ntp.example.org"]`. */
export function describeDifference({ path, before, after }: Difference): string {
  return `${named(path)}: ${shown(before)} → ${shown(after)}`
}

/** Formats a refused part: `/ntp/servers: must be an array`. */
export function describeLeftOut({ path, reason }: LeftOut): string {
  return `${named(path)}: ${shortened(reason)}`
}

/** A path as it is shown: a device chooses the names in it. */
export function named(path: readonly string[]): string {
  return shortened(path.map(pointerStep).join(''))
}

function shown(value: Json | undefined): string {
  return shortened(`${JSON.stringify(value)}`)
}

function shortened(text: string): string {
  return printable(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)
}
