import { h, newId } from '../dom.ts'
import * as texts from '../texts.ts'
import type { Control, ControlOptions } from './control.ts'

/** A control for a number, with a slider if the range has both limits. */
export function number({ label, schema }: ControlOptions): Control {
  const { minimum, maximum, type } = schema
  const limits = { min: minimum, max: maximum, step: type === 'integer' ? 1 : 'any' }
  const input = h('input', {
    type: 'number',
    id: newId(),
    inputmode: type === 'integer' ? 'numeric' : 'decimal',
    ...limits,
  })
  const hasRange = minimum !== undefined && maximum !== undefined
  const slider = h('input', { type: 'range', 'aria-label': label, ...limits })
  slider.addEventListener('input', () => {
    input.value = slider.value
  })
  input.addEventListener('input', () => {
    slider.value = input.value
  })
  const why = () => (hasRange ? texts.range(minimum, maximum) : type === 'integer' ? texts.wholeNumber : texts.number)
  return {
    element: h('div', { class: 'number' }, input, hasRange && slider),
    inputs: [input, slider],
    get: () => (Number.isNaN(input.valueAsNumber) ? null : input.valueAsNumber),
    set: value => {
      input.value = slider.value = String(value ?? '')
    },
    invalid: () => (input.validity.valid && input.value !== '' ? [] : [{ pointer: '', detail: why() }]),
  }
}
