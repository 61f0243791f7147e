import { foreign, h } from '../dom.ts'
import type { Json } from '../json.ts'
import { valueText } from '../labels.ts'
import { type Field, type FieldOptions, nameOf } from './field.ts'

/** A read-only value. */
export function fact({ path, label, value }: FieldOptions): Field {
  const shown = h('dd', {})
  const update = (value: Json) => {
    const parts = Array.isArray(value) && value.length > 0 ? value : [value]
    shown.replaceChildren(...parts.map(part => foreign(valueText(nameOf(path), part))))
  }
  update(value)
  return {
    element: h('div', {}, h('dt', {}, label), shown),
    isFact: true,
    patch: () => undefined,
    update,
    reset: () => undefined,
    invalid: () => [],
    slots: () => [],
  }
}
