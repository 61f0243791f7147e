import { h } from '../dom.ts'
import type { Field, FieldOptions } from './field.ts'
import { group } from './group.ts'

/** A nested object, under its own name. */
export function fieldset(options: FieldOptions): Field {
  const inner = group(options)
  const { description } = options.schema
  const help = h('p', { class: 'help' }, description)
  return {
    ...inner,
    element: h('fieldset', {}, h('legend', {}, options.label), description !== undefined && help, inner.element),
  }
}
