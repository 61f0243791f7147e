import { h, newId } from '../dom.ts'
import * as texts from '../texts.ts'
import type { Control } from './control.ts'

/** A control for a time of day, or none. */
export function timeOfDay(): Control {
  let isBroken = false
  // Browsers fire no `input` event for hours without minutes.
  const keyup = () => {
    if (input.validity.badInput === isBroken) return
    isBroken = input.validity.badInput
    input.dispatchEvent(new Event('input', { bubbles: true }))
  }
  const input = h('input', { type: 'time', id: newId(), keyup })
  return {
    element: input,
    inputs: [input],
    get: () => (input.validity.badInput ? null : input.value),
    set: value => {
      input.value = String(value ?? '')
    },
    invalid: () => (input.validity.valid ? [] : [{ pointer: '', detail: texts.timeOfDay }]),
  }
}
