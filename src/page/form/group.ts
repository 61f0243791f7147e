import { foreign, h } from '../dom.ts'
import { isEqual, isObject, type Json, type JsonObject } from '../json.ts'
import { labelOf } from '../labels.ts'
import type { Schema } from '../schema.ts'
import { type Field, type FieldOptions, fieldFor } from './field.ts'

/**
 * The members of an object: those in its schema, or for a record those that the device has, all with the same schema.
 * Read-only members come first.
 */
export function group(options: FieldOptions): Field {
  const { path, schema, isReadOnly, choices, system } = options
  const members = new Map<string, Field>()
  const facts = h('dl', { class: 'facts', hidden: true })
  const entries = h('div', { class: 'entries' })

  let latest: JsonObject = {}
  /** The members whose condition holds. */
  const applicable = new Set<string>()

  const add = (name: string, member: Schema, value: Json) => {
    const label = schema.properties ? labelOf(name) : foreign(name)
    const field = fieldFor({ path: [...path, name], label, schema: member, value, isReadOnly, choices, system })
    members.set(name, field)
    ;(field.isFact ? facts : entries).append(field.element)
    facts.hidden = facts.childElementCount === 0
  }
  const update = (value: Json) => {
    if (!isObject(value)) return
    latest = value
    // It may come back, as an adapter that was unplugged.
    for (const [name, field] of members) {
      const isGone = !(name in value)
      field.element.hidden = isGone
      if (isGone) field.reset()
    }
    for (const [name, member] of membersOf(schema, value)) {
      const part = value[name]
      if (part === undefined) continue
      const known = members.get(name)
      if (known) known.update(part)
      else add(name, member, part)
    }
    showApplicable(false)
  }
  /** Returns a member's value with the user's entry applied. */
  const entered = (name: string) => members.get(name)?.patch() ?? latest[name]
  const showApplicable = (propose: boolean) => {
    for (const [name, field] of members) {
      const { 'x-only-with': only, 'x-propose-with': proposed } = schema.properties?.[name] ?? {}
      const condition = only ?? proposed
      if (!condition || field.isFact) continue
      const isApplicable = Object.entries(condition).every(([sibling, value]) => isEqual(entered(sibling), value))
      if (only) field.element.hidden = !isApplicable
      if (isApplicable === applicable.has(name)) continue
      if (isApplicable) applicable.add(name)
      else applicable.delete(name)
      if (!isApplicable) field.reset()
      else if (propose) field.propose?.()
    }
  }
  update(options.value)
  entries.addEventListener('input', () => showApplicable(true))
  const all = () => [...members.values()]
  return {
    element: h('div', { class: 'group' }, facts, entries),
    patch: () => {
      const changed = [...members].flatMap(([name, field]) => {
        const part = field.patch()
        return part === undefined ? [] : [[name, part] as const]
      })
      return changed.length === 0 ? undefined : Object.fromEntries(changed)
    },
    update,
    reset: () => {
      for (const field of members.values()) field.reset()
      showApplicable(false)
    },
    invalid: () => all().flatMap(field => field.invalid()),
    slots: () => all().flatMap(field => field.slots()),
  }
}

function membersOf(
  { properties, additionalProperties }: Schema,
  value: object,
): readonly (readonly [string, Schema])[] {
  if (properties) return Object.entries(properties)
  const member = typeof additionalProperties === 'object' ? additionalProperties : {}
  return Object.keys(value).map(name => [name, member])
}
