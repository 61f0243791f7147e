/** Settings of a device in a file: a JSON Merge Patch of its configuration in a small envelope. */

export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export interface JsonObject {
  readonly [name: string]: Json
}

/** The part of a JSON Schema that determines what goes into the file, and what is on trial when it is loaded. */
export interface Schema {
  readonly format?: string
  readonly readOnly?: boolean
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: boolean | Schema
  readonly 'x-identity'?: boolean
  readonly 'x-secret-query'?: boolean
  readonly 'x-confirm-within'?: number
}

const FORMAT = 'receiverd-settings'
/** Goes up if an older program would misread the file. A new setting does not need a new version. */
const VERSION = 1
const SECRET = 'password'
/** The end of an address whose query the device masks (hal/format/bundle-url.ts, which the page cannot import). */
const MASK = '?…'
/** The limit for a request body. */
export const MAX_FILE_BYTES = 64 * 1024

/**
 * Returns the text of the file: the writable part of a configuration, without secrets.
 * @param withIdentity Whether to include names and addresses.
 */
export function settingsFile(schema: Schema, system: JsonObject, withIdentity: boolean): string {
  const { hardware, firmware } = system as Readonly<Record<string, JsonObject | undefined>>
  const device = { model: hardware?.model ?? '', version: firmware?.version ?? '' }
  const settings = savedSettings(schema, system, withIdentity)
  return `${JSON.stringify({ format: FORMAT, version: VERSION, device, settings }, null, 2)}\n`
}

/** Returns the settings that go into the file. */
export function savedSettings(schema: Schema, system: JsonObject, withIdentity: boolean): JsonObject {
  return (saved(schema, system, withIdentity) ?? {}) as JsonObject
}

/** Returns the settings in a file, unchecked, or why it has none that can be loaded. */
export function settingsIn(text: string): JsonObject | 'foreign' | 'newer' {
  // Some editors put a byte-order mark at the beginning.
  const file = parsed(text.replace(/^\ufeff/, ''))
  if (!isObject(file) || file.format !== FORMAT || typeof file.version !== 'number') return 'foreign'
  if (file.version > VERSION) return 'newer'
  return isObject(file.settings) ? file.settings : 'foreign'
}

/** A part of the file that the device does not accept. */
export interface LeftOut {
  readonly path: readonly string[]
  /** The reason, without a final period. */
  readonly reason: string
}

/** A value that would change. */
export interface Difference {
  readonly path: readonly string[]
  readonly before: Json | undefined
  readonly after: Json
}

export interface Preview {
  /** The patch to send: the settings that would change, without those that are left out. */
  readonly patch: JsonObject
  readonly differences: readonly Difference[]
  readonly leftOut: readonly LeftOut[]
}

interface FieldError {
  readonly pointer: string
  readonly detail: string
}

/**
 * Determines the effect that loading a file would have. Settings that the device refuses are left out, and the rest is tried
 * again, until nothing is refused.
 * @param system The current configuration.
 * @param validate Asks the device. Rejects with an error that has `errors` if a part is refused.
 */
export async function previewOf(
  settings: JsonObject,
  system: JsonObject,
  validate: (patch: JsonObject) => Promise<{ readonly changes?: Json }>,
): Promise<Preview> {
  const leftOut: LeftOut[] = []
  for (let rest = settings; ; ) {
    try {
      const { changes = {} } = (await validate(rest)) as { readonly changes?: JsonObject }
      const patch = Object.fromEntries(Object.entries(rest).filter(([name]) => Object.hasOwn(changes, name)))
      return { patch, differences: Object.entries(changes).flatMap(entry => changed(system, ...entry)), leftOut }
    } catch (error) {
      const { errors = [] } = error as { readonly errors?: readonly FieldError[] }
      const refused = new Map(errors.map(refusal => [JSON.stringify(nearest(rest, refusal)), refusal.detail]))
      if (refused.size === 0 || refused.has('[]')) throw error
      for (const [key, reason] of refused) {
        const path: readonly string[] = JSON.parse(key)
        rest = without(rest, path)
        leftOut.push({ path, reason })
      }
    }
  }
}

function saved(schema: Schema, value: Json, withIdentity: boolean): Json | undefined {
  if (schema.readOnly || schema.format === SECRET || (schema['x-identity'] && !withIdentity)) return undefined
  // Only a device that already has the whole address accepts a masked one.
  if (schema['x-secret-query'] && typeof value === 'string' && value.endsWith(MASK)) return undefined
  // A list is replaced whole when it is loaded: even an empty one would remove the secrets of the device that loads it.
  if (Array.isArray(value)) return hasSecret(schema.items ?? {}) ? undefined : value
  if (!isObject(value)) return value
  const members = Object.entries(value).flatMap(([name, member]) => {
    const part = saved(schemaOf(schema, name), member, withIdentity)
    return part === undefined ? [] : [[name, part] as const]
  })
  return members.length === 0 ? undefined : Object.fromEntries(members)
}

/** Reports whether values of the schema can contain a secret. */
function hasSecret({ format, items, properties = {}, additionalProperties }: Schema): boolean {
  const more = typeof additionalProperties === 'object' ? [additionalProperties] : []
  return format === SECRET || [...Object.values(properties), ...more, ...(items ? [items] : [])].some(hasSecret)
}

/** Returns the schema of a property. A property that the schema does not have cannot be written. */
function schemaOf({ properties, additionalProperties }: Schema, name: string): Schema {
  return properties?.[name] ?? (typeof additionalProperties === 'object' ? additionalProperties : { readOnly: true })
}

/** Returns the differing values in a changed setting; the whole setting if no difference is visible, as with a secret. */
function changed(system: JsonObject, name: string, after: Json): readonly Difference[] {
  const whole = { path: [name], before: system[name], after }
  const found = differences(whole)
  return found.length === 0 ? [whole] : found
}

function differences({ path, before, after }: Difference): readonly Difference[] {
  if (!isObject(after)) return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }]
  return Object.entries(after).flatMap(([name, member]) =>
    differences({ path: [...path, name], before: isObject(before) ? before[name] : undefined, after: member }),
  )
}

/** Returns the path of the deepest member on the way to a pointer (RFC 6901). A list is one value: it is replaced whole. */
function nearest(settings: JsonObject, { pointer }: FieldError): readonly string[] {
  const path: string[] = []
  let value: Json | undefined = settings
  for (const step of pointer.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    if (!isObject(value) || !Object.hasOwn(value, name)) break
    path.push(name)
    value = value[name]
  }
  return path
}

function without(settings: JsonObject, [first = '', ...rest]: readonly string[]): JsonObject {
  const entries = Object.entries(settings).flatMap(([name, member]) => {
    if (name !== first) return [[name, member] as const]
    return rest.length > 0 && isObject(member) ? [[name, without(member, rest)] as const] : []
  })
  return Object.fromEntries(entries)
}

function parsed(text: string): Json | undefined {
  try {
    const value = JSON.parse(text)
    // A value that is nested too deeply could not be sent.
    JSON.stringify(value)
    return value
  } catch {
    return undefined
  }
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
