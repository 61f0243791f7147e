import { Check, Errors } from 'typebox/schema'
import type { TSchema } from 'typebox/type'
import { isObject, type JsonObject, type JsonValue, pointerStep } from './json.ts'
import type { FieldError } from './problem.ts'

/** As many as help whoever sent the value. */
export const MAX_ERRORS = 16

/** Why a value does not fit a schema, with pointers that begin at `pointer`; none where it does. */
export function schemaErrors(schema: TSchema, value: JsonValue, pointer: string): readonly FieldError[] {
  if (Check(schema, value)) return []
  const found = new Map<string, string>()
  for (const { keyword, instancePath, params } of Errors(schema, value)[1]) {
    // An unknown property is reported at itself, and what it breaks (`false` as a schema) says nothing more.
    if (keyword === 'boolean') found.set(instancePath, 'unknown property')
    else if (keyword !== 'additionalProperties' && !found.has(instancePath))
      found.set(instancePath, explain(keyword, { ...params }, schemaAt(schema, instancePath)))
  }
  return Array.from(found, ([path, detail]) => ({
    pointer: pointer + path,
    detail,
  })).slice(0, MAX_ERRORS)
}

/** The names in a `Keyed` object are the device's: a request neither adds one nor removes one. */
export function nameErrors(
  schema: TSchema,
  value: JsonValue,
  previous: JsonValue,
  pointer: string,
): readonly FieldError[] {
  const item = 'additionalProperties' in schema ? schema.additionalProperties : undefined
  if (typeof item !== 'object' || item === null || !isObject(value) || !isObject(previous)) return []
  const what = 'title' in item ? item.title : 'property'
  const missing = (from: JsonObject, names: JsonObject, detail: string) =>
    Object.keys(names)
      .filter(name => !Object.hasOwn(from, name))
      .map(name => ({ pointer: pointer + pointerStep(name), detail }))
  return [...missing(previous, value, `no such ${what}`), ...missing(value, previous, 'cannot be removed')]
}

/** Strings that no UTF-8 file can hold: a surrogate without its other half, from an escape such as `\ud800`. */
export function illFormedStrings(value: JsonValue, pointer = ''): readonly FieldError[] {
  if (typeof value === 'string')
    return value.isWellFormed() ? [] : [{ pointer, detail: 'a lone surrogate is no character' }]
  if (Array.isArray(value)) return value.flatMap((item, at) => illFormedStrings(item, pointer + pointerStep(at)))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([name, member]) =>
    name.isWellFormed()
      ? illFormedStrings(member, pointer + pointerStep(name))
      : [{ pointer, detail: 'the name of a property has a lone surrogate' }],
  )
}

/** What would be accepted. A pattern says little to a person: the description of what it stands in says what is meant. */
function explain(keyword: string, params: Readonly<Record<string, unknown>>, schema: TSchema | undefined): string {
  const { type, comparison, limit, requiredProperties, allowedValues } = params
  if (keyword === 'type') return `must be of type ${type}`
  if (keyword === 'required') return `cannot be without ${list(requiredProperties)}`
  if (keyword === 'enum') return `must be one of ${list(allowedValues)}`
  if (keyword === 'minimum' || keyword === 'maximum') return `must be ${comparison} ${limit}`
  if (keyword === 'maxItems') return `must not have more than ${limit} items`
  if (keyword === 'maxLength') return `must not have more than ${limit} characters`
  const description = schema && 'description' in schema ? schema.description : 'see the OpenAPI document'
  return `does not fit: ${description}`
}

function list(items: unknown): string {
  return Array.isArray(items) ? items.join(', ') : String(items)
}

function schemaAt(schema: TSchema, path: string): TSchema | undefined {
  let at: unknown = schema
  for (const step of path.split('/').slice(1)) {
    if (typeof at !== 'object' || at === null) return undefined
    if ('items' in at) at = at.items
    else if ('properties' in at) at = (at.properties as Record<string, unknown>)[step]
    else if ('additionalProperties' in at) at = at.additionalProperties
  }
  return at as TSchema | undefined
}
