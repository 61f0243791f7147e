/** Labels for names and values of settings: from texts.ts, or derived from the names. */
import { isObject, type Json } from './json.ts'
import type { Schema } from './schema.ts'
import * as texts from './texts.ts'

/** `maxResolution` → `Max resolution`. */
export function labelOf(name: string): string {
  if (Object.hasOwn(texts.names, name)) return texts.names[name] ?? name
  const words = name.replace(/([a-z\d])([A-Z])/g, '$1 $2').replace(/[_-]+/g, ' ')
  const label = words.replace(/ [A-Z](?=[a-z])/g, start => start.toLowerCase())
  return label.charAt(0).toUpperCase() + label.slice(1)
}

/** Returns the help text of a control. @param path Names from the configuration down to the value. */
export function helpOf(path: readonly string[], { description }: Schema): string | undefined {
  const known = `${path[0]}.${path.at(-1)}`
  return Object.hasOwn(texts.helps, known) ? texts.helps[known] : description
}

/** Returns the label of an enumeration value. */
export function valueLabel(name: string, value: Json): string {
  const known = `${name}.${value}`
  if (Object.hasOwn(texts.values, known)) return texts.values[known] ?? String(value)
  return String(value)
}

/** Returns any value as text. */
export function valueText(name: string, value: Json | undefined): string {
  if (value === undefined || value === null || value === '') return texts.empty
  if (typeof value === 'boolean') return value ? texts.yes : texts.no
  if (Array.isArray(value)) return value.length === 0 ? texts.none : value.map(item => valueText(name, item)).join(', ')
  return isObject(value) ? JSON.stringify(value) : valueLabel(name, value)
}
