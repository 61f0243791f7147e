import type { FieldError } from '../client.ts'
import type { Json, JsonObject } from '../json.ts'
import type { Schema } from '../schema.ts'
import type { Signal } from '../signal.ts'
import { entry } from './entry.ts'
import type { ErrorSlot } from './error-slot.ts'
import { fact } from './fact.ts'
import { fieldset } from './fieldset.ts'

/** A value of the configuration on the page, and what somebody enters in its place. */
export interface Field {
  readonly element: HTMLElement
  /** It only shows: a row of a description list. */
  readonly isFact?: true
  /** The part of a merge patch (RFC 7396) that makes of the device's value what was entered; undefined if nothing was. */
  patch(): Json | undefined
  /** Takes the value that the device has now, and leaves alone any text that is being entered. */
  update(value: Json): void
  /** Enters a value that suits the device, where there is none. */
  propose?(): void
  /** Forgets what was entered. */
  reset(): void
  /** Entries that cannot be sent. */
  invalid(): readonly FieldError[]
  /** Where errors go, by pointer. */
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
