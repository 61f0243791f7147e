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

/** A control for entering a value. It fires bubbling `input` events. */
export interface Control {
  readonly element: HTMLElement
  /** Focusable elements; the label belongs to the first visible one. */
  readonly inputs: readonly HTMLElement[]
  /** Set if the control consists of several, and has its own accessible name. */
  readonly isGroup?: true
  get(): Json
  set(value: Json): void
  /** Returns the errors of entries that cannot be sent; pointers are relative to the control. */
  invalid?(): readonly FieldError[]
  /** Returns the error slots of the control's parts, by relative pointer. */
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

/** Returns a control that suits the schema. Values of unknown kinds are entered as JSON. */
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
