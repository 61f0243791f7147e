import type { Client } from '../cli/service-client.ts'
import { describeDifference, describeLeftOut } from '../cli/settings.ts'
import type { JsonObject } from '../json.ts'
import { type Difference, type Json, type Preview, previewOf } from '../settings-file/settings-file.ts'

/** What a device has, and what would change. */
export interface Comparison extends Preview {
  readonly etag: string | undefined
}

/** Asks a device what these settings would change. It changes nothing. */
export async function compare(client: Client, settings: JsonObject): Promise<Comparison> {
  const { body: system, etag } = await client.send('GET', '/system')
  const preview = await previewOf(settings, system, async patch => {
    const { body } = await client.send('PATCH', '/system?validateOnly=true', patch as JsonObject)
    return body
  })
  return { ...preview, etag }
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
      ? `/${difference.path.join('/')}: sent again, because a secret in it cannot be compared`
      : describeDifference(difference),
  )
}

/** Whether a configuration has everything that a change should bring, as far as it can be seen. */
export function holds(system: JsonObject, differences: readonly Difference[]): boolean {
  return differences.every(({ path, after }) => {
    let value: Json | undefined = system
    for (const name of path) value = isMember(value, name) ? value[name] : undefined
    return JSON.stringify(value) === JSON.stringify(after)
  })
}

function isMember(value: Json | undefined, name: string): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.hasOwn(value, name)
}
