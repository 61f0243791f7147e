import { h, newId } from '../dom.ts'
import type { Json } from '../json.ts'
import { valueLabel } from '../labels.ts'
import type { Control, ControlOptions } from './control.ts'

/** A control for one of the values of an enumeration, of any type. */
export function choice({ name, schema }: ControlOptions): Control {
  const values: readonly Json[] = schema.enum ?? []
  const options = values.map((value, at) => h('option', { value: at }, valueLabel(name, value)))
  const select = h('select', { id: newId() }, ...options)
  return {
    element: select,
    inputs: [select],
    get: () => values[Number(select.value)] ?? null,
    set: value => {
      select.value = String(values.indexOf(value))
    },
  }
}
