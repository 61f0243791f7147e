import type { FieldError } from '../client.ts'
import type { Json } from '../json.ts'
import type { Schema } from '../schema.ts'
import { choice } from './choice.ts'
import type { ErrorSlot } from './error-slot.ts'
import { jsonText } from './json-text.ts'
import { list } from './list.ts'
import { number } from './number.ts'
import { several } from './several.ts'
import { timeOfDay } from './time-of-day.ts'
import { toggle } from './toggle.ts'
import { withSuggestions } from './with-suggestions.ts'

/** A control to enter a value with. It fires `input` events that bubble. */
export interface Control {
  readonly element: HTMLElement
  /** Elements that can have the focus; the first visible one has the label. */
  readonly inputs: readonly HTMLElement[]
  /** It consists of several controls, and names itself. */
  readonly isGroup?: true
  get(): Json
  set(value: Json): void
  /** Entries that cannot be sent; pointers are relative to the control. */
  invalid?(): readonly FieldError[]
  /** Where the errors of its parts go, by relative pointer. */
  slots?(): readonly (readonly [string, ErrorSlot])[]
  suggest?(choices: readonly string[]): void
  /** Shows what an empty value stands for. */
  explainEmpty?(meaning: string): void
}

export interface ControlOptions {
  readonly name: string
  readonly label: string
  readonly schema: Schema
}

/** The control that suits a schema. A value of a kind that the page does not know is entered as JSON. */
export function controlFor(options: ControlOptions): Control {
  const { schema } = options
  if (schema.enum) return choice(options)
  if (schema.type === 'boolean') return toggle()
  if (schema.type === 'integer' || schema.type === 'number') return number(options)
  if (schema['x-time-of-day']) return timeOfDay()
  if (schema.type === 'string') return withSuggestions(options)
  if (schema.type === 'array' && schema.items?.enum && schema.items.enum.length === schema.maxItems)
    return several(options)
  if (schema.type === 'array' && schema.items && isScalar(schema.items)) return list(options)
  return jsonText()
}

function isScalar({ type = '' }: Schema): boolean {
  return ['string', 'integer', 'number', 'boolean'].includes(type)
}
