import { Check, Errors } from 'typebox/schema'
import type { TSchema } from 'typebox/type'
import { closest } from '../hal/format/closest.ts'
import { isObject, type JsonObject, type JsonValue, pointerStep } from './json.ts'
import { type FieldError, Problem, type ProblemKind } from './problem.ts'

/** Maximum number of errors in a response: more would not help anybody. */
export const MAX_ERRORS = 16
/** Maximum number of code points in a string whose schema has no `maxLength`. */
export const MAX_STRING = 1_024

/** Returns why a value does not match a schema, with pointers that begin with `pointer`; empty if it matches. */
export function schemaErrors(schema: TSchema, value: JsonValue, pointer: string): readonly FieldError[] {
  // Checked before anything else reads the value: a string that is too long must not reach a pattern.
  const oversized: FieldError[] = []
  addOversized(schema, value, pointer, oversized)
  if (oversized.length > 0 || Check(schema, value)) return oversized.slice(0, MAX_ERRORS)
  const found = new Map<string, string>()
  for (const { keyword, instancePath, params } of Errors(schema, value)[1]) {
    // An unknown property is reported at the property itself, not at the object that does not allow it. The schema that it
    // fails to match is `false`, which explains nothing.
    if (keyword === 'boolean') found.set(instancePath, unknownAt(schema, stepsOf(instancePath)))
    else if (keyword !== 'additionalProperties' && !found.has(instancePath))
      found.set(instancePath, explain(keyword, { ...params }, schemaAt(schema, stepsOf(instancePath))))
  }
  return Array.from(found, ([path, detail]) => ({ pointer: pointer + path, detail })).slice(0, MAX_ERRORS)
}

/** Returns the problem for a body with refused values: all of them at once, up to a limit. */
export function refusal(kind: ProblemKind, errors: readonly FieldError[]): Problem {
  const [first] = errors
  const clause =
    first && errors.length === 1
      ? `${first.pointer || 'The body'}: ${first.detail}`
      : `${errors.length} values were refused`
  // Limited, because each pointer repeats the names above it: 64 KiB of body could be refused with 78 MB.
  return new Problem(kind, `${clause}${clause.endsWith('?') ? '' : '.'} Nothing has changed.`, {
    errors: errors.slice(0, MAX_ERRORS),
  })
}

/** Refuses changed names in a `Keyed` object: they come from the device, so a request can neither add nor remove one. */
export function nameErrors(
  schema: TSchema,
  value: JsonValue,
  previous: JsonValue,
  pointer: string,
): readonly FieldError[] {
  const item = 'additionalProperties' in schema ? schema.additionalProperties : undefined
  if (typeof item !== 'object' || item === null || !isObject(value) || !isObject(previous)) return []
  const kind = 'title' in item ? item.title : 'property'
  const names = Object.keys(previous).slice(0, MAX_ERRORS).join(', ')
  const unknown = `no such ${kind}; this device has ${names || 'none'}`
  const missing = (from: JsonObject, names: JsonObject, detail: string) =>
    Object.keys(names)
      .filter(name => !Object.hasOwn(from, name))
      .map(name => ({ pointer: pointer + pointerStep(name), detail }))
  return [...missing(previous, value, unknown), ...missing(value, previous, 'cannot be removed')]
}

/** Finds strings that no UTF-8 file can hold, because of an unpaired surrogate from an escape such as `\ud800`. */
export function illFormedStrings(value: JsonValue, pointer = ''): readonly FieldError[] {
  if (typeof value === 'string')
    return value.isWellFormed() ? [] : [{ pointer, detail: 'must not contain an unpaired surrogate' }]
  if (Array.isArray(value)) return value.flatMap((item, at) => illFormedStrings(item, pointer + pointerStep(at)))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([name, member]) =>
    name.isWellFormed()
      ? illFormedStrings(member, pointer + pointerStep(name))
      : [{ pointer, detail: 'must not contain a property whose name has an unpaired surrogate' }],
  )
}

/** Adds an error for each string and each array that exceeds its limit, and does not descend into such an array. */
function addOversized(schema: unknown, value: JsonValue, pointer: string, errors: FieldError[]): void {
  // The property is not allowed at all, whatever its size.
  if (schema === false) return
  if (typeof value === 'string') {
    const limit = numberIn(schema, 'maxLength') ?? MAX_STRING
    if (isLonger(value, limit)) errors.push({ pointer, detail: `must not have more than ${limit} characters` })
  } else if (Array.isArray(value)) {
    const limit = numberIn(schema, 'maxItems') ?? Number.POSITIVE_INFINITY
    if (value.length > limit) errors.push({ pointer, detail: `must not have more than ${limit} items` })
    else for (const [at, item] of value.entries()) addOversized(memberOf(schema, at), item, `${pointer}/${at}`, errors)
  } else if (isObject(value)) {
    for (const [name, member] of Object.entries(value))
      addOversized(memberOf(schema, name), member, pointer + pointerStep(name), errors)
  }
}

/** Compares by code points, as JSON Schema counts: each is one or two UTF-16 units of the string. */
function isLonger(text: string, limit: number): boolean {
  return text.length > 2 * limit || (text.length > limit && [...text].length > limit)
}

function numberIn(schema: unknown, keyword: string): number | undefined {
  const value = propertyOf(schema, keyword)
  return typeof value === 'number' ? value : undefined
}

/** @param known The names that would be accepted. */
export function unknownProperty(name: string, known: readonly string[]): string {
  const meant = closest(name, known)
  return meant === undefined ? 'unknown property' : `unknown property; did you mean ${meant}?`
}

function unknownAt(schema: TSchema, steps: readonly string[]): string {
  const known = propertyOf(schemaAt(schema, steps.slice(0, -1)), 'properties')
  return unknownProperty(steps.at(-1) ?? '', typeof known === 'object' && known !== null ? Object.keys(known) : [])
}

/** Describes the accepted values. The description of a pattern is easier to read than the pattern. */
function explain(keyword: string, params: Readonly<Record<string, unknown>>, schema: unknown): string {
  const { type, limit, requiredProperties, allowedValues } = params
  if (keyword === 'type') return `must be of type ${type}`
  if (keyword === 'required') return missing(requiredProperties)
  if (keyword === 'enum') return `must be one of ${list(allowedValues)}`
  if (keyword === 'minimum') return `must be at least ${limit}`
  if (keyword === 'maximum') return `must be at most ${limit}`
  const description = propertyOf(schema, 'description')
  return `invalid value; expected: ${typeof description === 'string' ? description.replace(/\.$/, '') : 'see the OpenAPI document'}`
}

function missing(names: unknown): string {
  return `missing required ${Array.isArray(names) && names.length > 1 ? 'properties' : 'property'} ${list(names)}`
}

function list(items: unknown): string {
  return Array.isArray(items) ? items.join(', ') : String(items)
}

/** Returns the names on the way to a value, from its pointer (RFC 6901 §4). */
function stepsOf(path: string): readonly string[] {
  return path
    .split('/')
    .slice(1)
    .map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function schemaAt(schema: unknown, steps: readonly string[]): unknown {
  return steps.reduce<unknown>(memberOf, schema)
}

/** Returns the schema of a member: by its name, for any name, or for any item. */
export function memberOf(schema: unknown, step: string | number): unknown {
  return (
    propertyOf(schema, 'items') ??
    propertyOf(propertyOf(schema, 'properties'), String(step)) ??
    propertyOf(schema, 'additionalProperties')
  )
}

export function propertyOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined
}
