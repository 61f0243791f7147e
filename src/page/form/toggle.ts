import { h, newId } from '../dom.ts'
import type { Control } from './control.ts'

/** A control for a boolean: a switch. */
export function toggle(): Control {
  const input = h('input', { type: 'checkbox', role: 'switch', id: newId() })
  return {
    element: input,
    inputs: [input],
    get: () => input.checked,
    set: value => {
      input.checked = value === true
    },
  }
}
