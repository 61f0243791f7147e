import type { FieldError } from '../client.ts'
import type { Json, JsonObject } from '../json.ts'
import type { Schema } from '../schema.ts'
import type { Signal } from '../signal.ts'
import { entry } from './entry.ts'
import type { ErrorSlot } from './error-slot.ts'
import { fact } from './fact.ts'
import { fieldset } from './fieldset.ts'

/** A value of the configuration on the page, and the user's entry for it. */
export interface Field {
  readonly element: HTMLElement
  /** Set if the field is read-only: a row of a description list. */
  readonly isFact?: true
  /** Returns the entry as part of a merge patch (RFC 7396) of the device's value; undefined if nothing was entered. */
  patch(): Json | undefined
  /** Adopts the device's current value, without overwriting an entry. */
  update(value: Json): void
  /** Enters the value that the device proposes, if the field is empty. */
  propose?(): void
  /** Discards the entry. */
  reset(): void
  /** Returns the errors of entries that cannot be sent. */
  invalid(): readonly FieldError[]
  /** Returns the error slots by pointer. */
  slots(): readonly (readonly [string, ErrorSlot])[]
}

export interface FieldOptions {
  /** Names from the configuration down to the value. */
  readonly path: readonly string[]
  readonly label: Node | string
  readonly schema: Schema
  readonly value: Json
  readonly isReadOnly: boolean
  /** Values that the device would accept. */
  readonly choices: Signal<JsonObject>
  /** The whole configuration. */
  readonly system: Signal<JsonObject>
}

export function fieldFor(options: FieldOptions): Field {
  const { schema } = options
  if (schema.properties || typeof schema.additionalProperties === 'object') return fieldset(options)
  return options.isReadOnly || schema.readOnly ? fact(options) : entry(options)
}

export function nameOf(path: readonly string[]): string {
  return path.at(-1) ?? ''
}
