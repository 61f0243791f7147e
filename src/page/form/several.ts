import { checkbox, h } from '../dom.ts'
import type { Json } from '../json.ts'
import { valueLabel } from '../labels.ts'
import type { Control, ControlOptions } from './control.ts'

/** A control for a subset of an enumeration's values. */
export function several({ name, label, schema }: ControlOptions): Control {
  const boxes = (schema.items?.enum ?? []).map((value: Json) => ({
    value,
    ...checkbox(valueLabel(name, value)),
  }))
  return {
    element: h('div', { role: 'group', class: 'several', 'aria-label': label }, ...boxes.map(({ row }) => row)),
    inputs: boxes.map(({ input }) => input),
    isGroup: true,
    get: () => boxes.filter(({ input }) => input.checked).map(({ value }) => value),
    set: values => {
      for (const { value, input } of boxes) input.checked = Array.isArray(values) && values.includes(value)
    },
  }
}
