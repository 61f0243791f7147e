export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export interface JsonObject {
  readonly [name: string]: Json
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isEqual(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, at) => isEqual(item, b[at]))
  if (!isObject(a) || !isObject(b)) return false
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every(name => isEqual(a[name], b[name]))
}

/** Returns one step of a JSON Pointer (RFC 6901), escaped. */
export function step(name: string | number): string {
  return `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}
