import { h, newId } from '../dom.ts'
import * as texts from '../texts.ts'
import type { Control } from './control.ts'

/** Hours and minutes, or nothing. */
export function timeOfDay(): Control {
  let isBroken = false
  // Browsers say nothing about hours without minutes.
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
