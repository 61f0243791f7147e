import { CommandError } from '../cli/failure.ts'
import type { Client } from '../cli/service-client.ts'
import { describeDifference, describeLeftOut, named } from '../cli/settings.ts'
import { isObject, type JsonObject, type JsonValue } from '../json.ts'
import { Document } from '../page/schema.ts'
import { type Difference, type Preview, previewOf } from '../settings-file/settings-file.ts'

/** The configuration of a device, and the changes that it would get. */
export interface Comparison extends Preview {
  readonly etag: string | undefined
}

/** Limit on a configuration in characters: many times the size of any device's. */
const MAX_CONFIGURATION = 256 * 1024
/** Limit on the levels of a configuration: a report indents each of them. */
const MAX_LEVELS = 16

/** Asks a device what these settings would change. It changes nothing. */
export async function compare(client: Client, settings: JsonObject): Promise<Comparison> {
  const { body: system, etag } = await client.send('GET', '/system')
  const preview = await previewOf(settings, bounded(system), async patch => {
    const { body } = await client.send('PATCH', '/system?validateOnly=true', patch as JsonObject)
    return bounded(body)
  })
  // A device may claim that other settings would change as well.
  const differences = preview.differences.filter(({ path }) => isWithin(settings, path))
  return { ...preview, differences, etag }
}

/** Whether a path lies within settings. A value that is no object was sent as a whole, with all that is in it. */
function isWithin(settings: JsonValue | undefined, [name, ...rest]: readonly string[]): boolean {
  if (name === undefined || !isObject(settings)) return true
  return Object.hasOwn(settings, name) && isWithin(settings[name], rest)
}

/** Refuses a configuration without an end: all of it may be shown to a person. */
function bounded(configuration: JsonObject): JsonObject {
  if (isFlat(configuration, MAX_LEVELS) && JSON.stringify(configuration).length <= MAX_CONFIGURATION)
    return configuration
  throw new CommandError('its configuration has no end: it is no receiver')
}

/** Whether a value has no more than these levels. */
function isFlat(value: JsonValue, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every(member => isFlat(member, levels - 1))
}

/** The properties of a device's configuration. */
export async function schemaOf(client: Client): Promise<Document['system']> {
  const { body } = await client.send('GET', '/openapi.json')
  try {
    return new Document(body as ConstructorParameters<typeof Document>[0]).system
  } catch {
    throw new CommandError('its description of the API has no end: it is no receiver')
  }
}

/** Whether nothing that can be seen would change: a password never can. */
export function isHidden({ before, after }: Difference): boolean {
  return JSON.stringify(before) === JSON.stringify(after)
}

/** The members that a device refuses, each with its reason. */
export function refusalOf({ leftOut }: Preview): string {
  return `it refuses ${leftOut.map(describeLeftOut).join('; ')}`
}

/** A line for each difference. */
export function linesOf({ differences }: Preview): readonly string[] {
  return differences.map(difference =>
    isHidden(difference)
      ? `${named(difference.path)}: sent again, because a secret in it cannot be compared`
      : describeDifference(difference),
  )
}

/** Whether a configuration has everything that a change should bring, as far as it can be seen. */
export function holds(system: JsonObject, differences: readonly Difference[]): boolean {
  return differences.every(({ path, after }) => {
    let value: JsonValue | undefined = system
    for (const name of path) value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
    return JSON.stringify(value) === JSON.stringify(after)
  })
}
